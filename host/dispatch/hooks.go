package dispatch

import (
	"context"
	"time"

	"github.com/thole-dev/thole/abi"
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
	// is sent without it. Like Performed it is called for runs that Begin has left a state for, or has set Kept of, but
	// for those of objects that are gone.
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
	// another one since. It is set for Prepare, and nil if Begin has left none.
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
