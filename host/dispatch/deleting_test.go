package dispatch

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/outcome"
)

// unheldWidget is being deleted, and the garbage collector holds it.
const unheldWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":2,"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"x":1}}`

func whileDeleting(r *Revision) {
	r.Controller.Finalizer, r.Controller.WhileDeleting, r.Controller.Interval = false, true, 60_000
}

func TestAnObjectThatOthersHoldIsReconciledWhileItIsDeleted(t *testing.T) {
	f := newFixture(t)
	f.swap(whileDeleting)
	f.put(unheldWidget)
	f.run()
	f.expect("status Ready=True/Succeeded patch=", "commit reads", "metric success ")
	if !f.request.Deleting || f.request.Gone {
		t.Errorf("the request is %+v", f.request)
	}
	if len(f.done) != 1 || f.done[0] != (outcome.Next{}) {
		t.Errorf("done with %+v", f.done)
	}
}

func TestAnObjectThatOthersHoldStaysSuspendedWhileItIsDeleted(t *testing.T) {
	f := newFixture(t)
	f.swap(whileDeleting)
	f.put(strings.Replace(unheldWidget, `"uid"`, `"annotations":{"reconcile.thole.dev/suspend":"true"},"uid"`, 1))
	f.run()
	f.expect()
	if len(f.done) != 1 {
		t.Error("the key was not done")
	}
}

// A revision before this one may have held the object.
func TestALeftoverFinalizerIsRemovedAlsoWhileDeleting(t *testing.T) {
	f := newFixture(t)
	f.swap(whileDeleting)
	f.put(strings.Replace(unheldWidget, `"uid"`, `"finalizers":["f"],"uid"`, 1))
	f.run()
	f.expect("remove finalizer", "commit reads", "metric success ")
}
