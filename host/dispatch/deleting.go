package dispatch

import (
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// This file distinguishes the two kinds of runs of an object that is being deleted: one that
// the controller holds by its finalizer is cleaned up, and one that only others hold is
// reconciled on, if the controller asks for that (abi/spec/deletion.md, "Runs while the object is being deleted").

// cleansUp reports whether an object is being deleted and held by the finalizer of the
// controller, also if that is of a revision before this one.
func (rev *Revision) cleansUp(o *object.Object) bool {
	return o.Deleting() && rev.Effects.HasFinalizer(effect.Target{Controller: &rev.Controller, Object: o})
}

// unheldWhileDeleting reports whether the object of the run is being deleted, and only others
// hold it.
func (r *run) unheldWhileDeleting() bool {
	return r.revision.Controller.WhileDeleting && r.given.Deleting() && r.gone == nil && !r.revision.cleansUp(r.given)
}
