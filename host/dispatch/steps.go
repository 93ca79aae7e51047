package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file makes the steps of daemons, at the begin of a run of their key.

// daemonStep is what a run knows of the step of the daemon of its object.
type daemonStep struct {
	pending   bool            // one was due and not made
	fuel      int64           // that it has used
	failure   *effect.Failure // why it has failed
	fault     *sandbox.Fault  // the cause, if the guest is to blame
	after     time.Duration   // when it is to be started again; 0: when the key is retried
	failed    bool            // the daemon has failed in this run
	retried   bool            // it was started again after a failure
	signalled bool            // it has given signals
}

// stepDaemon makes a step of the daemon of the object, if one is due.
func (r *run) stepDaemon(ctx context.Context) {
	if r.revision.Daemons == nil || r.gone != nil {
		return
	}
	if r.step.pending = r.fault != nil; r.step.pending { // the next run makes the step
		return
	}
	d := r.daemonOf(ctx)
	if d == nil {
		return
	}
	select {
	case d.step <- struct{}{}:
	case <-ctx.Done():
		r.step.pending = true
		return
	}
	defer func() { <-d.step }()
	input := inputDigest(r.given)
	if events := r.beginStep(d, input); len(events) > 0 {
		result := r.callDaemon(ctx, d, events)
		r.endStep(d, events, input, result)
	}
}

// daemonOf returns the daemon of the object, nil if it is to have none now. It stops one that there
// is no more.
func (r *run) daemonOf(ctx context.Context) *daemon {
	c, key := r.c, r.item.Key
	wanted := !r.given.Deleting() && r.revision.Scopes.Daemon.Has(r.given)
	c.mu.Lock()
	d := c.daemons[key]
	c.mu.Unlock()
	if d != nil && (!wanted || d.revision != r.revision) { // one of the revision before is about to be stopped
		r.step.signalled = c.stopDaemon(ctx, key, d)
		d = nil
	}
	if d != nil || !wanted || !r.revision.Effects.HasFinalizer(r.target()) {
		return d
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revision != c.revision.Load() { // the next run starts it
		return nil
	}
	d = &daemon{uid: r.state.uid, revision: r.revision, step: make(chan struct{}, 1)}
	if c.daemons == nil {
		c.daemons = map[object.Key]*daemon{}
	}
	c.daemons[key] = d
	return d
}

// beginStep returns why a step is to be made, nothing if none is.
func (r *run) beginStep(d *daemon, input object.Hash) (events []abi.DaemonEvent) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	d.changed = d.input != input
	switch {
	case r.c.daemons[r.item.Key] != d, d.ended: // it was stopped meanwhile
		return nil
	case d.notBefore.After(r.start):
		if d.failure != nil && r.item.ResetTries {
			d.retryAt = d.notBefore
		}
		return nil
	case d.running:
		events = d.events(r.start)
	case d.failure != nil && !r.retriesDaemon(d):
		return nil
	case !r.revision.Daemons.start():
		d.failure, r.step.failed = r.daemonFailure(abi.ClassDenied, "TooManyDaemons", fmt.Sprintf(
			"the plugin has %d daemons, which is its limit: raise limits.daemons in the plugin's policy or in the host's configuration", r.revision.Daemons.Number)), true
		return nil
	default:
		r.step.retried = d.failure != nil
		d.running, d.failure, events = true, nil, []abi.DaemonEvent{abi.DaemonStart}
	}
	if len(events) > 0 {
		r.own = r.own && !d.byOthers && !slices.Contains(events, abi.DaemonTime) && !slices.Contains(events, abi.DaemonStart)
		d.byOthers = false
		d.woken = [2]bool{} // what comes from now on may be missing in what the step reads
	}
	return events
}

// retriesDaemon reports whether a daemon that has failed is started again: its time has come, or
// somebody has changed the object. Controller.mu is held.
func (r *run) retriesDaemon(d *daemon) bool {
	return r.item.ResetTries || !d.retryAt.IsZero() && !d.retryAt.After(r.start)
}

