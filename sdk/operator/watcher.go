package operator

import (
	"github.com/thole-dev/thole/sdk"
)

// Watcher has one function for each kind of event. Each may be nil. An error delivers the
// event again, by the controller's policy alone.
type Watcher[Spec, Status sdk.Value] struct {
	// Add is called for an object that is new. Unless the watcher is opinionated, that
	// includes each object that is there when the host or the plugin starts.
	Add func(*sdk.Request[Spec, Status]) error
	// Update is called for an object that has changed. old is the object as it was handled
	// last, nil if the host does not have that; it has no status if the watcher is
	// opinionated. Unless it is, Update is also called when nothing has changed, with an
	// equal old object.
	Update func(old *sdk.Object[Spec, Status], r *sdk.Request[Spec, Status]) error
	// Delete is called for an object that is gone, or is being deleted if the watcher is
	// opinionated.
	Delete func(*sdk.Request[Spec, Status]) error
	// Sync is called by an opinionated watcher instead of Add for an object that was
	// handled before the host or the plugin started; Update follows if it has changed
	// meanwhile. It is also called when the object runs for another cause than a change of
	// its own: a timer, another object, the regular resync.
	Sync func(*sdk.Request[Spec, Status]) error

	// These are the fields of a [Reconciler].
	Opinionated bool
	RetryOf     func(err error) sdk.RetryPolicy
	Dequeue     func(r *Request[Spec, Status], pending Pending) bool
}

// Controller returns a controller that calls the watcher: see Controller of [Reconciler].
func (w Watcher[Spec, Status]) Controller(base sdk.Controller[Spec, Status]) sdk.Controller[Spec, Status] {
	if w.Sync != nil && !w.Opinionated {
		panic("operator: Sync of a Watcher is never called: set Opinionated")
	}
	return Reconciler[Spec, Status]{
		Reconcile:   func(r *Request[Spec, Status]) (Result, error) { return Result{}, w.deliver(r) },
		Opinionated: w.Opinionated, RetryOf: w.RetryOf, Dequeue: w.Dequeue, noSync: w.Sync == nil,
	}.Controller(base)
}

// deliver calls the function for an event.
func (w *Watcher[Spec, Status]) deliver(r *Request[Spec, Status]) error {
	switch {
	case r.Action == Created:
		return call(w.Add, r)
	case r.Action == Deleted:
		return call(w.Delete, r)
	case !w.Opinionated:
		return w.update(r)
	case r.Action == Updated && r.Change.Type != sdk.Resumed:
		return w.update(r)
	}
	if err := call(w.Sync, r); err != nil || r.Action != Updated {
		return err
	}
	return w.update(r)
}

func call[Spec, Status sdk.Value](fn func(*sdk.Request[Spec, Status]) error, r *Request[Spec, Status]) error {
	if fn == nil {
		return nil
	}
	return fn(r.Request)
}

// update calls Update with the object as it was handled last.
func (w *Watcher[Spec, Status]) update(r *Request[Spec, Status]) error {
	if w.Update == nil {
		return nil
	}
	old, err := r.Old()
	if err != nil {
		r.Log.Warn("the old object is ignored", "error", err)
	}
	return w.Update(old, r.Request)
}
