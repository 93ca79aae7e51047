package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
)

// This file calls the hooks of capabilities, and keeps what they keep of objects and runs.

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
	if b.state == nil {
		return nil
	}
	return func(f func(state any)) {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		if r.state.stateOf(b.hook) == b.state {
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

// asPerformed returns the run for a hook.
func (r *run) asPerformed(b begunHook) *PerformedRun {
	return &PerformedRun{
		Revision: r.revision, Given: r.given, Primary: r.primary, Returned: r.result,
		EndedWell: r.endedWell(), Performed: r.decision.Intents, Released: r.decision.RemoveFinalizer, Kept: b.kept,
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
	for _, b := range r.hooks {
		if f := r.c.Hooks[b.hook].Patch; f != nil {
			if patch := f(r.asPerformed(b)); patch != nil {
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
	for _, b := range r.hooks {
		h := &r.c.Hooks[b.hook]
		if h.Performed == nil || r.later > 0 {
			continue
		}
		run := r.asPerformed(b)
		failure := h.Performed(ctx, run)
		r.event = cmp.Or(r.event, run.Event)
		switch {
		case failure == nil:
		case !run.EndedWell:
			r.warn("what a capability keeps of the object is not written", "capability", h.Name, "error", failure)
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
		if f == nil || b.state == nil {
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