// setRetry makes a daemon that has failed in the run start again when it has asked for that, or
// when the decision has the key retried, whatever makes the key due before that. The run in which
// it failed may have set no time: it was parked and dropped, or ended as stalled. A later one does.
func (r *run) setRetry() {
	if r.revision.Daemons == nil || r.gone != nil {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	d := r.c.daemons[r.item.Key]
	switch {
	case d == nil || d.failure == nil:
	case !r.step.failed && (!d.retryAt.IsZero() || d.failure.Class == abi.ClassStalled):
	case r.step.after > 0:
		d.retryAt = time.Now().Add(max(r.step.after, shortestWait))
	case r.decision.Next.Kind != outcome.AwaitChange:
		d.retryAt = time.Now().Add(r.decision.Next.After)
	}
}

// callDaemon makes a step. It returns nil if that has failed: the fault of the run says why if the
// host has failed, and else the failure of the daemon.
func (r *run) callDaemon(ctx context.Context, d *daemon, events []abi.DaemonEvent) *abi.DaemonResult {
	g := r.sibling(r.revision.Daemons.Reads.Begin(r.item.Key, r.revision.Scopes.Reads))
	request := r.c.daemonRequest(d, events, r.revision.given(r.given))
	request.Now, request.Seed = g.start, g.seed
	timeout := time.Duration(r.revision.Controller.Daemon.Timeout) * time.Millisecond
	call := g.sandboxCall(abi.EncodeDaemonRequestParts(request), r.given.Namespace, timeout)
	call.Fuel = r.revision.Daemons.Fuel
	returned, err := r.revision.Daemons.Guest.Daemon(ctx, call)
	r.step.fuel = returned.Usage.Fuel
	var result *abi.DaemonResult
	switch {
	case err != nil:
		g.failed(err)
		if r.step.fault = g.guestFault; g.guestFault != nil {
			r.failDaemon(g.fault)
		} else {
			r.fault, r.replaced = g.fault, g.replaced
		}
	case g.incomplete == nil:
		var fault *outcome.Fault
		if result, fault, r.step.after = daemonResult(returned, r.revision.Daemons.StateBytes); fault != nil {
			r.failDaemon(fault)
		}
	}
	r.incomplete = g.incomplete
	if result != nil {
		g.reads.Commit()
	} else {
		g.reads.Abandon()
	}
	return result
}

func (r *run) failDaemon(fault *outcome.Fault) {
	r.step.failure, r.step.failed = r.daemonFailure(fault.Class, fault.Reason, fault.Message), true
}

// daemonFailure returns a failure of the daemon as one of the run, which tells it and after which
// the key backs off.
func (r *run) daemonFailure(class abi.Class, reason, message string) *effect.Failure {
	return &effect.Failure{EffectFailure: abi.EffectFailure{
		Verb: abi.VerbDaemon, Ref: r.given.Kind.Ref(r.given.Namespace, r.given.Name), Class: class, Reason: reason, Message: message,
	}}
}

func (c *Controller) daemonRequest(d *daemon, events []abi.DaemonEvent, given []byte) *abi.DaemonRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &abi.DaemonRequest{Controller: c.Name, Object: given, Events: events, State: d.state, Config: d.revision.Config}
}

// daemonResult decodes what a step has returned. The result is nil if there is a fault. after is
// when the daemon is to be started again then; 0 leaves that to the host.
func daemonResult(returned sandbox.Return, stateBytes int) (result *abi.DaemonResult, fault *outcome.Fault, after time.Duration) {
	result, err := abi.DecodeDaemonResult(returned.Output)
	switch {
	case err != nil:
		return nil, &outcome.Fault{Class: abi.ClassABI, Reason: "InvalidResult", Message: "what the daemon has written cannot be decoded: " + err.Error() + "; correct the plugin, or build it with the SDK of the host's version"}, 0
	case returned.Code != abi.CodeOK:
		fault = &outcome.Fault{Class: outcome.ClassOf(returned.Code), Message: fmt.Sprintf("the daemon returned %d without a message", returned.Code)}
		if result.Error != nil {
			fault.Reason, fault.Message = rawjson.Truncate(result.Error.Reason, abi.MaxConditionReason), result.Error.Message
			after = time.Duration(result.Error.After) * time.Millisecond
		}
		return nil, fault, after
	case len(result.State) > stateBytes:
		return nil, &outcome.Fault{Class: abi.ClassABI, Reason: "DaemonStateTooLarge", Message: fmt.Sprintf("the state of the daemon has %d bytes, and the limit is %d: keep less, or raise limits.daemonStateKiB in the plugin's policy or in the host's configuration", len(result.State), stateBytes)}, 0
	}
	return result, nil, 0
}

// shortestWait is that of a daemon which asks for less.
const shortestWait = 100 * time.Millisecond

