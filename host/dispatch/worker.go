package dispatch

import (
	"context"
	"runtime"
	"slices"
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
		revision := c.revisionFor(item.Key)
		if permit, ok := revision.Breaker.admit(c.queue, item, c.Name, c.standingOf(item.Key)); ok {
			return workItem{item, revision, permit}, true
		}
	}
}

// revisionFor returns which revision runs a key. It is asked when the key is taken, and again when its run begins: the
// revision may have been replaced since. Today one revision runs all keys.
func (c *Controller) revisionFor(object.Key) *Revision { return c.revision.Load() }

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
	r, instead := c.begin(ctx, item)
	switch {
	case r == nil:
		c.handBack(item.Item, instead)
		return
	case r.later > 0: // it is too early to resume it
		r.park()
		return
	}
	done := c.Metrics.Started()
	if !r.resumed {
		r.callPrepare()
		r.call(ctx)
		r.reads.Close() // the effects may be postponed for long
		r.pages, r.liveReads = nil, nil
		r.decide(nil)
		r.settleWithoutFinalizer()
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

// instead is what becomes of a key that does not run now.
type instead struct {
	putBack bool // the revision or the object was replaced since the key was taken: it is taken again
	next    outcome.Next
}

// begin returns the run of a key. It is nil if there is none now: the gates before a run are here, then in markRunning.
// If the account of the plugin may not read the object, the run fails without a call (readsPrimary).
func (c *Controller) begin(ctx context.Context, item workItem) (*run, instead) {
	c.endTurns(ctx, item.Key, item.revision)
	if gone := c.nextGone(item.Key); gone != nil {
		if c.Cache.Full() {
			return nil, instead{next: outcome.Requeue(fullPause)}
		}
		if confirmed, why := c.confirm(ctx, item, gone); !confirmed {
			return nil, why
		}
		return c.beginRun(ctx, item, gone.Object, gone, c.refresh(ctx, item.Key, gone.state))
	}
	unread := c.refresh(ctx, item.Key, c.stateOf(item.Key))
	primary, exists := c.Cache.Get(item.Key)
	switch pause := c.awaitsDeletion(item.Key, primary, item.revision); {
	case pause > 0:
		return nil, instead{next: outcome.Requeue(pause)}
	case !exists:
		return nil, instead{next: c.gone(ctx, item)}
	case primary.Annotations[Suspend] == "true" && !item.revision.cleansUp(primary):
		c.dropParked(item.Key)
		c.callSuspended(item.Key)
		return nil, instead{} // removing the annotation is a change
	case primary.Deleting() && !item.revision.Controller.WhileDeleting && !item.revision.cleansUp(primary):
		return nil, instead{}
	case c.Cache.Full():
		return nil, instead{next: outcome.Requeue(fullPause)}
	}
	return c.beginRun(ctx, item, primary, nil, unread)
}

// beginRun returns a run for an object, which is gone or not. If the effects of an earlier run are postponed, and
// nobody else has made the key due meanwhile, that run is resumed. unread is why an object cannot be read that an
// earlier run may have changed, nil if there is none.
func (c *Controller) beginRun(ctx context.Context, item workItem, given *object.Object, gone *goneObject, unread error) (*run, instead) {
	r, why := c.markRunning(item, given, gone)
	switch {
	case r == nil:
	case r.resumed:
		r.resume(given, item.Reasons)
	default:
		r.reads = c.Cache.Begin(item.Key, item.revision.Scopes.Reads)
		if unread != nil {
			r.cannotRead(unread)
		}
		r.readsPrimary(ctx)
	}
	return r, why
}

// markRunning is the part of beginRun with the lock: it marks the key as running.
func (c *Controller) markRunning(item workItem, given *object.Object, gone *goneObject) (*run, instead) {
	call := c.newCall(item.revision, item.Key, given)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stateFor(item, given, gone)
	if s == nil {
		return nil, instead{putBack: true}
	}
	beginning := c.beginning(&call, s, gone != nil)
	if s.carried == nil || s.parked == nil || s.wokenByOthers {
		if wait := c.callWait(s, beginning); wait > 0 {
			return nil, instead{next: outcome.Requeue(wait)}
		}
	}
	r := c.unpark(s)
	if s.carried == nil {
		s.carried = &carried{}
	}
	s.awaited = 0
	if s.replaced {
		if s.otherAccount { // a signal may tell what that has read
			c.dropAllSignals(s)
		}
		s.startRevision()
	}
	s.forgetTries(item.ResetTries)
	if r != nil && !s.wokenByOthers {
		r.resumed = true
	} else {
		r = &run{
			origin: origin{
				item: item.Item, state: s, gone: gone, cleanup: gone != nil && gone.held, restores: c.restores,
				own: !s.wokenByOthers && !slices.ContainsFunc(item.Reasons, isTimed),
			},
			guestCall: call, primary: given, worked: call.start,
		}
		r.hold = r.addsFinalizer
		r.callBegin(beginning)
	}
	s.running, s.last.inTerm, s.wokenByOthers = true, true, false
	s.last.seen |= begun
	return r, instead{}
}
