package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// busyGuest has calls of a second and counts how many there are at once.
type busyGuest struct {
	noTurns
	testPlugin
	now, ended atomic.Int64
}

func (g *busyGuest) Reconcile(context.Context, sandbox.Call) (sandbox.Return, error) {
	g.now.Add(1)
	defer g.now.Add(-1)
	time.Sleep(time.Second) // fake time
	g.ended.Add(1)
	return returns(&abi.Result{})
}

// Each step changes the number of workers in the middle of the runs of a second.
// Those in progress end; no more begin than the new number allows.
func TestWorkersChangeWhileKeysRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 400
		g := &busyGuest{}
		q := queue.New(queue.Config{})
		c := New(Config{
			Name: "c", Workers: 2, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(),
		}, q, &Revision{Number: 1, Guest: g, Effects: g, Controller: abi.Controller{Name: "c"}})
		for i := range objects {
			q.Add(object.Key{Name: fmt.Sprint(i)}, queue.Cause{Reason: abi.ReasonResync})
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			c.Run(ctx)
			close(ended)
		}()
		expectBusy := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := g.now.Load(); n != want {
				t.Fatalf("%d runs at once, want %d", n, want)
			}
		}
		time.Sleep(time.Second / 2) // fake time
		expectBusy(2)
		before := int64(2)
		for _, n := range []int64{8, 3, 1, 1, 5, 2, 64, 1} {
			c.SetWorkers(int(n))
			expectBusy(max(before, n)) // a smaller number ends no run
			time.Sleep(time.Second)    // fake time
			expectBusy(n)
			before = n
		}
		c.SetWorkers(100)
		time.Sleep(20 * time.Second) // fake time
		synctest.Wait()
		if n := g.ended.Load(); n != objects || q.Len() != 0 {
			t.Errorf("%d of %d objects were reconciled, %d are in the queue", n, objects, q.Len())
		}
		for range 200 { // between two sizes, with keys that come one at a time
			c.SetWorkers(1)
			c.SetWorkers(3)
			c.SetWorkers(1)
			q.Add(object.Key{Name: "a"}, queue.Cause{Reason: abi.ReasonPrimary})
			q.Add(object.Key{Name: "b"}, queue.Cause{Reason: abi.ReasonPrimary})
			expectBusy(1)
			time.Sleep(3 * time.Second) // fake time
		}
		stop()
		<-ended
	})
}

// handingGuest has one instance, for which its calls wait.
type handingGuest struct {
	noTurns
	testPlugin
	q        *queue.Queue
	instance chan struct{}
	runs     atomic.Int64
}

func (g *handingGuest) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	<-g.instance
	g.runs.Add(1)
	g.instance <- struct{}{}
	g.q.Add(object.Key{Name: fmt.Sprint(g.runs.Load() % 400)}, queue.Cause{Reason: abi.ReasonResync})
	return returns(&abi.Result{})
}

// A goroutine that lets others run has its turn after some runs, also while there is
// always a key that is due and a worker that waits for the instance which another has.
func TestWorkersLetOtherGoroutinesRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const workers, turns = 8, 200
	g := &handingGuest{q: queue.New(queue.Config{}), instance: make(chan struct{}, 1)}
	g.instance <- struct{}{}
	c := New(Config{
		Name: "c", Workers: workers, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(),
	}, g.q, &Revision{Number: 1, Guest: g, Effects: g, Controller: abi.Controller{Name: "c"}})
	for i := range 400 {
		g.q.Add(object.Key{Name: fmt.Sprint(i)}, queue.Cause{Reason: abi.ReasonResync})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		c.Run(ctx)
		close(ended)
	}()
	var between []int64
	for range turns {
		before := g.runs.Load()
		runtime.Gosched()
		between = append(between, g.runs.Load()-before)
	}
	stop()
	<-ended
	slices.Sort(between)
	if median := between[turns/2]; median == 0 || median > 2*workers {
		t.Errorf("another goroutine waits for %d runs at the median, want 1 to %d", median, 2*workers)
	}
}
