package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// A plugin with 5,000 objects in two controllers fails for all of them, beside a
// neighbour. While it is broken, next to nothing runs; once it works, everything
// does.
func TestABrokenPluginIsSlowedAndNotItsNeighbour(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration // a failing call
		maxRuns int           // that fail in ten minutes
	}{
		// Runs that open the breaker, runs in progress at that time, probes.
		"at once":            {0, 10 + 15 + 80},
		"after its deadline": {10 * time.Second, 5 + 15 + 14},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var works atomic.Bool
				slots := make(chan struct{}, 2)
				bad := startPlugin(t, slots, c.takes, func(object.Key) bool { return !works.Load() }, 2500, 2500)
				good := startPlugin(t, slots, 0, func(object.Key) bool { return false }, 1000)

				time.Sleep(10 * time.Minute) // fake time
				if bad.opened.Load() != 1 || bad.breaker.Status().State == BreakerClosed {
					t.Fatalf("the breaker is %+v and was opened %d times", bad.breaker.Status(), bad.opened.Load())
				}
				if n := bad.failures(); n > c.maxRuns {
					t.Errorf("%d runs failed in ten minutes", n)
				}
				// Each key is taken once, and held, and again for each of its runs.
				if n := bad.taken.Load(); n > int64(5000+2*c.maxRuns) {
					t.Errorf("%d keys were taken in ten minutes", n)
				}
				t.Logf("%d runs, %d keys taken", bad.failures(), bad.taken.Load())
				if n := good.succeeded(); n != 1000 || good.breaker.Status().State != BreakerClosed {
					t.Errorf("the neighbour has reconciled %d objects, its breaker is %s", n, good.breaker.Status().State)
				}

				works.Store(true)
				time.Sleep(10*time.Second + time.Minute) // fake time: the rest of a probe, and a pause
				if n := bad.succeeded(); n < 5000-c.maxRuns || bad.closed.Load() != 1 {
					t.Errorf("once the plugin works it has reconciled %d objects, its breaker closed %d times", n, bad.closed.Load())
				}
				time.Sleep(15 * time.Minute) // fake time: the longest backoff
				if n := bad.succeeded(); n != 5000 {
					t.Errorf("%d of 5000 objects were reconciled", n)
				}
			})
		})
	}
}

// The plugin fails for nearly all objects. When one is changed for which it does
// not fail, that is the next probe, although thousands wait.
func TestAFreshChangeIsTheNextProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		corrected := object.Key{Name: "c0-7"}
		p := startPlugin(t, make(chan struct{}, 2), 0, func(key object.Key) bool { return key != corrected }, 5000)
		time.Sleep(10 * time.Minute) // fake time
		p.queue.Add(corrected, queue.Cause{Reason: abi.ReasonPrimary})
		time.Sleep(30 * time.Second) // fake time: some pauses
		if n := p.succeeded(); n != 1 {
			t.Errorf("%d objects were reconciled", n)
		}
	})
}

// testPlugin is a plugin with real queues and controllers. Its guest, cache and
// effects are fakes.
type testPlugin struct {
	noTurns
	Effects        // the methods below are the only ones used
	queue          *queue.Queue
	taken          atomic.Int64
	breaker        *Breaker
	opened, closed atomic.Int64

	slots  chan struct{}             // calls at a time, of all plugins
	broken func(key object.Key) bool // whether calls for an object fail
	takes  time.Duration             // a call that fails

	mu         sync.Mutex
	failed     int // runs
	reconciled map[object.Key]bool
}

// startPlugin runs a plugin with one controller for each number of objects.
func startPlugin(t *testing.T, slots chan struct{}, takes time.Duration, broken func(object.Key) bool, objects ...int) *testPlugin {
	t.Helper()
	p := &testPlugin{slots: slots, broken: broken, takes: takes, reconciled: map[object.Key]bool{}}
	p.breaker = NewBreaker(func(s BreakerStatus) {
		if s.State == BreakerClosed {
			p.closed.Add(1)
		} else {
			p.opened.Add(1)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	for i, n := range objects {
		p.queue = queue.New(queue.Config{})
		c := New(Config{
			Name: fmt.Sprint("c", i), Workers: 8,
			Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(),
		}, countingQueue{p.queue, &p.taken}, &Revision{Number: 1, Guest: p, Effects: p, Breaker: p.breaker, Controller: abi.Controller{Name: fmt.Sprint("c", i)}})
		for k := range n {
			p.queue.Add(object.Key{Name: fmt.Sprint("c", i, "-", k)}, queue.Cause{Reason: abi.ReasonResync})
		}
		ended.Go(func() { c.Run(ctx) })
	}
	return p
}

// Reconcile implements [Guest].
func (p *testPlugin) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		return sandbox.Return{}, err
	}
	o, err := object.Parse(request.Object, abi.Kind{})
	if err != nil {
		return sandbox.Return{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken(o.Key()) {
		p.failed++
		p.mu.Unlock()
		time.Sleep(p.takes) // fake time
		p.mu.Lock()
		return sandbox.Return{Usage: sandbox.Usage{Duration: p.takes}}, &sandbox.Fault{Class: abi.ClassTimeout, Message: "it spins"}
	}
	p.reconciled[o.Key()] = true
	return returns(&abi.Result{})
}

func (p *testPlugin) failures() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *testPlugin) succeeded() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reconciled)
}

func (p *testPlugin) HasFinalizer(effect.Target) bool { return false }

func (p *testPlugin) PerformIntents(context.Context, effect.Target, *abi.Result) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (p *testPlugin) WriteStatus(context.Context, effect.Target, effect.Status) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (p *testPlugin) Release(context.Context, effect.Target, bool) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (p *testPlugin) ReleaseGone(context.Context, *abi.Controller, object.Key) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}
func (p *testPlugin) EmitEvent(effect.Target, *abi.Event) {}
func (p *testPlugin) Forget(object.Hash)                  {}

func (p *testPlugin) Live(context.Context, abi.Kind, object.Key) (*object.Object, error) {
	return nil, nil
}

// countingQueue counts the keys that Next returns.
type countingQueue struct {
	*queue.Queue
	n *atomic.Int64
}

func (q countingQueue) Next() (queue.Item, bool) {
	item, shutdown := q.Queue.Next()
	q.n.Add(1)
	return item, shutdown
}

// fullCache is a cache that has every object.
type fullCache struct{ Cache }

func (fullCache) Get(key object.Key) (*object.Object, bool) {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Widget","metadata":{"namespace":%q,"name":%q,"uid":%q}}`, key.Namespace, key.Name, key)
	o, err := object.Parse([]byte(text), abi.Kind{})
	return o, err == nil
}
func (fullCache) Full() bool                                                 { return false }
func (fullCache) Begin(object.Key, map[abi.Kind]scope.Reads) Reads           { return noReads{} }
func (fullCache) BeginUnrecorded(object.Key, map[abi.Kind]scope.Reads) Reads { return noReads{} }

type noReads struct{ Reads }

func (noReads) Close()   {}
func (noReads) Commit()  {}
func (noReads) Abandon() {}

type noMetrics struct{ Metrics }

func (noMetrics) Started() func(outcome.Decision, float64) {
	return func(outcome.Decision, float64) {}
}
