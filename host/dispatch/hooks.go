package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// Hooks are what one capability does while a controller works. A nil function is not called. Those of
// several capabilities are called in the order of [Config.Hooks].
//
// Changed, Result, Patch, Performed, Ended, Imports, Resolve and Turns are called without a lock. The others are called
// with the lock of the controller held: they must not block, and must not call the controller. A state is what the
// capability keeps for an object: nil, or a pointer. It is nil before the first run, for another object of the name, and
// again when the replica begins to lead. While an object is gone that has a run to come, it is kept. For an object whose
// state is nil only Wait and Begin are called.
type Hooks struct {
	Name string // of the capability, which is that of its section in results

	// Changed is called for each event of the primary kind, before the object is due for it, so that it has
	// returned before a run that the event has led to begins. old is nil for an object that was created, or
	// that existed when the informer started; updated is nil for one that was deleted, or is not selected
	// any more. The events of an object come one after the other. It is called by the goroutine of the
	// informer, without a lock, and must not block.
	Changed func(rev *Revision, old, updated *object.Object)
	// Result checks the section of the capability in a result, once the guest has returned. With an error the run has
	// failed with the class abi. Without the function no result has the section.
	Result func(rev *Revision, section []byte) error
	// Patch returns what is to be patched of the primary together with the patch of the result, nil for nothing. It is
	// called if nothing else can fail of what the guest has asked for. If the API server refuses the content, the patch
	// is sent without it. Like Performed it is not called for an object that is gone.
	Patch func(run *PerformedRun) []byte
	// Performed is called when all effects of a run were performed, or what can be after a failure. It may write to
	// the API server until ctx is done. With a failure a run that has ended well has not; the failure of another one
	// is logged. It is called again if effects were postponed.
	Performed func(ctx context.Context, run *PerformedRun) *effect.Failure
	// Ended is called when a run has ended, and its effects were performed, before its key is due again. It is
	// called by the worker, without a lock, and must not block.
	Ended func(rev *Revision, run EndedRun)

	// Wait returns how long a run has to wait before it begins, 0 if it need not. Begin follows with the lock
	// held, so that what Wait has found is so.
	Wait func(state any, run *BeginningRun) time.Duration
	// Begin is called when a run begins. It may change the state, and adds what the request is to have. It is not
	// called for a run that is resumed.
	Begin func(state *any, run *BeginningRun)
	// Deadline is called when a run has ended for which Begin was called, if the state is the same since. It
	// returns the time until the object is to run again, whatever else it waits for, 0 if it is not.
	Deadline func(state any, decision *outcome.Decision, now time.Time) time.Duration
	// Suspended is called when an object does not run because it is suspended.
	Suspended func(state any)
	// Requested is called when somebody else has changed the spec, labels or annotations of an object, or has
	// requested a run, before it is due for that.
	Requested func(state any, at time.Time)
	// Restored is called when the API server has gone back to an earlier state, whose resourceVersions come again for
	// other content.
	Restored func(state any)
	// Imports answer the functions of the host that the capability has declared (sandbox.Import), by their names. They
	// are called while the guest is, in a run or another call of it, by the goroutine of that call, and without a lock.
	// They may block until ctx is done. The code is negative for a failure, as in [sandbox.HostCalls]; otherwise the
	// guest reads the reply.
	Imports map[string]func(ctx context.Context, call *ImportCall) (reply []byte, code int64)
	// Resolve returns a list of objects with the names of the primaries that have a key of an index of the capability.
	// ok is false for any other name of an index. It is called without a lock, and must be quick.
	Resolve func(rev *Revision, index, key string) (list cache.Reading, ok bool)
	// ObjectTurns are the calls that are made for objects beside their runs; nil: none.
	ObjectTurns *ObjectTurns
	// Turns returns the calls for no object that are to be made while a revision runs, which must be quick. It is
	// called once for each revision, without a lock.
	Turns func(rev *Revision) []Turn
	// Replaced is called when the controller gets another revision, and Term when the replica begins to lead.
	Replaced func(before, next *Revision)
	Term     func()
}