// endStep records what a step has led to. result is nil if it has failed.
func (r *run) endStep(d *daemon, events []abi.DaemonEvent, input object.Hash, result *abi.DaemonResult) {
	c, now := r.c, time.Now()
	c.Metrics.Stepped(result == nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.daemons[r.item.Key] != d { // it was stopped meanwhile
		r.revision.Daemons.Reads.Forget(r.item.Key)
		return
	}
	d.notBefore = r.start.Add(time.Duration(float64(r.step.fuel) / float64(r.revision.Daemons.Fuel) * float64(time.Second)))
	switch {
	case result == nil && r.step.failure == nil: // the host has failed: the next run makes the step
		r.step.pending = true
		d.restore(events)
		if !d.running {
			r.revision.Daemons.stop()
		}
		return
	case result == nil:
		r.revision.Daemons.stop()
		r.revision.Daemons.Reads.Forget(r.item.Key)
		d.fail(r.step.failure)
		return
	}
	d.state, d.wait, d.input, d.changed, d.due = result.State, result.Wait, input, false, time.Time{}
	if result.Wait.After > 0 {
		d.due = now.Add(max(time.Duration(result.Wait.After)*time.Millisecond, shortestWait))
	}
	if result.End {
		r.revision.Daemons.stop()
		r.revision.Daemons.Reads.Forget(r.item.Key)
		d.running, d.ended, d.state = false, true, nil
	}
	r.step.signalled = c.addSignals(r.state, result.Signals) || r.step.signalled
}

// fail drops what a daemon has that failed. uid, revision and step are never written again: others
// read them without the lock.
func (d *daemon) fail(failure *effect.Failure) {
	d.running, d.failure, d.retryAt = false, failure, time.Time{}
	d.state, d.wait, d.due = nil, abi.DaemonWait{}, time.Time{}
	d.input, d.woken, d.changed = object.Hash{}, [2]bool{}, false
}

// restore makes the events of a step those of the next one.
func (d *daemon) restore(events []abi.DaemonEvent) {
	for i, e := range wokenBy {
		d.woken[i] = d.woken[i] || slices.Contains(events, e)
	}
	d.running = !slices.Contains(events, abi.DaemonStart)
}

// needsReconcile reports whether the run has more to do than a step of the daemon.
func (r *run) needsReconcile() bool {
	return !r.item.ForDaemon() || r.gone != nil || r.fault != nil || r.incomplete != nil || r.step.signalled || r.step.failed || r.step.retried
}

// endWithoutReconcile ends a run that has made a step of the daemon alone, or none. What the key
// waits for otherwise stays as it is.
func (r *run) endWithoutReconcile() {
	r.reads.Abandon()
	r.c.Events.Observe(events.DaemonStepped{Run: r.identity(), Since: r.worked, Duration: time.Since(r.worked)})
	r.c.mu.Lock()
	r.state.wokenByOthers = r.state.wokenByOthers || r.others // the next run counts as theirs
	r.c.mu.Unlock()
	next := r.item.Waits
	r.setTimer(&next, r.deadline(nil))
	r.hand(r.state.writeLoop.copy(), next)
}

// setTimer sets the time of the deadline of a hook or, if it is earlier, of the next step of the daemon.
func (r *run) setTimer(next *outcome.Next, timer time.Duration) {
	next.Timer = timer
	if step := r.untilStep(); step > 0 && (timer == 0 || step < timer) {
		next.Timer, next.Daemon = step, true
	}
}

// untilStep returns the time until the next step of the daemon, 0 if only an event, or the next run,
// leads to one.
func (r *run) untilStep() time.Duration {
	if r.revision.Daemons == nil || r.gone != nil || r.step.pending || r.decision.RemoveFinalizer {
		return 0
	}
	r.c.mu.Lock()
	d := r.c.daemons[r.item.Key]
	r.c.mu.Unlock()
	if d == nil {
		if !r.primary.Deleting() && r.revision.Scopes.Daemon.Has(r.primary) && r.revision.Effects.HasFinalizer(r.target()) {
			return 1 // the run has added the finalizer
		}
		return 0
	}
	input := inputDigest(r.primary) // which the run itself may have changed
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	d.changed = d.input != input
	return d.dueIn(time.Now())
}

// failureOfDaemon returns why the daemon of the object does not run, nil if it does or has ended.
func (r *run) failureOfDaemon() *effect.Failure {
	if r.revision.Daemons == nil || r.gone != nil {
		return nil
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if d := r.c.daemons[r.item.Key]; d != nil {
		return d.failure
	}
	return nil
}
