package operator

import (
	"strconv"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Action is what has happened to an object: one of the values below.
type Action = sdk.ChangeType

// The values of [Action].
const (
	Created  Action = sdk.Created
	Updated  Action = sdk.Updated
	Deleted  Action = sdk.Deleted
	Resynced Action = sdk.Resynced // nothing has happened to the object itself
)

// Request is one event of an object, with the object as it is now.
type Request[Spec, Status sdk.Value] struct {
	*sdk.Request[Spec, Status]
	Action Action
	// Retry counts the calls for this event before this one. Like the state, it is lost
	// when the host restarts.
	Retry int

	state sdk.Raw
}

// State reads the state that an earlier call for this event has returned. ok is false if there
// is none, as in the first call.
func (r *Request[Spec, Status]) State(into sdk.Value) (ok bool, err error) {
	if r.state == nil {
		return false, nil
	}
	return true, sdk.Decode(r.state, into)
}

// Result is what a call of a reconciler leads to.
type Result struct {
	// RequeueAfter is the time until the event is delivered again, whatever the error is. 0
	// leaves that to the error: without one, the event is done. An object that waits for it
	// is not Ready; for a call at regular times without that, see Interval and Timers of
	// [sdk.Controller].
	RequeueAfter time.Duration
	// State is given to the next call for this event, if there is one: after an error or
	// RequeueAfter, or when the host could not perform what this call asked for. It has at
	// most 1 KiB as JSON. nil leaves it as it is.
	State sdk.Value
}

// Reconciler is one function for all events of a controller.
type Reconciler[Spec, Status sdk.Value] struct {
	// Reconcile is called for each event. An error delivers the event again: see the
	// package documentation.
	Reconcile func(*Request[Spec, Status]) (Result, error)
	// Opinionated holds each object by a finalizer, so that no deletion is missed, and
	// delivers no event for a change that leaves the generation of the object as it is or
	// that the controller has made itself. The handled state is in the annotation, see
	// [sdk.ChangesAnnotation], so that no change is missed either.
	Opinionated bool
	// RetryOf, if set, returns the policy for an error. Otherwise Retry of the
	// [sdk.Controller] is that of all.
	//
	//	sdk.RetryPolicy{Initial: time.Second, Factor: 3, Cap: time.Hour, Jitter: 0.1}  // exponential
	//	sdk.RetryPolicy{Initial: time.Minute, Factor: 1}                               // always after a minute
	//	sdk.RetryPolicy{Attempts: 5}                                                   // five calls at most
	//	sdk.RetryPolicy{Attempts: 1}                                                   // never again
	RetryOf func(err error) sdk.RetryPolicy
	// Dequeue reports whether a pending event is dropped because of a newer one, which r is.
	// nil drops it. It is not asked about deletions, which drop all other events. See
	// [DequeueOlder].
	Dequeue func(r *Request[Spec, Status], pending Pending) bool

	noSync bool // Resynced is of no use
}

// Controller returns a controller that calls the reconciler, to be passed to [sdk.Register].
// base has everything else of it, and no Reconcile, Cleanup and Gone. Its Retry and ErrorPolicy count the calls for one event, not runs.
func (c Reconciler[Spec, Status]) Controller(base sdk.Controller[Spec, Status]) sdk.Controller[Spec, Status] {
	why := ""
	switch {
	case base.Reconcile != nil || base.Cleanup != nil || base.Gone != nil:
		why = "has a Reconcile, Cleanup or Gone of its own"
	case c.Reconcile == nil:
		why = "has no function"
	case c.Opinionated && base.Changes == sdk.ChangesMemory:
		why = "is opinionated, which needs sdk.ChangesAnnotation"
	case c.Opinionated && (base.Interval > 0 || base.IntervalOf != nil):
		why = "is opinionated and has an Interval, which a run without an event would end: use Timers"
	}
	if why != "" {
		panic("operator: controller " + strconv.Quote(base.Name) + " " + why)
	}
	l := &layer[Spec, Status]{Reconciler: c, retry: base.Retry, errorPolicy: base.ErrorPolicy}
	if base.Changes == "" {
		base.Changes = sdk.ChangesMemory
	}
	base.Reconcile, base.Gone = l.run, l.end
	if c.Opinionated {
		base.Changes, base.Cleanup = sdk.ChangesAnnotation, l.end
	}
	return base
}

// layer is the part of a controller that calls its reconciler.
type layer[Spec, Status sdk.Value] struct {
	Reconciler[Spec, Status]
	retry       sdk.RetryPolicy
	errorPolicy func(*sdk.Request[Spec, Status], error, int) error
}

// end runs for an object that is being deleted, or is gone.
func (l *layer[Spec, Status]) end(r *sdk.Request[Spec, Status]) error {
	_, err := l.run(r)
	return err
}