// BeginningRun is a run that is about to call the guest.
type BeginningRun struct {
	Revision *Revision
	Object   *object.Object
	Gone     bool // the object does not exist any more
	Created  bool // the informer has shown its creation since the replica leads
	Now      time.Time

	Sections []abi.Section // of the request; a hook appends its own
	Reasons  []abi.Reason  // of the request, beside those for which the key is due; a hook appends

	// Kept is what later hooks of the capability get of the run. A hook sets it.
	Kept any
	// Prepare is set by a hook that has more to do for the request, such as to append a section that takes time to
	// make. It is called without a lock, just before the guest is.
	Prepare func(run *BeginningRun)
	// State calls f with the lock of the controller held and the state that Begin has left, unless the object has
	// another one since. Begin itself must not call it.
	State func(f func(state any))
}

// PerformedRun is a run of an object that exists, whose effects are performed.
type PerformedRun struct {
	Revision  *Revision
	Given     *object.Object // what the guest was given
	Primary   *object.Object // Given, with what the run has written since
	Returned  *abi.Result    // nil if the guest has returned none
	EndedWell bool           // so far
	Performed bool           // what the result asks for was performed
	Released  bool           // the finalizer was removed: the object is about to disappear
	Kept      any            // of [BeginningRun]

	// Event is sent if the run leads to no other one. A hook sets it.
	Event *abi.Event
	// Annotate sets an annotation of the primary, or removes it if the value is empty.
	Annotate func(ctx context.Context, name, value string) *effect.Failure
}

// EndedRun is a run that has ended.
type EndedRun struct {
	events.RunEnded
	Given     *object.Object // what the guest was given
	Primary   *object.Object // with what the run has written
	Gone      bool           // it does not exist any more
	Returned  *abi.Result    // nil if the guest has returned none
	EndedWell bool
	Performed bool // what the result asks for was performed
	Started   time.Time
	Kept      any                     // of [BeginningRun]
	State     func(f func(state any)) // that of [BeginningRun]
}

// hookState is the state of a capability for an object, and those of others.
type hookState struct {
	hook  int // an index of [Config.Hooks]
	state any
	next  *hookState
}

// begunHook is a capability that has begun a run.
type begunHook struct {
	hook    int
	state   any // since its begin
	kept    any
	prepare func(run *BeginningRun)
}

// hooked is the part of capabilities in a run.
type hooked struct {
	begun *BeginningRun // nil: there are none
	hooks []begunHook   // of those that have a part in it
	event *abi.Event    // of one of them, if there is no other one
}

// callChanged calls the hooks for an event of the primary kind.
func (c *Controller) callChanged(old, updated *object.Object) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Changed; f != nil {
			f(c.revision.Load(), old, updated)
		}
	}
}

// ChangeState calls f with the state that a capability keeps for an object, if there is one. hook is its index in
// [Config.Hooks]. The lock of the controller is held.
func (c *Controller) ChangeState(hook int, o *object.Object, f func(state any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.keys[o.Key()]; s != nil && s.uid == o.Identity() {
		if state := s.stateOf(hook); state != nil {
			f(state)
		}
	}
}

// stateOf returns the state of a hook, nil if there is none. Controller.mu is held.
func (s *keyState) stateOf(hook int) any {
	for of := s.hooks; of != nil; of = of.next {
		if of.hook == hook {
			return of.state
		}
	}
	return nil
}

// setState keeps the state of a hook. Controller.mu is held.
func (s *keyState) setState(hook int, state any) {
	at := &s.hooks
	for *at != nil && (*at).hook != hook {
		at = &(*at).next
	}
	switch of := *at; {
	case of != nil && state != nil:
		of.state = state
	case of != nil:
		*at = of.next
	case state != nil:
		*at = &hookState{hook: hook, state: state}
	}
}

// beginning returns a run that is about to begin, for the hooks.
func (c *Controller) beginning(call *guestCall, s *keyState, gone bool) *BeginningRun {
	if len(c.Hooks) == 0 {
		return nil
	}
	return &BeginningRun{Revision: call.revision, Object: call.given, Gone: gone, Created: s.last.seen&created != 0, Now: call.start}
}

// callWait returns how long a run has to wait for a hook. Controller.mu is held.
func (c *Controller) callWait(s *keyState, run *BeginningRun) (longest time.Duration) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Wait; f != nil {
			longest = max(longest, f(s.stateOf(i), run))
		}
	}
	return longest
}

