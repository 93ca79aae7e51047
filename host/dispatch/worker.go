package dispatch

import (
	"context"
	"runtime"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// work processes keys until the queue is shut down, or there are to be fewer
// workers. runs is the context of the runs, which may outlive ctx.
func (c *Controller) work(ctx, runs context.Context) {
	for {
		item, ok := c.take(ctx)
		if !ok {
			return
		}
		c.process(runs, item)
		// A worker that hands on an instance of the plugin is followed at once by the
		// one that waited for it: without this the runtime would go on with workers and
		// let what arrives from the network wait. (TestWorkersLetOtherGoroutinesRun)
		runtime.Gosched()
	}
}

// workItem is a key that a worker has taken, with the permit to run it.
type workItem struct {
	queue.Item
	revision *Revision
	permit   *permit
}

// take blocks until there is a key that may run. The circuit breaker of the plugin
// holds keys in the queue that may not. One worker at a time is in take, so that keys
// are admitted in the order of the queue.
func (c *Controller) take(ctx context.Context) (workItem, bool) {
	c.taking <- struct{}{}
	defer func() { <-c.taking }()
	for {
		c.awaitLease(ctx)
		item, shutdown := c.queue.Next()
		if shutdown {
			return workItem{}, false
		}
		if !c.lead() {
			c.queue.PutBack(item)
			continue
		}
		if c.endsWorker() {
			c.queue.PutBack(item)
			return workItem{}, false
		}
		revision := c.revision.Load()
		if permit, ok := revision.Breaker.admit(c.queue, item, c.Name, c.standingOf(item.Key)); ok {
			return workItem{item, revision, permit}, true
		}
	}
}

// awaitLease blocks until the replica leads the plugin, or ctx is done.
func (c *Controller) awaitLease(ctx context.Context) {
	for c.Lease != nil {
		select {
		case <-c.Lease.Leading():
		case <-ctx.Done():
			return
		}
		if c.leads() || !sleep(ctx, leasePause) {
			return
		}
	}
}

// sleep blocks for a duration. It returns false if ctx is done before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// leasePause is how often a worker looks whether a Lease was renewed late.
const leasePause = 100 * time.Millisecond

// leads reports whether the replica leads the plugin.
func (c *Controller) leads() bool { return c.Lease == nil || c.Lease.Leads() }

// process is one run, from the key to the key.
func (c *Controller) process(ctx context.Context, item workItem) {
	defer item.permit.cancel()
	if isTurn(item.Key) {
		c.processTurn(ctx, item)
		return
	}
	r := c.begin(ctx, item)
	if r == nil {
		return
	}
	done := c.Metrics.Started()
	if !r.resumed {
		r.callPrepare()
		r.call(ctx)
		r.reads.Close() // the effects may be postponed for long
		r.pages, r.liveReads = nil, nil
		r.decide(nil)
		r.settleUnheld()
	}
	r.perform(ctx)
	if r.later > 0 {
		e := events.RunPostponed{Run: r.identity(), Since: r.worked, Duration: time.Since(r.worked), Resumed: r.resumed, For: r.later}
		c.Events.Observe(e)
		r.park() // from here on another worker may have the run
		done(outcome.Decision{Metric: outcome.MetricRequeueAfter}, e.Duration.Seconds())
		return
	}
	if s := r.reportToBreaker(item.permit, &r.decision); s != notRun {
		r.state.history.standing = s
	}
	r.compareRevisions()
	r.end()
	done(r.decision, time.Since(r.worked).Seconds())
}

// run is one reconcile in progress: what it is of, the call of the guest, what that has led to, and what of it was
// performed.
type run struct {
	origin
	guestCall
	hooked
	performed
	postponed

	worked   time.Time       // since when a worker has been busy with it: start, or when it was resumed
	primary  *object.Object  // given, with what this run has written since
	unread   bool            // the API server has not answered what must be known before the call
	unheld   *effect.Failure // why the finalizer could not be added before an effect outside of the cluster
	result   *abi.Result     // decoded from returned; nil with fault
	decision outcome.Decision
}

// origin is what a run is of, and why it is.
type origin struct {
	item     queue.Item
	state    *keyState
	gone     *goneObject // given, if it is gone; else nil
	cleanup  bool        // with gone: it has vanished, and is cleaned up
	own      bool        // nothing but writes of the key made it due
	restores int         // of the controller when the run began
	signals  int         // how many signals the runs of the key were given with this one
}

// performed is what became of the effects of a run.
type performed struct {
	failures  []abi.EffectFailure
	groups    []*effect.Failure // of intents of groups; also in failures
	writes    []effect.Write
	full      bool // a limit of bytes of the plugin has failed an effect
	internal  bool // a write was answered with the code 500
	overtaken bool // somebody else changed the primary, and the guest was not given that
}

// postponed is how the effects of a run are postponed.
type postponed struct {
	resumed bool          // the guest was called before the run was parked
	later   time.Duration // the effects are postponed by; 0: they are not
	missed  []abi.Reason  // with which own changes made the key due while it was parked
}

// begin loads the object of a key and what is remembered of it. It returns nil
// for a key that needs no run, which is then done, and for a key whose revision or
// primary was replaced meanwhile, which is put back.
func (c *Controller) begin(ctx context.Context, item workItem) *run {
	c.endTurns(ctx, item.Key, item.revision)
	if g := c.nextGone(item.Key); g != nil {
		return c.beginGone(ctx, item, g)
	}
	unread := c.refresh(ctx, item.Key, c.stateOf(item.Key))
	primary, exists := c.Cache.Get(item.Key)
	if pause := c.awaitsDeletion(item.Key, primary, item.revision); pause > 0 {
		c.postpone(item.Item, pause)
		return nil
	}
	switch {
	case !exists:
		c.gone(ctx, item)
		return nil
	case primary.Annotations[Suspend] == "true" && !item.revision.cleansUp(primary):
		c.dropParked(item.Key)
		c.callSuspended(item.Key)
		c.queue.Done(item.Key, outcome.Next{}) // removing the annotation is a change
		return nil
	case primary.Deleting() && !item.revision.Controller.WhileDeleting && !item.revision.cleansUp(primary):
		c.queue.Done(item.Key, outcome.Next{})
		return nil
	case c.Cache.Full():
		c.postpone(item.Item, fullPause)
		return nil
	}
	r, resumed, wait := c.beginRun(item, primary)
	switch {
	case wait > 0:
		c.postpone(item.Item, wait)
		return nil
	case r == nil:
		c.queue.PutBack(item.Item)
		return nil
	case resumed != nil:
		return resumed.resume(primary, item.Reasons)
	}
	r.beginReads(ctx, unread)
	return r
}

// beginReads prepares the reads of a run. unread is why an object cannot be read that an
// earlier run may have changed, nil if there is none.
func (r *run) beginReads(ctx context.Context, unread error) {
	r.reads = r.c.Cache.Begin(r.item.Key, r.revision.Scopes.Reads)
	if unread != nil {
		r.cannotRead(unread)
	}
	r.readsPrimary(ctx)
}

// fullPause is how long a key waits for informers that are so late that no more
// writes can be remembered.
const fullPause = 100 * time.Millisecond

// target is the primary and the controller for the stage effect. Before effects are performed
// refresh has read what a write may have changed that was answered with the code 500.
func (r *run) target() effect.Target {
	return effect.Target{
		Controller: &r.revision.Controller, Object: r.primary, Gone: r.gone != nil, Cleanup: r.cleanup,
		NoOutage: r.noOutage(),
	}
}
