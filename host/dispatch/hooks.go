package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// Hooks are what one capability does while a controller works. A nil function is not called. Those of
// several capabilities are called in the order of [Config.Hooks].
//
// Changed, Ended, Imports and Turns are called without a lock. The others are called with the lock of the controller held: they
// must not block, and must not call the controller. A state is what the capability keeps for the object with a
// key: nil, or a pointer. It is nil before the first run, and again for an object with another uid, and when the
// replica begins to lead. For a key whose state is nil only Begin is called.
type Hooks struct {
	// Changed is called for each event of the primary kind, before the object is due for it, so that it has
	// returned before a run that the event has led to begins. old is nil for an object that was created, or
	// that existed when the informer started; updated is nil for one that was deleted, or is not selected
	// any more. The events of an object come one after the other. It is called by the goroutine of the
	// informer, without a lock, and must not block.
	Changed func(rev *Revision, old, updated *object.Object)
	// Ended is called when a run has ended, and its effects were performed, before its key is due again. It is
	// called by the worker, without a lock, and must not block.
	Ended func(rev *Revision, run EndedRun)

	// Begin is called when a run of an object that exists is about to call the guest. It may change the state,
	// and adds what the request is to have. It is not called for a run that is resumed, for an object that is gone,
	// and if the revision was replaced meanwhile: the guest is called all the same then, and the key is due again
	// for the next revision.
	Begin func(state *any, run *BeginningRun)
	// Deadline is called when a run has ended for which Begin was called, if the state is the same since. It
	// returns the time until the object is to run again, whatever else it waits for, 0 if it is not.
	Deadline func(state any, decision *outcome.Decision, now time.Time) time.Duration
	// Suspended is called when an object does not run because it is suspended.
	Suspended func(state any)
	// Requested is called when somebody else has changed the spec, labels or annotations of an object, or has
	// requested a run, before it is due for that.
	Requested func(state any, at time.Time)
	// Imports answer the functions of the host that the capability has declared (sandbox.Import), by their names. They
	// are called while the guest is, in a run or another call of it, by the goroutine of that call, and without a lock.
	// They may block until ctx is done. The code is negative for a failure, as in [sandbox.HostCalls]; otherwise the
	// guest reads the reply.
	Imports map[string]func(ctx context.Context, call *ImportCall) (reply []byte, code int64)
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
	Now      time.Time

	Sections []abi.Section // of the request; a hook appends its own
	Reasons  []abi.Reason  // of the request, beside those for which the key is due; a hook appends
}

// EndedRun is a run that has ended.
type EndedRun struct {
	events.RunEnded
	Primary *object.Object // with what the run has written
	Started time.Time
}

// callChanged calls the hooks for an event of the primary kind.
func (c *Controller) callChanged(old, updated *object.Object) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Changed; f != nil {
			f(c.revision.Load(), old, updated)
		}
	}
}

// callEnded calls the hooks for the end of a run.
func (r *run) callEnded(e events.RunEnded) {
	for i := range r.c.Hooks {
		if f := r.c.Hooks[i].Ended; f != nil {
			f(r.revision, EndedRun{RunEnded: e, Primary: r.primary, Started: r.start})
		}
	}
}

// hookState returns the state of a hook for a key, nil if there is none.
func (c *Controller) hookState(key object.Key, i int) any {
	if states := c.hookStates[key]; states != nil {
		return states[i]
	}
	return nil
}

// setHookState keeps the state of a hook for a key.
func (c *Controller) setHookState(key object.Key, i int, state any) {
	states := c.hookStates[key]
	switch {
	case states == nil && state == nil:
		return
	case states == nil:
		if c.hookStates == nil {
			c.hookStates = map[object.Key][]any{}
		}
		states = make([]any, len(c.Hooks))
		c.hookStates[key] = states
	}
	states[i] = state
	if !slices.ContainsFunc(states, func(s any) bool { return s != nil }) {
		delete(c.hookStates, key)
	}
}

// callBegin calls the hooks for a run that is about to call the guest.
func (r *run) callBegin() {
	c := r.c
	if r.gone != nil || len(c.Hooks) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revision != c.revision.Load() {
		return
	}
	begun := &BeginningRun{Revision: r.revision, Object: r.given, Now: r.start}
	r.hooks = make([]any, len(c.Hooks))
	for i := range c.Hooks {
		if f := c.Hooks[i].Begin; f != nil {
			state := c.hookState(r.item.Key, i)
			f(&state, begun)
			c.setHookState(r.item.Key, i, state)
			r.hooks[i] = state
		}
	}
	r.sections, r.moreReasons = begun.Sections, begun.Reasons
}

// deadline returns the earliest time until the object is to run again because of a hook, 0 if there is none.
func (r *run) deadline() (earliest time.Duration) {
	if r.hooks == nil {
		return 0
	}
	c, now := r.c, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.Hooks {
		state := c.hookState(r.item.Key, i)
		if f := c.Hooks[i].Deadline; f == nil || state == nil || r.hooks[i] != state {
			continue
		}
		if d := c.Hooks[i].Deadline(state, &r.decision, now); d > 0 && (earliest == 0 || d < earliest) {
			earliest = d
		}
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
	for i, state := range c.hookStates[key] {
		if state != nil {
			f(&c.Hooks[i], state)
		}
	}
}

// callReplaced calls the hooks for another revision. Controller.mu is held.
func (c *Controller) callReplaced(before, next *Revision) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Replaced; f != nil {
			f(before, next)
		}
	}
}

// callTerm drops the states of hooks, and calls these for a term that begins. Controller.mu is held.
func (c *Controller) callTerm() {
	c.hookStates = nil
	for i := range c.Hooks {
		if f := c.Hooks[i].Term; f != nil {
			f()
		}
	}
}

// reasons are those of the request: why the key is due, and what hooks have added.
func (r *run) reasons() []abi.Reason {
	all := slices.Clip(r.item.Reasons)
	for _, reason := range r.moreReasons {
		if !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	return all
}