// callBegin calls the hooks for a run that begins. Controller.mu is held.
func (r *run) callBegin(begun *BeginningRun) {
	for i := range r.c.Hooks {
		f := r.c.Hooks[i].Begin
		if f == nil {
			continue
		}
		begun.Kept, begun.Prepare = nil, nil
		state := r.state.stateOf(i)
		f(&state, begun)
		r.state.setState(i, state)
		if state != nil || begun.Kept != nil || begun.Prepare != nil {
			r.hooks = append(r.hooks, begunHook{i, state, begun.Kept, begun.Prepare})
		}
	}
	r.begun = begun
}

// callPrepare completes what the hooks add to the request.
func (r *run) callPrepare() {
	for _, b := range r.hooks {
		if b.prepare != nil {
			r.begun.Kept, r.begun.State = b.kept, r.stateSince(b)
			b.prepare(r.begun)
		}
	}
}

// stateSince returns [BeginningRun.State].
func (r *run) stateSince(b begunHook) func(f func(state any)) {
	return func(f func(state any)) {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		if b.state != nil && r.state.stateOf(b.hook) == b.state {
			f(b.state)
		}
	}
}

// begunBy returns what a hook has begun the run with.
func (r *run) begunBy(hook int) begunHook {
	for _, b := range r.hooks {
		if b.hook == hook {
			return b
		}
	}
	return begunHook{hook: hook}
}

// sectionCheck returns by which hook a section of the result is checked, nil if there is none.
func (r *run) sectionCheck(name string) func(section []byte) error {
	for i := range r.c.Hooks {
		if h := &r.c.Hooks[i]; h.Name == name && h.Result != nil {
			return func(section []byte) error { return h.Result(r.revision, section) }
		}
	}
	return nil
}

// asPerformed returns the run for the hooks.
func (r *run) asPerformed() *PerformedRun {
	return &PerformedRun{
		Revision: r.revision, Given: r.given, Primary: r.primary, Returned: r.result,
		EndedWell: r.endedWell(), Performed: r.decision.Intents, Released: r.decision.RemoveFinalizer,
		Annotate: func(ctx context.Context, name, value string) *effect.Failure {
			report, failure := r.revision.Effects.Annotate(ctx, r.target(), name, value)
			r.wrote(report, report.Before)
			return failure
		},
	}
}

// withPatches returns the result that is performed: with what the hooks patch of the primary, if nothing of what
// follows the patch can fail that the guest has asked for.
func (r *run) withPatches() *abi.Result {
	out := r.result
	if len(out.Patch) == 0 || len(out.Release)+len(out.Apply)+len(out.Delete)+len(out.Status)+len(r.revision.Controller.Writes) > 0 || !r.endedWell() {
		return out
	}
	for i := range r.c.Hooks {
		if f := r.c.Hooks[i].Patch; f != nil {
			run := r.asPerformed()
			run.Kept = r.begunBy(i).kept
			if patch := f(run); patch != nil {
				out = withPatch(out, patch)
			}
		}
	}
	return out
}

// withPatch returns a result with more to patch of the primary.
func withPatch(out *abi.Result, patch []byte) *abi.Result {
	composed, err := rawjson.ComposePatches(out.Patch, patch)
	if err != nil { // cannot happen for a result that was decoded
		return out
	}
	with := *out
	with.Patch = composed
	return &with
}

