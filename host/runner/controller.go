package runner

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/telemetry"
)

// controller is one running controller.
type controller struct {
	*dispatch.Controller
	id       string // plugin/controller
	metrics  *telemetry.ControllerMetrics
	cancel   context.CancelFunc
	done     sync.WaitGroup
	handlers map[followed]func() // functions that remove the event handlers
}

// followed is a kind whose events a controller handles.
type followed struct {
	kind  abi.Kind
	owned bool // else it is the primary
}

// canSwapTo reports whether the controller can continue with another revision:
// its keys must be of the same kind. Otherwise it is replaced by a new one, and
// what is remembered of its keys is lost.
func (c *controller) canSwapTo(m abi.Controller) bool {
	return c.Revision().Controller.For.Kind == m.For.Kind
}

// workers returns how many objects of a controller are reconciled at once.
func workers(m abi.Controller, policy config.Policy) int {
	if m.Concurrency <= 0 {
		return policy.Limits.Concurrency
	}
	return min(m.Concurrency, policy.Limits.Concurrency)
}

// setWorkers changes how many objects are reconciled at once.
func (c *controller) setWorkers(n int) {
	c.SetWorkers(n)
	c.metrics.SetWorkers(n)
}

// startOrSwap starts a controller of a revision, or swaps a running one to it.
func (r *Runner) startOrSwap(rev *Revision, m abi.Controller, p *plugin, running *controller) *controller {
	next := &dispatch.Revision{
		Number: rev.Number, Digest: rev.Digest, Guest: rev.Guest, Effects: p.effects.Load(),
		Breaker: p.breaker.Load(), Comparison: p.comparison.Load(),
		Controller: m, Features: rev.Manifest.Features,
		MemoVersion: memoVersion(rev), Config: rev.Policy.Config,
		CrossNamespace: rev.Policy.CrossNamespace, MaxIntents: rev.Policy.Limits.Intents,
	}
	if running == nil {
		running = r.start(rev.Plugin, next, p, workers(m, rev.Policy))
	} else {
		running.follow(m, &p.informers)
		running.setWorkers(workers(m, rev.Policy))
		running.Swap(next, keysOf(p.informers.get(m.For.Kind)))
	}
	for _, key := range p.effects.Load().FindShared(&next.Controller) {
		running.Queue.Add(key, abi.ReasonResync) // it may have been deleted meanwhile
	}
	return running
}

// memoVersion returns what the manifest states. Without that, memos are kept only
// as long as the code stays the same.
func memoVersion(rev *Revision) string {
	if rev.Manifest.MemoVersion == "" {
		return "digest " + rev.Digest
	}
	return rev.Manifest.MemoVersion
}

func (r *Runner) start(plugin string, rev *dispatch.Revision, p *plugin, workers int) *controller {
	id := plugin + "/" + rev.Controller.Name
	c := &controller{id: id, metrics: r.Metrics.Controller(id, workers)}
	c.Controller = dispatch.New(dispatch.Config{
		Plugin:   plugin,
		Name:     rev.Controller.Name,
		Workers:  workers,
		Queue:    queue.New(queue.Config{Name: id, MetricsProvider: r.Metrics.WorkQueues()}),
		Cache:    controllerCache{cache: r.Cache, controller: id, primary: rev.Controller.For.Kind, informers: &p.informers, ownWrites: &p.ownWrites},
		Metrics:  c.metrics,
		Events:   r.Events,
		LogLines: p.logLines,
		Logger:   r.Logger.Named("dispatch").With("plugin", plugin, "controller", rev.Controller.Name),
	}, rev)
	r.mu.Lock()
	r.controllers[id] = c
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.follow(rev.Controller, &p.informers)
	c.done.Go(func() { c.Run(ctx) })
	c.done.Go(func() {
		c.resync(ctx, r.Resync, func() []object.Key { return keysOf(p.informers.get(c.Revision().Controller.For.Kind)) })
	})
	return c
}

// stop ends controllers: no more events reach them, their runs end, and what the
// host keeps for them is dropped. They end together, so that many take no longer
// than one.
func (r *Runner) stop(controllers []*controller) {
	for _, c := range controllers {
		removeHandlers(c.handlers)
		c.cancel()
	}
	for _, c := range controllers {
		c.done.Wait()
		r.mu.Lock()
		delete(r.controllers, c.id)
		r.mu.Unlock()
		r.Cache.ForgetController(c.id)
		c.metrics.Stopped()
		r.Metrics.QueueStopped(c.id)
	}
}

// follow makes the controller handle the events of the kinds of a manifest, and
// of no others. Handlers of a kind that it follows already are kept: a new one
// would get an event for every object, and run each twice after a swap.
func (c *controller) follow(m abi.Controller, informers *informers) {
	before := c.handlers
	c.handlers = map[followed]func(){}
	add := func(f followed, handle func(cache.Event)) {
		remove := before[f]
		if remove == nil {
			remove = informers.get(f.kind).AddHandler(handle)
		}
		delete(before, f)
		c.handlers[f] = remove
	}
	add(followed{kind: m.For.Kind}, func(e cache.Event) { c.Observe(e.Old, e.New, e.Initial) })
	for _, w := range m.Owns {
		add(followed{kind: w.Kind, owned: true}, func(e cache.Event) {
			if !e.Initial {
				c.ObserveOwned(e.Old, e.New)
			}
		})
	}
	removeHandlers(before)
}

func removeHandlers(handlers map[followed]func()) {
	for _, remove := range handlers {
		remove()
	}
}

const (
	// resyncSlices is in how many parts the objects are resynced in a period, no
	// faster than one part in resyncPause.
	resyncSlices = 1000
	resyncPause  = 100 * time.Millisecond
	// resyncJitter is the share of the period that is added at most.
	resyncJitter = 0.05
)

// resync makes every key due once in a period, each at a time of its own that is
// about the same in every period, so that they are spread over it.
func (c *controller) resync(ctx context.Context, period time.Duration, keys func() []object.Key) {
	slices := max(1, min(resyncSlices, uint64(period/resyncPause)))
	seed := maphash.MakeSeed()
	for slice := uint64(0); ; slice = (slice + 1) % slices {
		select {
		case <-ctx.Done():
			return
		case <-time.After(outcome.AddJitter(period/time.Duration(slices), resyncJitter, rand.Float64())):
		}
		var due []object.Key
		for _, key := range keys() {
			if maphash.Comparable(seed, key)%slices == slice {
				due = append(due, key)
			}
		}
		c.Resync(due)
	}
}
