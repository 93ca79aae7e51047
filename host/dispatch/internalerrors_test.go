package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// answered500 is a write that the API server has answered with the code 500.
func answered500(verb string, ref abi.Ref) *effect.Failure {
	return &effect.Failure{
		EffectFailure: abi.EffectFailure{Verb: verb, Ref: ref, Class: abi.ClassRetry, Reason: "InternalError", Message: "it cannot be stored"},
		Internal:      true, Outage: true, Uncertain: true,
	}
}

var (
	widgetRef = widget.Ref(testKey.Namespace, testKey.Name)
	gadgetRef = gadget.Ref("ns", "g")
)

func appliesAGadget(context.Context, sandbox.Call) (sandbox.Return, error) {
	return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(aGadget)}}})
}

// The first 500 may be an outage. The API server answers a read before the second one: that is due
// to what was sent, and uses up the attempts.
func TestAnInternalErrorThatLastsIsNoOutage(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.c.revision.Load().Controller.Retry = abi.Retry{Attempts: 2}
	f.reconcile, f.fail["apply"] = appliesAGadget, answered500("apply", gadgetRef)
	f.run()
	if next := f.done[0]; !next.Outage || f.c.keys[testKey].left().tries != (outcome.Tries{Attempt: 1, Blameless: 1}) {
		t.Errorf("the first: %+v", next)
	}
	f.run()
	if next := f.done[1]; next.Outage || next.Kind != outcome.Backoff {
		t.Errorf("the second: %+v", next)
	}
	f.log = nil
	f.run()
	if next := f.done[2]; next.Kind != outcome.AwaitChange {
		t.Errorf("the third does not end the attempts: %+v", next)
	}
	f.expect("refresh Gadget", "apply", "status Stalled=True/Invalid Ready=False/Invalid patch=",
		"commit reads", "event Warning Invalid", "metric error retry")
}

// In an outage requests fail that do not carry what was sent.
func TestAnInternalErrorIsAnOutageUnlessTheAPIServerAnswersOtherRequests(t *testing.T) {
	lost := &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Ref: gadgetRef, Class: abi.ClassRetry}, Outage: true, Uncertain: true}
	for name, disturb := range map[string]func(f *fixture){
		"reads fail": func(f *fixture) {
			f.refresh = func(abi.Ref) error { return errors.New("etcd is away") }
			f.run()
			f.refresh = nil
		},
		"the write before was lost": func(f *fixture) {
			f.fail["apply"] = lost
			f.run()
			f.fail["apply"] = answered500("apply", gadgetRef)
		},
		"the write before was good": func(f *fixture) {
			delete(f.fail, "apply")
			f.run()
			f.fail["apply"] = answered500("apply", gadgetRef)
		},
		"the status cannot be written": func(f *fixture) { f.fail["status"] = answered500("status", widgetRef) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.c.revision.Load().Controller.Retry = abi.Retry{Attempts: 1}
			f.reconcile, f.fail["apply"] = appliesAGadget, answered500("apply", gadgetRef)
			f.run()
			disturb(f)
			f.run()
			if next := f.done[len(f.done)-1]; next.Kind != outcome.Backoff || !next.Outage {
				t.Errorf("got %+v", next)
			}
		})
	}
}

// The conditions of the host are written although the status of the plugin cannot be.
func TestTheHostTellsOfAStatusThatTheAPIServerCannotStore(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`)})
	}
	f.fail["status"], f.guestOnly = answered500("status", widgetRef), true
	f.run()
	if next := f.done[0]; !next.Outage {
		t.Errorf("the first: %+v", next)
	}
	f.log = nil
	f.run()
	f.expect("refresh Widget",
		`status Ready=True/Succeeded patch={"n":1}`,
		"status Reconciling=True/ProgressingWithRetry Ready=False/Invalid patch=",
		"commit reads", "event Warning Invalid", "metric error retry")
	if next := f.done[1]; next.Outage || f.c.keys[testKey].left().tries != (outcome.Tries{Attempt: 2, Blameless: 1}) {
		t.Errorf("the second: %+v", next)
	}
	f.guestOnly = false // and now all writes fail
	f.run()
	if next := f.done[2]; !next.Outage || next.After > time.Minute {
		t.Errorf("an outage: %+v", next)
	}
}

// A run that met a newer version is none, and is reported so.
func TestARunThatIsRepeatedIsReportedSo(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesAGadget
	for _, conflict := range []bool{true, false} {
		f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Ref: gadgetRef, Class: abi.ClassRetry}, Conflict: conflict}
		f.run()
		if ended, ok := f.events[len(f.events)-1].(events.RunEnded); !ok || ended.Repeated != conflict {
			t.Errorf("conflict %v: %+v", conflict, f.events[len(f.events)-1])
		}
	}
}

// If the API server answers reads, and all writes of the status with the code 500, one request more
// than a write for each run is sent in a minute.
func TestAnOutageOfWritesIsLookedForOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.put(aWidget)
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{Status: []byte(`{"n":1}`)})
		}
		f.fail["status"] = answered500("status", widgetRef)
		for _, requests := range []int{1, 2, 1, 1, 1} {
			f.log = nil
			f.run()
			if sent := statusWrites(f); sent != requests || !f.done[len(f.done)-1].Outage {
				t.Errorf("run %d: %d writes of the status, expected %d: %q", len(f.done), sent, requests, f.log)
			}
		}
		time.Sleep(outageHolds) // fake time
		f.log = nil
		f.run()
		if sent := statusWrites(f); sent != 2 {
			t.Errorf("after a minute: %q", f.log)
		}
		delete(f.fail, "status")
		f.run()
		if from := f.c.keys[testKey].left().internal; !from.IsZero() {
			t.Errorf("a run that was good leaves %s", from)
		}
	})
}

func statusWrites(f *fixture) (n int) {
	for _, line := range f.log {
		if strings.HasPrefix(line, "status ") {
			n++
		}
	}
	return n
}