// callPerformed calls the hooks for a run whose effects were performed.
func (r *run) callPerformed(ctx context.Context) {
	for i := range r.c.Hooks {
		f := r.c.Hooks[i].Performed
		if f == nil || r.later > 0 {
			continue
		}
		run := r.asPerformed()
		run.Kept = r.begunBy(i).kept
		failure := f(ctx, run)
		r.event = cmp.Or(r.event, run.Event)
		switch {
		case failure == nil:
		case !run.EndedWell:
			r.warn("what a capability keeps of the object is not written", "capability", r.c.Hooks[i].Name, "error", failure)
		case r.settle(failure):
			r.writeStatus(ctx)
		}
	}
}

// callEnded calls the hooks for the end of a run.
func (r *run) callEnded(e events.RunEnded) {
	for i := range r.c.Hooks {
		if f := r.c.Hooks[i].Ended; f != nil {
			b := r.begunBy(i)
			f(r.revision, EndedRun{
				RunEnded: e, Given: r.given, Primary: r.primary, Gone: r.gone != nil, Returned: r.result,
				EndedWell: r.endedWell(), Performed: r.decision.Intents, Started: r.start,
				Kept: b.kept, State: r.stateSince(b),
			})
		}
	}
}

// deadline returns the earliest time until the object is to run again because of a hook, 0 if there is none.
func (r *run) deadline() (earliest time.Duration) {
	now := time.Now()
	for _, b := range r.hooks {
		f := r.c.Hooks[b.hook].Deadline
		if f == nil {
			continue
		}
		r.stateSince(b)(func(state any) {
			if d := f(state, &r.decision, now); d > 0 && (earliest == 0 || d < earliest) {
				earliest = d
			}
		})
	}
	return earliest
}

// callSuspended calls the hooks for a key whose object is suspended.
func (c *Controller) callSuspended(key object.Key) {
	c.eachState(key, func(h *Hooks, state any) {
		if h.Suspended != nil {
			h.Suspended(state)
		}
	})
}

// callRequested calls the hooks for a key that is about to be due for a reason.
func (c *Controller) callRequested(key object.Key, reason abi.Reason) {
	if reason != abi.ReasonPrimary && reason != abi.ReasonRequest {
		return
	}
	now := time.Now()
	c.eachState(key, func(h *Hooks, state any) {
		if h.Requested != nil {
			h.Requested(state, now)
		}
	})
}

// eachState calls f for each hook that has a state for the key.
func (c *Controller) eachState(key object.Key, f func(h *Hooks, state any)) {
	if len(c.Hooks) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.keys[key]; s != nil {
		c.eachStateOf(s, f)
	}
}

// eachStateOf is eachState for what is remembered of a key. Controller.mu is held.
func (c *Controller) eachStateOf(s *keyState, f func(h *Hooks, state any)) {
	for of := s.hooks; of != nil; of = of.next {
		f(&c.Hooks[of.hook], of.state)
	}
}

// callRestored calls the hooks for the states of a key. Controller.mu is held.
func (c *Controller) callRestored(s *keyState) {
	c.eachStateOf(s, func(h *Hooks, state any) {
		if h.Restored != nil {
			h.Restored(state)
		}
	})
}

// callReplaced calls the hooks for another revision. Controller.mu is held.
func (c *Controller) callReplaced(before, next *Revision) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Replaced; f != nil {
			f(before, next)
		}
	}
}

// callTerm calls the hooks for a term that begins. Controller.mu is held.
func (c *Controller) callTerm() {
	for i := range c.Hooks {
		if f := c.Hooks[i].Term; f != nil {
			f()
		}
	}
}

// reasons are those of the request: why the key is due, and what hooks have added.
func (r *run) reasons() []abi.Reason {
	all := slices.Clip(r.item.Reasons)
	if r.begun == nil {
		return all
	}
	for _, reason := range r.begun.Reasons {
		if !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	return all
}
