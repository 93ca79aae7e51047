package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// newGone is a fixture whose controller asks for objects that are gone.
func newGone(t *testing.T, finalizer bool) *fixture {
	f := newLedger(t)
	rev := f.c.revision.Load()
	rev.Controller.Gone, rev.Controller.Finalizer = true, finalizer
	return f
}

// remove removes the widget, and delivers the event.
func (f *fixture) remove() *object.Object {
	o := f.store[widget][testKey]
	delete(f.store[widget], testKey)
	f.c.Observe(o, nil, false)
	return o
}

// removeUnheld removes the widget after somebody has removed its finalizer.
func (f *fixture) removeUnheld() {
	last := patched(f.t, f.store[widget][testKey], `{"metadata":{"finalizers":null}}`)
	delete(f.store[widget], testKey)
	f.c.Observe(last, nil, false)
}

func (f *fixture) isGone() bool { return f.request != nil && f.request.Gone }

func TestARunComesForAnObjectThatIsGone(t *testing.T) {
	f := newGone(t, false)
	f.put(strings.Replace(aWidget, `"finalizers":["f"]`, `"labels":{"a":"b"}`, 1))
	f.run()
	handled := f.given()
	f.edit(`{"spec":{"x":2}}`)
	last := f.remove()
	f.log = nil
	f.run(abi.ReasonPrimary)
	if !f.isGone() || f.given() != string(last.Raw) || f.request.Deleting {
		t.Fatalf("the request is %+v", f.request)
	}
	f.expectEntry("deleted", handled)
	if slices.ContainsFunc(f.log, func(what string) bool { return strings.HasPrefix(what, "status") || what == "finalizer" }) {
		t.Errorf("it is written to: %q", f.log)
	}
	f.request = nil
	if f.run(); f.request != nil || !slices.Contains(f.log, "cache forgets ns/w") {
		t.Errorf("then: %+v, %q", f.request, f.log)
	}
	if len(f.c.goneObjects.byKey)+f.c.goneObjects.bytes+len(f.c.keys)+len(f.c.created)+len(f.c.cleanedUp) > 0 {
		t.Errorf("something is left: %+v", f.c.goneObjects)
	}
}

func TestWithoutGoneNoRunComes(t *testing.T) {
	f := newLedger(t)
	f.put(aWidget)
	f.remove()
	if f.run(); f.request != nil {
		t.Errorf("%+v", f.request)
	}
}

func TestARunForAnObjectThatIsGoneIsRepeatedUntilItEnds(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.run()
	f.remove()
	f.ends(abi.CodeRetry, abi.Result{Memo: []byte(`1`), Sections: progress(`2`)})
	f.run()
	if next := f.done[len(f.done)-1]; next.Kind != outcome.Backoff {
		t.Errorf("after a failure: %+v", next)
	}
	f.reconcile = panics
	f.run()
	if !f.isGone() || f.request.Attempt != 1 || string(f.request.Memo) != "1" || string(entryOf(f.request).Progress) != "2" {
		t.Errorf("the second request: %+v", f.request)
	}
	f.ends(abi.CodeStalled, abi.Result{})
	f.run()
	f.request = nil
	if f.run(); f.request != nil {
		t.Errorf("after it has stalled: %+v", f.request)
	}
}

func TestACleanupThatHasSucceededIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		between func(*fixture) // the cleanup and the event of the deletion
		fails   bool
		gone    bool
	}{
		"at once":                    {func(*fixture) {}, false, false},
		"the key runs before":        {func(f *fixture) { f.run() }, false, false},
		"a cleanup that has not":     {func(*fixture) {}, true, true},
		"an object of the same name": {func(f *fixture) { f.put(strings.Replace(aWidget, "u1", "u2", 1)); f.run() }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newGone(t, true)
			f.put(aWidget)
			f.run()
			f.edit(`{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
			last := f.store[widget][testKey]
			if c.fails {
				f.reconcile = panics
			}
			f.run()
			c.between(f)
			if f.store[widget][testKey] == last {
				delete(f.store[widget], testKey)
			}
			f.c.Observe(last, nil, false)
			f.reconcile, f.request = succeed, nil
			if f.run(); f.isGone() != c.gone {
				t.Errorf("a run for it comes: %t", f.isGone())
			}
			if len(f.c.cleanedUp) > 0 {
				t.Errorf("left: %v", f.c.cleanedUp)
			}
		})
	}
}

// Before its informer shows the deletion of the first one, the second one may have run.
func TestAnObjectThatIsCreatedAgainRunsAfterTheOneThatIsGone(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.run()
	old := f.store[widget][testKey]
	f.put(strings.Replace(aWidget, "u1", "u2", 1))
	f.run()
	f.c.Observe(old, nil, false)
	f.c.Observe(nil, f.store[widget][testKey], false)
	f.log = nil
	f.run()
	if uid, _ := rawjson.Lookup(f.request.Object, "metadata", "uid"); !f.isGone() || string(uid) != `"u1"` {
		t.Errorf("the first run is for %s, gone: %t", uid, f.isGone())
	}
	if !slices.Contains(f.log, "add ns/w primary") {
		t.Errorf("the second one is not due: %q", f.log)
	}
	f.run()
	if uid, _ := rawjson.Lookup(f.request.Object, "metadata", "uid"); f.isGone() || string(uid) != `"u2"` || entryOf(f.request).Type != "changed" {
		t.Errorf("the second run is for %s, gone: %t, %s", uid, f.isGone(), entryOf(f.request).Type)
	}
}

// The queue of a replica that does not lead is empty.
func TestAnObjectThatIsGoneIsDueWhenTheReplicaLeadsAgain(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.remove()
	f.log = nil
	f.c.ResyncGone()
	f.expect("add ns/w resync")
}

func TestEachObjectOfANameThatIsGoneHasARun(t *testing.T) {
	f := newGone(t, false)
	for i := range 3 {
		f.put(strings.Replace(aWidget, "u1", fmt.Sprint("u", i), 1))
		f.remove()
	}
	for i := range 3 {
		f.run()
		if uid, _ := rawjson.Lookup(f.request.Object, "metadata", "uid"); !f.isGone() || string(uid) != fmt.Sprintf(`"u%d"`, i) {
			t.Errorf("run %d is for %s", i, uid)
		}
	}
	f.request = nil
	if f.run(); f.request != nil {
		t.Errorf("another one: %+v", f.request)
	}
}

func TestAResultCannotWriteToAnObjectThatIsGone(t *testing.T) {
	for name, result := range map[string]abi.Result{
		"status":    {Status: []byte(`{"a":1}`)},
		"condition": {Conditions: []abi.Condition{{Type: "Ready", Status: "True", Reason: "A"}}},
		"patch":     {Patch: []byte(`{"spec":{"a":1}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newGone(t, false)
			f.put(aWidget)
			f.remove()
			result.Result = abi.OutcomeSuccess
			f.ends(0, result)
			f.run()
			if s := f.c.goneObjects.byKey[testKey][0].state; s.previous == nil || s.previous.Class != abi.ClassABI {
				t.Errorf("the run ended with %+v", s.previous)
			}
			if len(f.patches) > 0 {
				t.Error("it is written to")
			}
		})
	}
}

func TestARunForAnObjectThatIsGoneMayDoAnythingElse(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.remove()
	f.log = nil
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{{Object: []byte(aGadget)}}})
	f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
	f.run()
	delete(f.fail, "apply")
	f.run()
	if n := len(slices.DeleteFunc(f.log, func(what string) bool { return what != "apply" })); n != 2 {
		t.Errorf("%d applies", n)
	}
	if len(f.c.goneObjects.byKey) > 0 {
		t.Error("it is repeated after it has succeeded")
	}
}

