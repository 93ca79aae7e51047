package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
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
		if s := f.c.keys[testKey].left(); f.request != nil || s.tries.Attempt != 0 || s.parked != nil || s.previous != nil {
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

// The API server has asked for time: many changes by others must not lead to as many
// requests.
func TestAfterAChangeByOthersEffectsArePostponedStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		for n := range 2 {
			time.Sleep(time.Second) // fake time
			o := f.store[widget][testKey]
			f.c.Observe(o, f.put(string(mergePatch(t, o.Raw, fmt.Sprintf(`{"metadata":{"resourceVersion":"50%d"}}`, n)))), false)
			f.request, f.log = nil, nil
			f.run(abi.ReasonPrimary)
			f.expect("commit reads", "metric requeue_after ")
			if next := f.done[len(f.done)-1]; f.request == nil || next.After != time.Duration(2-n)*time.Second {
				t.Errorf("guest called: %v, done with %+v", f.request != nil, next)
			}
		}
		f.request = nil
		time.Sleep(time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads", "metric success ")
		if f.request != nil {
			t.Error("the guest was called again")
		}
	})
}

// It states exactly when the next write has a place.
func TestTheLimitOfThePluginPostponesNoLonger(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	f.fail["apply"] = busy("apply", time.Nanosecond)
	for range 5 {
		f.run(abi.ReasonRetry)
		if wait := f.done[len(f.done)-1].After; wait != time.Nanosecond {
			t.Errorf("postponed by %s", wait)
		}
	}
}

func TestARepeatedlyPostponedEffectWaitsLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.put(aWidget)
		f.reconcile = appliesGadget
		refuse := func(after time.Duration, runs int) (waits []time.Duration) {
			f.fail["apply"] = busy("apply", after)
			f.fail["apply"].Outage = true
			for range runs {
				f.run(abi.ReasonRetry)
				wait := f.done[len(f.done)-1].After
				waits = append(waits, wait)
				time.Sleep(wait) // fake time
			}
			return waits
		}
		for n, wait := range refuse(time.Second, 70) {
			least := min(time.Second<<min(n, 10), maxPostponed)
			if wait < least || wait > least*5/4 || n == 0 && wait != least {
				t.Errorf("postponed by %s the time number %d", wait, n+1)
			}
		}
		if waits := refuse(time.Minute, 2); waits[1] < time.Minute || waits[1] > 75*time.Second {
			t.Errorf("postponed by %s although the API server has asked for a minute", waits[1])
		}
		delete(f.fail, "apply")
		f.run(abi.ReasonRetry)
		if waits := refuse(time.Second, 1); waits[0] != time.Second {
			t.Errorf("postponed by %s the first time after a success", waits[0])
		}
	})
}

// Keys that were refused together must not come back together.
func TestPostponedEffectsAreSpread(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 100 {
		s := &keyState{carried: &carried{postponed: 9}}
		waits[s.postponement(time.Second)] = true
	}
	if len(waits) < 90 {
		t.Errorf("100 keys wait for %d different times", len(waits))
	}
}

// The API server lets one write through, and asks for time at the next.
func TestAWriteShowsThatTheAPIServerTakesSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.put(aWidget)
		f.fail["apply"] = busy("apply", time.Second)
		f.fail["apply"].Outage = true
		for n := range 10 {
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
				return returns(&abi.Result{
					Patch: fmt.Appendf(nil, `{"metadata":{"labels":{"x":"%d"}}}`, n),
					Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}},
				})
			}
			f.c.due(primaryEdited, testKey)
			f.run(abi.ReasonPrimary)
			wait := f.done[len(f.done)-1].After
			if wait != time.Second {
				t.Errorf("postponed by %s", wait)
			}
			time.Sleep(wait) // fake time
		}
	})
}

// What the plugin or the host did wrong must be told, and counted.
func TestARunThatFailedIsNotPostponed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		f.reconcile = panics
		f.c.due(primaryEdited, testKey)
		f.run(abi.ReasonPrimary)
		if s := f.c.keys[testKey].left(); s.tries.Attempt != 1 || s.parked != nil {
			t.Errorf("after a panic: %+v", s)
		}

		f = parked(t)
		f.c.revision.Load().MaxIntents = 1
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			event := abi.Event{Type: abi.EventNormal, Reason: "R"}
			return returns(&abi.Result{Events: []abi.Event{event, event}})
		}
		f.c.due(primaryEdited, testKey)
		f.run(abi.ReasonPrimary)
		if s := f.c.keys[testKey].left(); s.tries.Attempt != 1 || s.parked != nil {
			t.Errorf("after a result that was refused: %+v", s)
		}

		f = parked(t)
		f.c.keys[testKey].uncertain = []abi.Ref{{APIVersion: "v1", Kind: "Gadget", Name: "g"}}
		f.refresh = func(abi.Ref) error { return errors.New("connection refused") }
		f.c.due(primaryEdited, testKey)
		f.run(abi.ReasonPrimary)
		if s := f.c.keys[testKey].left(); s.tries.Attempt != 1 || s.parked != nil {
			t.Errorf("after a read that failed: %+v", s)
		}
	})
}

// Somebody changes the status while a run is parked, and the watch sends nothing but the
// last of that change and the run's own.
func TestAForeignStatusOfAParkedRunMakesTheKeyDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		before := f.store[widget][testKey]
		f.put(string(mergePatch(t, before.Raw, `{"metadata":{"resourceVersion":"50"},"status":{"foreign":1}}`)))
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.log = nil
		f.c.Observe(before, f.store[widget][testKey], false)
		f.expect("add ns/w status")
	})
}

