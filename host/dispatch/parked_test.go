package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
)

// busy is the failure of a write that the API server postpones.
func busy(verb string, after time.Duration) *effect.Failure {
	return &effect.Failure{
		EffectFailure: abi.EffectFailure{Verb: verb, Class: abi.ClassRetry, Reason: "TooManyRequests"}, Later: after,
	}
}

// parked runs a widget whose apply is postponed for 3 s.
func parked(t *testing.T) *fixture {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	f.fail["apply"] = busy("apply", 3*time.Second)
	f.run(abi.ReasonPrimary)
	f.expect("apply", "commit reads", "metric requeue_after ")
	if next := f.done[0]; next.Kind != outcome.After || next.After != 3*time.Second {
		t.Errorf("done with %+v", next)
	}
	delete(f.fail, "apply")
	f.request = nil
	return f
}

func TestPostponedEffectsArePerformedLaterWithoutTheGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads", "metric success ")
		if s := f.c.keys[testKey]; f.request != nil || s.tries.Attempt != 0 || s.parked != nil || s.previous != nil {
			t.Errorf("guest called: %v, %+v", f.request != nil, s)
		}
	})
}

// An own write of the run, or a resync, may make the key due before the time.
func TestPostponedEffectsAreNotPerformedTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		time.Sleep(time.Second) // fake time
		f.run(abi.ReasonOwned)
		f.expect("commit reads")
		if next := f.done[1]; next.After != 2*time.Second || f.request != nil {
			t.Errorf("done with %+v", next)
		}
		time.Sleep(2 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		if f.request != nil || !slices.Contains(f.log, "apply") {
			t.Errorf("what happened: %q", f.log)
		}
	})
}

// A read after a lost write, or the reply to a write, may show a change whose event
// has not come, and is left out.
func TestAChangeThatIsSeenBeforeItsEventMakesTheKeyDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		before := f.store[widget][testKey]
		f.put(string(mergePatch(t, before.Raw, `{"metadata":{"resourceVersion":"50","generation":2}}`)))
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.log = nil
		f.c.Observe(before, f.store[widget][testKey], false)
		f.expect("add ns/w primary")
	})
}

// The guest has not been called since.
func TestOwnChangesOfAParkedRunMakeTheKeyDueAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		time.Sleep(time.Second) // fake time
		f.run(abi.ReasonOwned)
		time.Sleep(2 * time.Second) // fake time
		f.log = nil
		f.run(abi.ReasonRetry)
		f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads", "add own ns/w owned after 0s", "metric success ")
	})
}

func TestAChangeByOthersDropsPostponedEffects(t *testing.T) {
	f := parked(t)
	o := f.store[widget][testKey]
	f.c.Observe(o, f.put(string(mergePatch(t, o.Raw, `{"metadata":{"resourceVersion":"500","generation":2}}`))), false)
	f.run(abi.ReasonPrimary)
	if f.request == nil {
		t.Error("the guest was not called again")
	}
}

func TestANewRevisionDropsPostponedEffects(t *testing.T) {
	f := parked(t)
	f.swap(func(*Revision) {})
	f.run(abi.ReasonRetry)
	if f.request == nil {
		t.Error("the guest was not called again")
	}
}

func TestAStatusThatIsPostponedIsWrittenLater(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.fail["status"] = busy("status", time.Nanosecond)
	f.run(abi.ReasonPrimary)
	f.expect("status Ready=True/Succeeded patch=", "commit reads", "metric requeue_after ")
	delete(f.fail, "status")
	f.run(abi.ReasonRetry)
	f.expect("status Ready=True/Succeeded patch=", "commit reads", "metric success ")
}

// The API server may ask for it for ever, when it fails each time.
func TestAWriteOfUnknownOutcomeIsPostponedTwiceAtMost(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	failure := lost("apply")
	failure.Later = time.Nanosecond
	f.fail["apply"] = failure
	for range 3 {
		f.run()
	}
	if s := f.c.keys[testKey]; s.tries.Attempt != 1 || s.parked != nil || len(s.uncertain) == 0 {
		t.Errorf("after three failures: %+v", s)
	}
}

// The event may come when the worker has read the primary already.
func TestAChangeJustBeforeTheRunBeginsDropsPostponedEffects(t *testing.T) {
	f := parked(t)
	before := f.store[widget][testKey]
	f.c.keys[testKey].parked.notBefore = time.Time{}
	f.meanwhile = func() {
		f.c.Observe(before, f.put(string(mergePatch(t, before.Raw, `{"metadata":{"resourceVersion":"500","generation":2}}`))), false)
	}
	f.run(abi.ReasonRetry)
	f.expect("add ns/w primary", "put back ns/w")
	f.run(abi.ReasonRetry)
	if f.request == nil || f.c.keys[testKey].parked != nil {
		t.Error("the guest was not called again")
	}
}

// The run has not read all that it would have.
func TestAPostponedStatusOfAFailedRunKeepsTheEdges(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = panics
	f.fail["status"] = busy("status", time.Nanosecond)
	f.run(abi.ReasonPrimary)
	f.expect("status Reconciling=True/ProgressingWithRetry Ready=False/Panic patch=", "abandon reads", "metric requeue_after ")
}

// The time during which a run was parked is nobody's work.
func TestADurationDoesNotIncludeTheTimeOfPostponedEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		time.Sleep(time.Minute) // fake time
		f.run(abi.ReasonRetry)
		ended := f.events[len(f.events)-1].(events.RunEnded)
		if ended.Duration != 0 || f.seconds != 0 {
			t.Errorf("took %s, and %v s as a metric", ended.Duration, f.seconds)
		}
	})
}