func TestManyObjectsThatAreGoneAreKeptByTheirMetadata(t *testing.T) {
	f := newGone(t, false)
	large := strings.Replace(aWidget, `"x":1`, `"x":"`+strings.Repeat("x", maxGoneBytes/2)+`"`, 1)
	for i := range 3 {
		f.put(strings.Replace(large, "u1", fmt.Sprint("u", i), 1))
		f.remove()
	}
	all := f.c.goneObjects.byKey[testKey]
	if all[0].MetadataOnly || !all[2].MetadataOnly || f.c.goneObjects.bytes > maxGoneBytes+1000 {
		t.Errorf("%d bytes are kept", f.c.goneObjects.bytes)
	}
	for range 3 {
		f.run()
	}
	if f.c.goneObjects.bytes != 0 || len(f.request.Object) > 1000 {
		t.Errorf("%d bytes are left, the last request has %d", f.c.goneObjects.bytes, len(f.request.Object))
	}
}

func TestARevisionThatDoesNotAskForObjectsThatAreGoneDropsThem(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.remove()
	f.swap(func(r *Revision) { r.Controller.Gone = false })
	if f.run(); f.request != nil || len(f.c.goneObjects.byKey) > 0 || f.c.goneObjects.bytes > 0 {
		t.Errorf("%+v, %+v", f.request, f.c.goneObjects)
	}
}

// The informer is one that others of the plugin share, which follow all of each object.
func TestNothingButMetadataIsGivenOfAnObjectThatIsGone(t *testing.T) {
	f := newGone(t, false)
	rev := f.c.revision.Load()
	rev.Controller.For.MetadataOnly = true
	f.follow()
	whole := f.put(aWidget)
	f.store[widget][testKey] = whole.Metadata()
	f.run()
	handled := f.given()
	f.c.Observe(whole, nil, false)
	f.run()
	if _, ok := rawjson.Lookup(f.request.Object, "spec"); !f.isGone() || ok {
		t.Errorf("the request is for %s", f.given())
	}
	f.expectEntry("deleted", handled)
}

// Such as one whose finalizer somebody removes during its cleanup, or that leaves the selector.
func TestAnObjectThatGoesDuringItsCleanupNeedsNoOtherRun(t *testing.T) {
	f := newGone(t, true)
	f.put(aWidget)
	f.run()
	f.edit(`{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
	last := f.store[widget][testKey]
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.c.Observe(last, nil, false)
		return returns(&abi.Result{})
	}
	f.run()
	f.reconcile, f.request = succeed, nil
	if f.run(); f.request != nil || len(f.c.cleanedUp)+len(f.c.goneObjects.byKey) > 0 {
		t.Errorf("%+v, left: %v", f.request, f.c.cleanedUp)
	}
}

func TestACleanupIsForgottenWhoeverLeadsThen(t *testing.T) {
	for name, between := range map[string]func(*fixture, *lease){
		"another replica":  func(_ *fixture, l *lease) { l.lose() },
		"another revision": func(f *fixture, _ *lease) { f.swap(func(r *Revision) { r.Controller.Gone = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newGone(t, true)
			l := &lease{leading: make(chan struct{})}
			f.c.Lease = l
			l.lead()
			f.put(aWidget)
			f.run()
			f.edit(`{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
			last := f.store[widget][testKey]
			f.run()
			between(f, l)
			if f.c.Observe(last, nil, false); len(f.c.cleanedUp) > 0 {
				t.Errorf("left: %v", f.c.cleanedUp)
			}
		})
	}
}

// A correction of the plugin does not wait for the end of a backoff.
func TestANewRevisionRunsForObjectsThatAreGone(t *testing.T) {
	for _, asks := range []bool{true, false} {
		f := newGone(t, false)
		f.put(aWidget)
		f.run()
		f.remove()
		f.reconcile = panics
		f.run()
		f.log = nil
		f.swap(func(r *Revision) { r.Controller.Gone = asks })
		if !slices.Contains(f.log, "add ns/w plugin") || slices.Contains(f.log, "effects forget u1") == asks {
			t.Errorf("asks for them: %t: %q", asks, f.log)
		}
	}
}