func TestASuspendedObjectKeepsNoParkedRun(t *testing.T) {
	f := parked(t)
	o := f.store[widget][testKey]
	f.c.Observe(o, f.put(string(mergePatch(t, o.Raw, `{"metadata":{"resourceVersion":"500","annotations":{"reconcile.thole.dev/suspend":"true"}}}`))), false)
	if f.run(abi.ReasonPrimary); f.c.parkedBytes != 0 || f.c.keys[testKey].left().parked != nil {
		t.Errorf("%d bytes are parked", f.c.parkedBytes)
	}
}

// Replies may be large, and nothing needs them.
func TestAParkedRunKeepsNoReplies(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	f.fail["status"] = busy("status", time.Hour)
	f.run(abi.ReasonPrimary)
	for _, w := range f.c.keys[testKey].left().parked.writes {
		if w.Object != nil {
			t.Errorf("it keeps the reply to %s %s", w.Verb, w.Key)
		}
	}
	if f.wrote[0].Object == nil {
		t.Error("the write was not made visible")
	}
}

// A result that is not kept is asked for again.
func TestResultsOfParkedRunsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.fail["apply"] = busy("apply", time.Nanosecond)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Apply: []abi.Apply{{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"},"data":%q}`, strings.Repeat("x", 1<<20))}}})
	}
	const keys = maxParkedBytes>>20 + 5
	each := func(do func(name string)) {
		for n := range keys {
			do(fmt.Sprint("w", n))
		}
	}
	each(func(name string) {
		f.put(strings.Replace(strings.Replace(aWidget, `"name":"w"`, fmt.Sprintf(`"name":%q`, name), 1), `"u1"`, fmt.Sprintf(`"u-%s"`, name), 1))
		f.runNamed(name)
	})
	parked := 0
	for _, s := range f.c.keys {
		if s.left().parked != nil {
			parked++
		}
	}
	if parked < keys/2 || f.c.parkedBytes > maxParkedBytes {
		t.Errorf("%d of %d are parked, %d bytes", parked, keys, f.c.parkedBytes)
	}
	delete(f.fail, "apply")
	calls := 0
	succeed := f.reconcile
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		calls++
		return succeed(ctx, call)
	}
	each(f.runNamed)
	if calls != keys-parked || f.c.parkedBytes != 0 {
		t.Errorf("the guest was called %d times for %d results that were not kept; %d bytes are left", calls, keys-parked, f.c.parkedBytes)
	}
}

func TestANewRevisionDropsPostponedEffects(t *testing.T) {
	f := parked(t)
	f.swap(func(*Revision) {})
	f.log = nil
	f.run(abi.ReasonRetry)
	if f.request == nil {
		t.Error("the guest was not called again")
	}
	f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads", "metric success ") // at once
}

func TestAParkedRunEndsWithItsObject(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"deleted":       func(f *fixture) { f.removeUnheld() },
		"created again": func(f *fixture) { f.put(strings.Replace(aWidget, "u1", "u2", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := parked(t)
			if f.c.parkedBytes == 0 {
				t.Fatal("nothing is parked")
			}
			end(f)
			if f.run(abi.ReasonPrimary); f.c.parkedBytes != 0 {
				t.Errorf("%d bytes are left", f.c.parkedBytes)
			}
		})
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
	for name, before := range map[string]func(*fixture){
		"nothing in between": func(*fixture) {},
		"changes by others":  func(f *fixture) { f.c.due(readChanged, testKey) },
		"no room":            func(f *fixture) { f.c.parkedBytes = maxParkedBytes },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.reconcile = appliesGadget
			failure := lost("apply")
			failure.Later = time.Nanosecond
			f.fail["apply"] = failure
			for range 3 {
				before(f)
				f.run()
			}
			if s := f.c.keys[testKey].left(); s.tries.Attempt != 1 || s.parked != nil || len(s.uncertain) == 0 {
				t.Errorf("after three failures: %+v", s)
			}
			before(f)
			if f.run(); f.c.keys[testKey].left().tries.Attempt != 1 {
				t.Error("it is not postponed again after that")
			}
		})
	}
}

// The event may come when the worker has read the primary already.
func TestAChangeJustBeforeTheRunBeginsDropsPostponedEffects(t *testing.T) {
	f := parked(t)
	before := f.store[widget][testKey]
	f.c.keys[testKey].notBefore = time.Time{}
	f.meanwhile = func() {
		f.c.Observe(before, f.put(string(mergePatch(t, before.Raw, `{"metadata":{"resourceVersion":"500","generation":2}}`))), false)
	}
	f.run(abi.ReasonRetry)
	f.expect("add ns/w primary", "put back ns/w")
	f.run(abi.ReasonRetry)
	if f.request == nil || f.c.keys[testKey].left().parked != nil {
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

// The result of a parked run is that of a call without the right: it may have failed for want of it, and its run
// would back off.
func TestAParkedRunIsNotResumedAfterWhatOthersHaveDone(t *testing.T) {
	for name, test := range map[string]struct {
		reason abi.Reason
		due    func(c *Controller, keys []object.Key)
	}{
		"a right was granted": {abi.ReasonPlugin, (*Controller).Granted},
		"a resync":            {abi.ReasonResync, (*Controller).Resync},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := parked(t)
				time.Sleep(3 * time.Second) // fake time
				test.due(f.c, []object.Key{testKey})
				f.run(test.reason)
				if f.request == nil {
					t.Error("the run was resumed, want another call of the guest")
				}
			})
		})
	}
}

// They are not due for nothing but their own writes.
func TestGrantedRightsMakeNoWriteLoop(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	for range 2 * loopRuns {
		f.c.Granted([]object.Key{testKey})
		f.run(abi.ReasonPlugin)
	}
	if f.loops > 0 {
		t.Errorf("%d runs were counted as in a write loop", f.loops)
	}
}
