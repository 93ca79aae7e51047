package runner

import (
	"cmp"
	"context"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
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
	handlers map[followed]follower

	parts []ControllerPart // of the capabilities

	primaries atomic.Pointer[cache.Informer] // of what the running revision reconciles
}

// followed is an entry of a manifest whose events a controller handles.
type followed struct {
	scope string // as text
	role  string // for, owns, or that of a watch
}

// follower handles the events of an entry.
type follower struct {
	informer *cache.Informer
	remove   func()
}

// keys returns the keys of what the controller reconciles.
func (c *controller) keys(wanted func(object.Key) bool) []object.Key {
	return c.primaries.Load().Keys(wanted)
}

func every(object.Key) bool { return true }

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

// findShared makes the primaries due that share objects, which may have been deleted meanwhile.
func (c *controller) findShared(p *plugin) {
	c.Resync(p.effects.Load().FindShared(&c.Revision().Controller))
}

// reconcileAll makes every key due whenever the replica begins to lead: what has happened
// before that is not in the queue. begun is the term in which the controller was started.
func (c *controller) reconcileAll(ctx context.Context, p *plugin, lead Lead, begun <-chan struct{}) {
	for ctx.Err() == nil {
		leading, ended := lead.Term()
		select {
		case <-leading:
			if leading != begun {
				c.Resync(c.keys(every))
				c.ResyncGone()
				c.BeginTurns()
				c.findShared(p) // which may have been shared since
			}
		case <-ctx.Done():
		}
		select {
		case <-ended:
			c.EndTerm()
		case <-ctx.Done():
		}
	}
}

// idle returns what tells a queue whether another replica leads the plugin, nil if there is
// none.
func idle(lead Lead) func() bool {
	if lead == nil {
		return nil
	}
	return func() bool { return !isClosed(lead.Leading()) }
}

// termOf returns the term in which this replica leads a plugin, nil if it does not.
func termOf(lead Lead) <-chan struct{} {
	if lead == nil {
		return nil
	}
	if leading := lead.Leading(); isClosed(leading) {
		return leading
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// memoVersion returns what the manifest states. Without that, memos are kept only
// as long as the code stays the same.
func memoVersion(rev *Revision) string {
	return cmp.Or(rev.Manifest.MemoVersion, "digest "+rev.Digest)
}

func (r *Runner) startController(plugin string, rev *dispatch.Revision, p *plugin, workers int) *controller {
	id := plugin + "/" + rev.Controller.Name
	c := &controller{id: id, metrics: r.Metrics.Controller(id, workers)}
	var hooks []dispatch.Hooks
	c.parts, hooks = controllerParts(p.parts, handle{c, p.lead, 0})
	c.Controller = dispatch.New(dispatch.Config{
		Plugin:   plugin,
		Name:     rev.Controller.Name,
		Workers:  workers,
		Cache:    controllerCache{cache: r.Cache, controller: id, primaries: &c.primaries, informers: &p.informers, ownWrites: &p.ownWrites, written: &p.written},
		Metrics:  c.metrics,
		Lease:    p.lead,
		Hooks:    hooks,
		Events:   r.Events,
		LogLines: p.log,
		Logger:   r.Logger.Named("dispatch").With("plugin", plugin, "controller", rev.Controller.Name),
	}, queue.New(queue.Config{Name: id, MetricsProvider: r.Metrics.WorkQueues(), Idle: idle(p.lead)}), rev)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	lead, begun := p.lead, termOf(p.lead) // before the first event
	c.follow(rev, &p.informers)
	r.mu.Lock()
	r.controllers[id] = c // which has keys from now on
	r.mu.Unlock()
	c.BeginTurns()
	c.done.Go(func() { c.Run(ctx) })
	c.done.Go(func() {
		c.resync(ctx, r.Resync, c.keys)
	})
	if lead != nil {
		c.done.Go(func() { c.reconcileAll(ctx, p, lead, begun) })
	}
	return c
}

// stop ends controllers: no more events reach them, their runs end, and what the
// host keeps for them is dropped. They end together, so that many take no longer
// than one.
func (r *Runner) stop(controllers []*controller) {
	for _, c := range controllers {
		removeHandlers(c.handlers)
		c.stopParts() // before its runs end, which do what a part signals
	}
	for _, c := range controllers {
		c.cancel()
	}
	for _, c := range controllers {
		c.done.Wait()
		r.mu.Lock()
		delete(r.controllers, c.id)
		r.mu.Unlock()
		c.endParts()
		r.Cache.ForgetController(c.id)
		c.metrics.Stopped()
		r.Metrics.QueueStopped(c.id)
	}
}

// follow makes the controller handle the events of what a revision follows, and of nothing
// else. Handlers of what it follows already are kept: a new one would get an event for
// every object, and run each twice after a swap.
func (c *controller) follow(rev *dispatch.Revision, informers *informers) {
	before := c.handlers
	c.handlers = map[followed]follower{}
	add := func(s scope.Scope, role string, handle func(*cache.Informer) (remove func())) {
		f, informer := followed{s.String(), role}, informers.get(s.Kind).Narrow(s)
		kept, running := before[f]
		if running && kept.informer.IsServedAs(informer) {
			delete(before, f)
		} else {
			kept = follower{informer, handle(informer)}
		}
		c.handlers[f] = kept
	}
	m, scopes := &rev.Controller, rev.Scopes
	c.primaries.Store(informers.get(m.For.Kind).Narrow(scopes.For))
	add(scopes.For, "for", func(i *cache.Informer) func() {
		return i.AddHandler(func(key object.Key) { c.Resync([]object.Key{key}) }, c.observe)
	})
	for _, s := range scopes.Owns {
		add(s, "owns", func(i *cache.Informer) func() { return i.AddChangeHandler(c.ObserveOwned) })
	}
	for i := range m.Watches {
		w := &m.Watches[i]
		field, _ := fieldpath.ParsePath(w.Field) // the manifest was checked
		add(scopes.Watches[i], "watches by "+string(w.By)+" "+w.Key+w.Field, func(i *cache.Informer) func() {
			return i.AddChangeHandler(func(old, updated *object.Object) { c.ObserveWatched(w, field, old, updated) })
		})
	}
	removeHandlers(before)
}

// observe handles an event of what the controller reconciles.
func (c *controller) observe(e cache.Event) {
	if e.Lost {
		c.ObserveLost(e.Old)
		return
	}
	c.Observe(e.Old, e.New, e.Initial)
}

func removeHandlers(handlers map[followed]follower) {
	for _, f := range handlers {
		f.remove()
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
func (c *controller) resync(ctx context.Context, period time.Duration, keys func(wanted func(object.Key) bool) []object.Key) {
	slices := max(1, min(resyncSlices, uint64(period/resyncPause)))
	seed := maphash.MakeSeed()
	for slice := uint64(0); ; slice = (slice + 1) % slices {
		select {
		case <-ctx.Done():
			return
		case <-time.After(outcome.AddJitter(period/time.Duration(slices), resyncJitter, rand.Float64())):
		}
		due := keys(func(key object.Key) bool { return maphash.Comparable(seed, key)%slices == slice })
		c.Resync(due)
	}
}
