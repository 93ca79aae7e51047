package dispatch

import (
	"context"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestOfAStatusOfTheGuestOnlyItsPatchIsWritten(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.swap(func(r *Revision) {
		r.Controller.StatusOwner = abi.StatusOwnerGuest
	})
	returning := func(result *abi.Result) {
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(result) }
		f.run()
	}
	returning(&abi.Result{Status: []byte(`{"conditions":[],"observedGeneration":1}`)})
	f.expect(`status  patch={"conditions":[],"observedGeneration":1}`, "commit reads", "metric success ")
	returning(&abi.Result{})
	f.expect("commit reads", "metric success ")
	returning(&abi.Result{Conditions: []abi.Condition{{Type: "Ready", Status: "True", Reason: "Mine"}}})
	f.expect("abandon reads", "event Warning InvalidResult", "metric error abi")
}

// What the API server refuses has no part of the host that could be written instead.
func TestARefusedStatusOfTheGuestIsToldByAnEvent(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.swap(func(r *Revision) {
		r.Controller.StatusOwner = abi.StatusOwnerGuest
	})
	f.fail["status"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "Invalid", Message: "status.replicas"}}
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Status: []byte(`{"replicas":-1}`)})
	}
	f.run()
	f.expect(`status  patch={"replicas":-1}`, "commit reads", "event Warning Invalid", "metric error retry")
	if ended, ok := f.events[len(f.events)-1].(events.RunEnded); !ok || ended.Failure.Reason != "Invalid" {
		t.Errorf("the last event is %+v", f.events)
	}
}