// The effects remember an Event until the object is forgotten.
func TestNothingIsRememberedOfAnObjectWhoseLastRunHasStalled(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.remove()
	f.ends(abi.CodeStalled, abi.Result{Error: &abi.Failure{Message: "no"}})
	f.log = nil
	f.run()
	told := slices.IndexFunc(f.log, func(what string) bool { return strings.HasPrefix(what, "event") })
	if forgot := slices.Index(f.log, "effects forget u1"); told < 0 || forgot < told {
		t.Errorf("what happened: %q", f.log)
	}
}

func TestAnOutageIsNoAttemptForAnObjectThatIsGone(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.remove()
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{{Object: []byte(aGadget)}}})
	f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}, Outage: true}
	f.run()
	f.c.OutageEnded()
	if f.run(); f.request.Attempt != 0 {
		t.Errorf("attempt %d", f.request.Attempt)
	}
}

func TestWhatARunLeavesIsThatOfTheObjectThatWentDuringIt(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.run()
	handled := f.given()
	f.edit(`{"spec":{"x":2}}`)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.remove()
		return sandbox.Return{Code: abi.CodeRetry, Output: abi.EncodeResult(&abi.Result{Memo: []byte(`1`), Sections: progress(`2`)})}, nil
	}
	f.run()
	f.reconcile = succeed
	f.run()
	if !f.isGone() || f.request.Attempt != 1 || string(entryOf(f.request).Progress) != "2" || string(f.request.Memo) != "1" {
		t.Errorf("the request is %+v", f.request)
	}
	f.expectEntry("deleted", handled)
}

// Else it does not see what the run has made, and leaves it.
func TestALostWriteIsReadBeforeTheRunForAnObjectThatIsGone(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{{Object: []byte(aGadget)}}})
	f.fail["apply"] = &effect.Failure{
		EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Ref: abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "g"}}, Uncertain: true,
	}
	f.run()
	f.remove()
	f.log, f.request = nil, nil
	if f.run(); !f.isGone() || !slices.Contains(f.log, "refresh Gadget") {
		t.Errorf("what happened: %q", f.log)
	}
}

// The informer is late: the second one is cleaned up before it shows that the first one went.
func TestCleanupsOfOneNameAreTold(t *testing.T) {
	f := newGone(t, true)
	var last []*object.Object
	for _, uid := range []string{"u1", "u2"} {
		f.put(strings.Replace(aWidget, "u1", uid, 1))
		f.edit(`{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
		last = append(last, f.store[widget][testKey])
		f.run()
	}
	f.request = nil
	for _, o := range last {
		f.c.Observe(o, nil, false)
	}
	if f.run(); f.request != nil || len(f.c.cleanedUp) > 0 {
		t.Errorf("%+v, left: %v", f.request, f.c.cleanedUp)
	}
}

func TestPostponedEffectsOfAnObjectThatHasGoneAreDropped(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{{Object: []byte(aGadget)}}})
	f.fail["apply"] = &effect.Failure{Later: time.Nanosecond}
	f.run()
	f.c.keys[testKey].notBefore = time.Time{}
	delete(f.fail, "apply")
	f.remove()
	f.request = nil
	if f.run(); !f.isGone() || f.c.parkedBytes != 0 {
		t.Errorf("%+v, %d bytes are parked", f.request, f.c.parkedBytes)
	}
}

func TestARunForAnObjectThatIsGoneWaitsAsOthersDo(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(*fixture)
		calls int
	}{
		"informers are late":  {func(f *fixture) { f.full = true }, 0},
		"a swap as it begins": {func(f *fixture) { f.meanwhile = func() { f.swap(func(*Revision) {}) } }, 0},
		"writes are postponed": {func(f *fixture) {
			f.c.goneObjects.byKey[testKey][0].state.carried = &carried{notBefore: time.Now().Add(time.Hour)}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newGone(t, false)
			f.put(aWidget)
			f.remove()
			calls := 0
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
				calls++
				return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(aGadget)}}})
			}
			c.begin(f)
			f.log = nil
			if f.run(); calls != c.calls || slices.Contains(f.log, "apply") || len(f.c.goneObjects.byKey) != 1 {
				t.Errorf("%d calls, %q", calls, f.log)
			}
		})
	}
}
