package cache

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// TestStress lets everything happen at once, for the race detector, and then
// looks whether cache, events and edges agree with the server.
func TestStress(t *testing.T) {
	const rounds = 300
	p := newPeer(t)
	var mu sync.Mutex
	woken := map[Owner]int{}
	c := open(t, p, Config{IdleAfter: time.Millisecond, Wake: func(o Owner, _ Cause) {
		mu.Lock()
		defer mu.Unlock()
		woken[o]++
	}})
	i := follow(t, c)
	heard := map[object.Key]string{}
	t.Cleanup(i.AddHandler(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.New == nil {
			delete(heard, e.Old.Key())
			return
		}
		heard[e.New.Key()] = e.New.ResourceVersion
	}))
	name := func() string { return fmt.Sprint(rand.IntN(20)) }
	var all sync.WaitGroup
	loop := func(step func(ctx context.Context, round int)) {
		ctx := within(t)
		all.Go(func() {
			for round := range rounds {
				step(ctx, round)
			}
		})
	}
	loop(func(context.Context, int) { p.put("a", name(), `"labels":{"app":"`+name()+`"}`) })
	loop(func(ctx context.Context, _ int) { _ = i.WaitReached(ctx, p.put("b", name())) })
	loop(func(_ context.Context, round int) {
		p.mu.Lock()
		_, there := p.objects["a/5"]
		p.mu.Unlock()
		if there {
			p.remove("a", "5")
		}
		if round%100 == 99 {
			p.cutWatches()
		}
	})
	for worker := range 3 {
		loop(func(ctx context.Context, round int) {
			o := Owner{Controller: fmt.Sprint(worker), Key: object.Key{Name: name()}}
			run := c.Begin(o)
			_, _, _ = run.Get(ctx, widget, object.Key{Namespace: "a", Name: name()})
			_, _ = run.List(ctx, widget, "a", selector(t, "app="+name()))
			_, _ = run.List(ctx, widget, "", selector(t, "app!="+name()))
			if round%3 == 0 {
				run.Abandon()
			}
			run.Commit()
			if round%10 == 0 {
				c.Forget(o)
			}
			if round%150 == 0 {
				c.ForgetController(o.Controller)
			}
		})
	}
	loop(func(ctx context.Context, _ int) {
		another, err := c.Acquire(ctx, widget)
		if err != nil {
			t.Error(err)
			return
		}
		remove := another.AddHandler(func(Event) {})
		another.List("", nil)
		c.Stats()
		remove()
		another.Release()
	})
	all.Wait()

	reader := Owner{Controller: "last", Key: me.Key}
	run := c.Begin(reader)
	if _, err := run.List(within(t), widget, "", nil); err != nil {
		t.Fatal(err)
	}
	run.Commit()
	marked := make(chan struct{})
	t.Cleanup(i.AddHandler(func(e Event) {
		if e.Object().Name == "end" {
			close(marked)
		}
	}))
	p.put("end", "end")
	receive(t, marked)
	mu.Lock()
	defer mu.Unlock()
	stored := map[object.Key]string{}
	for _, o := range i.List("", nil) {
		stored[o.Key()] = o.ResourceVersion
	}
	if len(stored) != len(p.objects) || !maps.Equal(stored, heard) {
		t.Errorf("the server has %d objects, the store %d, heard of %d", len(p.objects), len(stored), len(heard))
	}
	if woken[reader] == 0 {
		t.Error("the last reader was not woken")
	}
}
