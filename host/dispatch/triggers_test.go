package dispatch

import (
	"context"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestOnlyChangesByOthersMakeAKeyDue(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.run()
	f.log = nil
	after := f.store[widget][testKey]
	f.c.Observe(before, after, false)
	f.expect() // its own status
	foreign := patched(t, after, `{"metadata":{"resourceVersion":"200"},"status":{"other":1}}`)
	f.c.Observe(after, foreign, false)
	f.expect("add ns/w status")
	edited := patched(t, foreign, `{"metadata":{"resourceVersion":"201","generation":2}}`)
	f.c.Observe(foreign, edited, false)
	f.expect("add ns/w primary")
	asked := patched(t, edited, `{"metadata":{"resourceVersion":"202","annotations":{"reconcile.thole.dev/requestedAt":"now"}}}`)
	f.c.Observe(edited, asked, false)
	f.expect("add ns/w request")
	f.c.Observe(asked, nil, false)
	f.expect("add ns/w primary")
}

func TestAChangeByOthersBehindAnOwnWriteMakesAKeyDue(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	// Somebody edits the spec between the read and the status write: the
	// reply holds both, and may be the only event of the two.
	f.foreign = `{"metadata":{"generation":2},"spec":{"x":2}}`
	f.run()
	f.log = nil
	f.c.Observe(before, f.store[widget][testKey], false)
	f.expect("add ns/w primary")
}

func TestEventsDuringARunAreHandledAtItsEnd(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"50","generation":2}}`), false)
		f.note("call ends")
		return returns(&abi.Result{})
	}
	f.run()
	f.expect("call ends", "status Ready=True/Succeeded patch=", "commit reads", "add ns/w primary", "metric success ")
}

func TestAChangedChildMakesItsControllerDue(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	gadgetOf := func(owner string) *object.Object {
		return f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"g1","ownerReferences":[` + owner + `]}}`)
	}
	mine := gadgetOf(`{"apiVersion":"example.dev/v1beta1","kind":"Widget","name":"w","uid":"u1","controller":true}`)
	others := gadgetOf(`{"apiVersion":"other.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}`)
	uncontrolled := gadgetOf(`{"apiVersion":"example.dev/v1","kind":"Widget","name":"w","uid":"u1"}`)
	f.c.ObserveOwned(nil, mine)
	f.expect("add ns/w owned")
	f.c.ObserveOwned(mine, mine)
	f.expect("add ns/w owned")
	f.c.ObserveOwned(mine, uncontrolled) // released: it was ours before
	f.expect("add ns/w owned")
	f.c.ObserveOwned(others, uncontrolled)
	f.expect()
}
