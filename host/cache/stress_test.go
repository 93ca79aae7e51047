package cache

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// TestConcurrentUseEndsConsistent runs all operations concurrently, and then
// compares the store, the events and the edges with the server.
func TestConcurrentUseEndsConsistent(t *testing.T) {
	const rounds = 300
	p := newPeer(t)
	var mu sync.Mutex
	wakeups := map[Owner]int{}
	c := open(t, p, Config{IdleAfter: time.Millisecond}, Hooks{Wake: func(o Owner, _ Event, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		wakeups[o]++
	}})
	i := acquire(t, c)
	events := map[object.Key]string{}
	t.Cleanup(i.follow(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.New == nil {
			delete(events, e.Old.Key())
			return
		}
		events[e.New.Key()] = e.New.ResourceVersion
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
	loop(func(ctx context.Context, _ int) { _ = waitReached(ctx, i, p.put("b", name())) })
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
			run := begin(c, o, &OwnWrites{})
			_, _ = run.Get(widget, object.Key{Namespace: "a", Name: name()}, whole)
			_, _ = run.List(Reading{Kind: widget, Namespaces: []string{"a"}, Selector: selector(t, "app="+name())})
			_, _ = run.List(Reading{Kind: widget, Selector: selector(t, "app!="+name())})
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
		another, err := c.Acquire(ctx, scope.All(widget))
		if err != nil {
			t.Error(err)
			return
		}
		remove := another.follow(func(Event) {})
		another.List("", nil)
		c.Stats()
		remove()
		another.Release()
	})
	all.Wait()

	reader := Owner{Controller: "last", Key: me.Key}
	run := begin(c, reader, &OwnWrites{})
	if _, err := run.List(Reading{Kind: widget}); err != nil {
		t.Fatal(err)
	}
	run.Commit()
	marked := make(chan struct{})
	t.Cleanup(i.follow(func(e Event) {
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
	if len(stored) != len(p.objects) || !maps.Equal(stored, events) {
		t.Errorf("the server has %d objects, the store %d, the events %d", len(p.objects), len(stored), len(events))
	}
	if wakeups[reader] == 0 {
		t.Error("Wake was not called for the last reader")
	}
}
