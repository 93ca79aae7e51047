package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome/handled"
	"github.com/thole-dev/thole/host/sandbox"
)

// newChanges is a fixture whose controller asks for changes.
func newChanges(t *testing.T, mode abi.Changes) *fixture {
	f := newFixture(t)
	rev := f.c.revision.Load()
	rev.Controller.Changes, rev.Controller.Finalizer = mode, false
	return f
}

// edit changes the widget as somebody else does, and delivers the event.
func (f *fixture) edit(patch string) {
	f.t.Helper()
	f.version++
	old := f.store[widget][testKey]
	updated := patched(f.t, patched(f.t, old, patch), fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, f.version))
	f.store[widget][testKey] = updated
	f.c.Observe(old, updated, false)
}

func (f *fixture) expectChange(want abi.ChangeType, old string) {
	f.t.Helper()
	if f.request == nil || f.request.Change == nil {
		f.t.Fatal("the request has no change")
	}
	got := f.request.Change
	if got.Type != want || (old == "") != (got.Old == nil) || old != "" && !rawjson.Equal(got.Old, []byte(old)) {
		f.t.Errorf("the change is %s from %s, want %s from %s", got.Type, got.Old, want, old)
	}
}

// ends makes the next runs end with an outcome, or a code if that is not 0.
func (f *fixture) ends(code abi.Code, result abi.Result) {
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Code: code, Output: abi.EncodeResult(&result)}, nil
	}
}

func (f *fixture) given() string { return string(f.request.Object) }

func TestWithoutChangesTheRequestHasNone(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.run()
	if f.request.Change != nil || f.c.keys[testKey].changes != nil {
		t.Errorf("%+v, %+v", f.request.Change, f.c.keys[testKey].changes)
	}
}

func TestFirstRunIsCreatedIfTheCreationWasSeenAndElseResumed(t *testing.T) {
	for name, c := range map[string]struct {
		seen func(*fixture, *object.Object)
		want abi.ChangeType
	}{
		"created":            {func(f *fixture, o *object.Object) { f.c.Observe(nil, o, false) }, abi.ChangeCreated},
		"in the first list":  {func(f *fixture, o *object.Object) { f.c.Observe(nil, o, true) }, abi.ChangeResumed},
		"before the handler": {func(*fixture, *object.Object) {}, abi.ChangeResumed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, abi.ChangesMemory)
			c.seen(f, f.put(aWidget))
			f.ends(abi.CodeRetry, abi.Result{})
			f.run()
			f.expectChange(c.want, "")
			f.reconcile = succeed
			f.run() // until a run ends well
			f.expectChange(c.want, "")
			handled := f.given()
			f.run()
			f.expectChange(abi.ChangeResynced, handled)
			f.edit(`{"spec":{"x":2}}`)
			f.run()
			if f.request.Change.Type != abi.ChangeUpdated {
				t.Errorf("after an edit: %s", f.request.Change.Type)
			}
		})
	}
}

// While another replica leads, that one handles what is created.
func TestACreationThatAnotherReplicaHandlesIsNotOne(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	f.c.Observe(nil, f.put(aWidget), false)
	l.lead()
	f.run()
	f.expectChange(abi.ChangeResumed, "")
}

// Another replica may have handled the object meanwhile, and what has changed since.
func TestAReplicaThatLeadsAgainResumes(t *testing.T) {
	for _, mode := range []abi.Changes{abi.ChangesMemory, abi.ChangesAnnotation} {
		f := newChanges(t, mode)
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.put(aWidget)
		f.run()
		f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`["a"]`)})
		f.run()
		l.lose()
		other := newChanges(t, mode)
		other.store, other.version = f.store, f.version
		other.run()
		f.edit(`{"spec":{"x":2}}`)
		l.lead()
		f.run()
		old := map[abi.Changes]string{abi.ChangesAnnotation: contentOfWidget}[mode]
		f.expectChange(abi.ChangeResumed, old)
		if f.request.Change.Progress != nil {
			t.Errorf("%s: progress %s of before the other replica led", mode, f.request.Change.Progress)
		}
	}
}

func TestACreationBeforeAnotherReplicaLedIsNotOne(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	f.c.Observe(nil, f.put(aWidget), false)
	l.lose()
	l.lead()
	f.run()
	f.expectChange(abi.ChangeResumed, "")
	if len(f.c.created) > 0 {
		t.Errorf("left: %v", f.c.created)
	}
}

// The run in progress is of before: its end is not one of a run of the next revision.
func TestARevisionThatComesDuringARunResumes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Revision)
		old    bool
	}{
		"new code":        {func(r *Revision) { r.Digest = "b" }, true},
		"another account": {func(r *Revision) { r.Account = "b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, abi.ChangesMemory)
			f.put(aWidget)
			f.run()
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
				f.swap(c.change)
				return returns(&abi.Result{Progress: []byte(`1`)})
			}
			f.run()
			f.reconcile = succeed
			f.run()
			if got := f.request.Change; got.Type != abi.ChangeResumed || (got.Old != nil) != c.old {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestChangeIsCountedFromTheLastRunThatEndedWell(t *testing.T) {
	for name, c := range map[string]struct {
		code   abi.Code
		result abi.Result
		fails  string // the effect
		well   bool
	}{
		"success":           {0, abi.Result{Result: abi.OutcomeSuccess}, "", true},
		"empty":             {0, abi.Result{Result: abi.OutcomeEmpty}, "", true},
		"requeue":           {0, abi.Result{Result: abi.OutcomeRequeue}, "", false},
		"retry":             {abi.CodeRetry, abi.Result{}, "", false},
		"stalled":           {abi.CodeStalled, abi.Result{}, "", false},
		"waiting":           {abi.CodeWaiting, abi.Result{}, "", false},
		"an unknown code":   {9, abi.Result{}, "", false},
		"an effect failed":  {0, abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{{Object: []byte(aGadget)}}}, "apply", false},
		"the status failed": {0, abi.Result{Result: abi.OutcomeSuccess}, "status", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, abi.ChangesMemory)
			f.put(aWidget)
			f.run()
			handled := f.given()
			f.edit(`{"spec":{"x":2}}`)
			f.ends(c.code, c.result)
			f.fail[c.fails] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
			f.run()
			f.expectChange(abi.ChangeUpdated, handled)
			if c.well {
				handled = f.given()
			}
			f.edit(`{"spec":{"x":3}}`)
			f.run()
			f.expectChange(abi.ChangeUpdated, handled)
		})
	}
}

const aGadget = `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`

func TestARunThatDoesNotReturnHandlesNothing(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.put(aWidget)
	f.run()
	handled := f.given()
	f.edit(`{"spec":{"x":2}}`)
	f.reconcile = panics
	f.run()
	f.edit(`{"spec":{"x":3}}`)
	f.run()
	f.expectChange(abi.ChangeUpdated, handled)
}

func TestANewRevisionResumes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Revision)
		want   abi.ChangeType
		old    bool
	}{
		"new code":           {func(r *Revision) { r.Digest = "b" }, abi.ChangeResumed, true},
		"a new policy":       {func(*Revision) {}, abi.ChangeStatusUpdated, true},
		"another account":    {func(r *Revision) { r.Account = "b" }, abi.ChangeResumed, false},
		"no changes, before": {func(r *Revision) { r.Controller.Changes = "" }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, abi.ChangesMemory)
			f.put(aWidget)
			f.run()
			f.swap(c.change)
			f.run(abi.ReasonPlugin)
			switch got := f.request.Change; {
			case c.want == "" && got == nil:
			case got == nil, got.Type != c.want, (got.Old != nil) != c.old:
				t.Errorf("%+v, want %s, old: %t", got, c.want, c.old)
			}
		})
	}
}

func TestProgressIsKeptUntilARunEndsWell(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.put(aWidget)
	expect := func(want string) {
		t.Helper()
		if f.run(); string(f.request.Change.Progress) != want {
			t.Errorf("progress %s, want %s", f.request.Change.Progress, want)
		}
	}
	f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`["a"]`)})
	expect("")
	f.reconcile = panics // keeps what there is
	expect(`["a"]`)
	f.ends(abi.CodeWaiting, abi.Result{Progress: []byte(`["a","b"]`)})
	expect(`["a"]`)
	f.ends(abi.CodeRetry, abi.Result{})
	expect(`["a","b"]`)
	expect("")
	f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`1`)})
	expect("")
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Progress: []byte(`2`)})
	expect("1")
	expect("")
}

// What the guest notes as done would never be asked for again.
func TestProgressOfARunWithAFailedEffectIsNotKept(t *testing.T) {
	for _, mode := range []abi.Changes{abi.ChangesMemory, abi.ChangesAnnotation} {
		f := newChanges(t, mode)
		f.put(aWidget)
		f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`"before"`)})
		f.run()
		f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`"applied"`), Apply: []abi.Apply{{Object: []byte(aGadget)}}})
		f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
		f.run()
		if f.run(); string(f.request.Change.Progress) != `"before"` {
			t.Errorf("%s: progress %s", mode, f.request.Change.Progress)
		}
		if s, _ := handled.Parse(f.annotation(), "u1"); mode == abi.ChangesAnnotation && string(s.Progress) != `"before"` {
			t.Errorf("the annotation has %s", s.Progress)
		}
	}
}

// A patch has the annotation, and the conditions that follow it fail: the progress was that of
// the change which is handled.
func TestProgressIsThatOfTheHandledStateInTheAnnotation(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.run()
	f.edit(`{"spec":{"x":2}}`)
	f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`["a"]`)})
	f.run()
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
	f.fail["status"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
	f.run()
	delete(f.fail, "status")
	f.edit(`{"spec":{"x":3}}`)
	if f.run(); f.request.Change.Progress != nil || !strings.Contains(string(f.request.Change.Old), `"x":2`) {
		t.Errorf("progress %s since %s", f.request.Change.Progress, f.request.Change.Old)
	}
}

func TestProgressNeedsChanges(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Progress: []byte(`1`)})
	f.run()
	if c := f.c.keys[testKey].left(); c.previous == nil || c.previous.Class != abi.ClassABI {
		t.Errorf("the run ended with %+v", c.previous)
	}
}

// After that its base may come again with another content.
func TestARestoreOfTheAPIServerLosesWhatWasHandled(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.put(aWidget)
	f.run()
	f.c.Restored(nil)
	f.run()
	f.expectChange(abi.ChangeUpdated, "")
}

// A run that is faster than the event which shows what was handled waits for it, and does not
// take the object for one that was never handled.
func TestARunWaitsForTheEventThatShowsWhatWasHandled(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	handled := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return handled, true }
	f.run()
	old, updated := f.store[widget][testKey], patched(t, f.store[widget][testKey], `{"spec":{"x":2},"metadata":{"resourceVersion":"200"}}`)
	f.store[widget][testKey] = updated
	f.shown = nil // the informer has stored it
	f.request = nil
	if f.run(); f.request != nil || f.done[len(f.done)-1].After != eventPause {
		t.Fatalf("the run began: %+v, next %+v", f.request, f.done[len(f.done)-1])
	}
	f.c.Observe(handled, old, false)
	f.c.Observe(old, updated, false)
	f.run()
	f.expectChange(abi.ChangeUpdated, aWidget)
}

// The event that shows what was handled comes after the run has read what the informer shows,
// and before the run has ended.
func TestAnEventAsARunEndsLosesNothing(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	before := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) {
		f.shown = nil
		f.edit(`{"spec":{"x":2}}`)
		return before, true
	}
	f.run()
	f.run()
	f.expectChange(abi.ChangeUpdated, aWidget)
}

func TestAnEventThatNeverComesDelaysARunForSeconds(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	handled := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return handled, true }
	f.run()
	f.shown, f.request = nil, nil
	for i := 0; f.request == nil; i++ {
		if i > maxBehind {
			t.Fatal("the run never begins")
		}
		f.run()
	}
	f.expectChange(abi.ChangeUpdated, "")
}

func TestAnObjectThatIsCreatedAgainHasNoHandledState(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	old := f.put(aWidget)
	f.run()
	f.c.Observe(old, nil, false)
	f.c.Observe(nil, f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u2","resourceVersion":"300"}}`), false)
	f.run()
	f.expectChange(abi.ChangeCreated, "")
}

// The event of the deletion makes the key due.
func TestAnObjectThatIsCreatedAgainAndRunsBeforeItsEventIsCreated(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	old := f.put(aWidget)
	f.run()
	again := f.put(strings.Replace(aWidget, "u1", "u2", 1))
	f.c.Observe(old, nil, false)
	f.run()
	f.expectChange(abi.ChangeCreated, "")
	f.c.Observe(nil, again, false)
	f.run()
	if f.request.Change.Type != abi.ChangeStatusUpdated || len(f.c.created) > 0 {
		t.Errorf("then: %s, left: %v", f.request.Change.Type, f.c.created)
	}
}

func TestAnObjectThatIsCreatedAsItsPredecessorIsForgottenIsCreated(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.shares = true
	f.put(aWidget)
	f.run()
	f.remove()
	f.released = func() { f.c.Observe(nil, f.put(strings.Replace(aWidget, "u1", "u2", 1)), false) }
	f.run()
	f.run()
	f.expectChange(abi.ChangeCreated, "")
}

// As those of an API server that is no Kubernetes: a version does not tell what an object is.
func TestAnObjectWithoutAResourceVersionIsKeptAsItIs(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.c.revision.Load().Controller.For.MetadataOnly = true // no status is written
	f.put(strings.Replace(aWidget, `"resourceVersion":"1",`, "", 1))
	f.run()
	handled := f.given()
	f.put(strings.Replace(handled, `"x":1`, `"x":2`, 1))
	f.request = nil
	if f.run(); f.request == nil {
		t.Fatal("the run waits for an event")
	}
	f.expectChange(abi.ChangeUpdated, handled)
}

func TestAnEventOfACreationThatIsLateIsNotOneOfAHandledObject(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	o := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return o, true } // the events are late
	f.run()
	f.swap(func(r *Revision) { r.Digest = "b" })
	f.reconcile = panics
	f.run()
	f.c.Observe(nil, o, false)
	f.run()
	if f.request.Change.Type != abi.ChangeResumed {
		t.Errorf("the change is %s", f.request.Change.Type)
	}
}

// informerModel is an informer that stores versions of the widget late, and delivers their
// events later still.
type informerModel struct {
	*fixture
	versions         []*object.Object // of the API server
	shownAt, eventAt int              // indexes of what the informer has stored, and has delivered
}

// store makes Get return the later of the last own write and what the informer shows.
func (m *informerModel) storeShown(i int) {
	m.shownAt = i
	if o := m.versions[i]; versionOf(m.store[widget][testKey]) < versionOf(o) {
		m.store[widget][testKey] = o
	}
}

func (m *informerModel) deliver() {
	if m.eventAt < m.shownAt {
		m.c.Observe(m.versions[m.eventAt], m.versions[m.eventAt+1], false)
		m.eventAt++
	}
}

// Whatever the informer and the runs do, in whatever order: old is what the last run that
// ended well was given, or the run waits.
func TestOldIsWhatTheLastRunWasGivenThatEndedWell(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &informerModel{fixture: newChanges(t, abi.ChangesMemory)}
		m.versions = []*object.Object{m.put(aWidget)}
		m.shown = func(object.Key) (*object.Object, bool) { return m.versions[m.shownAt], true }
		handled, runs := "", 0
		m.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			runs++
			if got := string(m.request.Change.Old); (got == "") != (handled == "") || got != "" && !rawjson.Equal([]byte(got), []byte(handled)) {
				rt.Fatalf("old is\n%s, want\n%s", got, handled)
			}
			if rapid.Bool().Draw(rt, "fails") {
				return sandbox.Return{}, errors.New("network")
			}
			handled = m.given()
			return returns(&abi.Result{})
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			m.step(rt)
		}
		for m.eventAt < len(m.versions)-1 {
			m.storeShown(min(m.shownAt+1, len(m.versions)-1))
			m.deliver()
		}
		before := runs
		if m.run(); runs == before {
			rt.Fatal("no run begins although every event was delivered")
		}
	})
}

func (m *informerModel) step(rt *rapid.T) {
	latest := m.versions[len(m.versions)-1]
	switch rapid.SampledFrom([]string{"edit", "show", "deliver", "run"}).Draw(rt, "step") {
	case "edit":
		m.version++
		x := rapid.IntRange(1, 3).Draw(rt, "x")
		m.versions = append(m.versions, patched(m.t, latest, fmt.Sprintf(`{"spec":{"x":%d},"metadata":{"resourceVersion":"%d"}}`, x, m.version)))
	case "show":
		m.storeShown(min(m.shownAt+1, len(m.versions)-1))
	case "deliver":
		m.deliver()
	case "run":
		if seen := m.store[widget][testKey]; seen.ResourceVersion != latest.ResourceVersion { // the write of the status is made for what it is now
			x, _ := rawjson.Lookup(latest.Raw, "spec", "x")
			m.foreign = fmt.Sprintf(`{"spec":{"x":%s},"metadata":{"resourceVersion":"%s"}}`, x, latest.ResourceVersion)
		}
		m.run()
		m.foreign = ""
		if now := m.store[widget][testKey]; versionOf(now) > versionOf(latest) {
			m.versions = append(m.versions, now)
		}
	}
}

// With the annotation.

func (f *fixture) annotation() string {
	return f.store[widget][testKey].Annotations[handled.Annotation("p", "c")]
}

const contentOfWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1"},"spec":{"x":1}}`

func TestTheHandledStateSurvivesInTheAnnotation(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.run()
	f.expectChange(abi.ChangeCreated, "")
	f.run()
	f.expectChange(abi.ChangeResynced, contentOfWidget)
	if _, ok := rawjson.Lookup(f.request.Object, "metadata", "annotations", handled.Annotation("p", "c")); ok {
		t.Error("the guest sees the annotation")
	}
	f.edit(`{"spec":{"x":2}}`)
	again := newChanges(t, abi.ChangesAnnotation) // another host
	again.store, again.version = f.store, f.version
	again.run()
	again.expectChange(abi.ChangeResumed, contentOfWidget)
	again.run()
	if again.request.Change.Type != abi.ChangeResynced {
		t.Errorf("then: %s", again.request.Change.Type)
	}
}

// As one that is restored from a backup, or made by copying another one.
func TestACopyOfAnObjectIsCreated(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.run()
	f.put(strings.Replace(string(f.store[widget][testKey].Raw), "u1", "u2", 1))
	f.log = nil
	f.run()
	f.expectChange(abi.ChangeCreated, "")
	if slices.Contains(f.log, "event Warning LastHandledInvalid") {
		t.Errorf("what happened: %q", f.log)
	}
	f.run()
	if f.request.Change.Old == nil {
		t.Error("the copy is not handled")
	}
}

func TestTheAnnotationIsTheLastEffect(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"spec":{"y":1}}`), Apply: []abi.Apply{{Object: []byte(aGadget)}}})
	f.run()
	if i, j := slices.Index(f.log, "apply"), slices.Index(f.log, "annotate"); i < 0 || j < i {
		t.Errorf("what happened: %q", f.log)
	}
	f.run() // is given what the first one has patched
	f.log = nil
	if f.run(); slices.Contains(f.log, "annotate") {
		t.Errorf("it is written again: %q", f.log)
	}
}

// Then nothing but the conditions of the host follows the patch.
func TestAPatchAloneHasTheAnnotationInIt(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
	f.run()
	if f.annotation() == "" || slices.Contains(f.log, "annotate") || len(f.patches) != 1 {
		t.Errorf("annotation %q after %q", f.annotation(), f.log)
	}
}

func TestARunThatFailsLeavesTheAnnotationButForItsProgress(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.run()
	before, _ := handled.Parse(f.annotation(), "u1")
	f.edit(`{"spec":{"x":2}}`)
	f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`["a"]`)})
	f.run()
	after, valid := handled.Parse(f.annotation(), "u1")
	if !valid || !rawjson.Equal(after.Object, before.Object) || string(after.Progress) != `["a"]` {
		t.Errorf("%+v, %t", after, valid)
	}
	again := newChanges(t, abi.ChangesAnnotation) // another host
	again.store = f.store
	if again.run(); string(again.request.Change.Progress) != `["a"]` {
		t.Errorf("after a restart: %+v", again.request.Change)
	}
	if s, _ := handled.Parse(f.annotation(), "u1"); s.Progress != nil {
		t.Errorf("a run that ended well leaves %+v", s)
	}
}

func TestAnAnnotationThatCannotBeWrittenFailsTheRun(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.fail["annotate"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbPatch, Class: abi.ClassRetry, Message: "no"}}
	f.run()
	if c := f.c.keys[testKey].left(); c.previous == nil || c.tries.Attempt != 1 {
		t.Errorf("the run ended well: %+v", c)
	}
	f.run()
	f.expectChange(abi.ChangeCreated, "")
}

func TestAnEditedAnnotationIsToldAndReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		edit     string // of the annotation
		restart  bool
		changed  bool // the object, too
		want     abi.ChangeType
		reported bool
	}{
		"edited":                      {`"{}"`, false, false, abi.ChangeResynced, true},
		"edited, and the object":      {`"{}"`, false, true, abi.ChangeUpdated, true},
		"edited before a restart":     {`"{}"`, true, false, abi.ChangeResumed, true},
		"removed":                     {`null`, false, false, abi.ChangeResynced, false},
		"removed, and the object too": {`null`, false, true, abi.ChangeUpdated, false},
		"removed before a restart":    {`null`, true, false, abi.ChangeCreated, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, abi.ChangesAnnotation)
			f.put(aWidget)
			f.run()
			f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":` + c.edit + `}}}`)
			if c.changed {
				f.edit(`{"spec":{"x":2}}`)
			}
			if c.restart {
				again := newChanges(t, abi.ChangesAnnotation)
				again.store, f = f.store, again
			}
			f.log = nil
			f.run()
			old := ""
			if c.want == abi.ChangeResynced { // by the digest
				old = contentOfWidget
			}
			f.expectChange(c.want, old)
			if slices.Contains(f.log, "event Warning LastHandledInvalid") != c.reported {
				t.Errorf("what happened: %q", f.log)
			}
			if f.run(); f.request.Change.Type != abi.ChangeResynced || f.request.Change.Old == nil {
				t.Errorf("then: %+v", f.request.Change)
			}
		})
	}
}

func TestAContentThatTheAPIServerRefusesIsReplacedByItsDigest(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	refused := &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Invalid"}}
	f.fail["annotate"] = refused
	f.annotated = func() { delete(f.fail, "annotate") } // the second one succeeds
	f.run()
	if s, valid := handled.Parse(f.annotation(), "u1"); !valid || s.Object != nil || s.Digest == "" {
		t.Errorf("%+v, %t", s, valid)
	}
	if !slices.Contains(f.log, "event Warning LastHandledTooLarge") {
		t.Errorf("nothing is told: %q", f.log)
	}
	f.run()
	f.expectChange(abi.ChangeResynced, contentOfWidget)
}

// What is remembered of the annotation counts, not what somebody has made of it.
func TestAnEditedAnnotationOfAnObjectThatWasNeverHandledIsNone(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`1`)})
	f.run()
	f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":"{}"}}}`)
	f.reconcile = succeed
	f.run()
	f.expectChange(abi.ChangeCreated, "")
	f.run()
	f.expectChange(abi.ChangeResynced, contentOfWidget)
}

func TestARemovedAnnotationIsKnownToANewRevision(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.run()
	f.edit(`{"metadata":{"annotations":null}}`)
	f.swap(func(r *Revision) { r.Digest = "b" })
	f.run()
	f.expectChange(abi.ChangeResumed, contentOfWidget)
}

// Such as of an object with the annotations of several controllers, which are too long together.
func TestAContentThatIsAlwaysRefusedIsSentOnceForEachChange(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	refused := &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Invalid"}}
	f.refuses = func(value string) *effect.Failure {
		if s, _ := handled.Parse(value, "u1"); s.Object != nil {
			return refused
		}
		return nil
	}
	annotations := func() (n int) {
		for _, what := range f.log {
			if what == "annotate" {
				n++
			}
		}
		f.log = nil
		return n
	}
	f.run()
	if n := annotations(); n != 2 {
		t.Errorf("%d writes for the first run", n)
	}
	f.run()
	told := slices.Contains(f.log, "event Warning LastHandledTooLarge")
	if n := annotations(); n != 0 || !told {
		t.Errorf("%d writes for a run without a change, told: %t", n, told)
	}
	f.edit(`{"spec":{"x":2}}`)
	f.run()
	if n := annotations(); n != 2 || f.request.Change.Type != abi.ChangeUpdated {
		t.Errorf("%d writes for a change, which is %s", n, f.request.Change.Type)
	}
}

// An object whose annotations have no room for another one, or which its schema does not accept any
// more: the run has succeeded all the same.
func TestAnAnnotationThatIsRefusedFailsNoRun(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	full := true
	f.refuses = func(string) *effect.Failure {
		if !full {
			return nil
		}
		return &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Invalid", Message: "metadata.annotations: Too long"}}
	}
	expect := func(want abi.ChangeType, old string) {
		t.Helper()
		f.log = nil
		f.run()
		f.expectChange(want, old)
		if f.annotation() != "" || !slices.Contains(f.log, "event Warning LastHandledNotKept") || slices.ContainsFunc(f.log, func(what string) bool { return strings.Contains(what, "Ready=False") }) {
			t.Errorf("what happened: %q, the annotation is %q", f.log, f.annotation())
		}
	}
	expect(abi.ChangeCreated, "")
	expect(abi.ChangeResynced, contentOfWidget)
	f.edit(`{"spec":{"x":2}}`)
	expect(abi.ChangeUpdated, "")
	full = false
	f.run()
	if s, valid := handled.Parse(f.annotation(), "u1"); !valid || s.Object == nil {
		t.Errorf("with room: %+v, %t", s, valid)
	}
}

// The patch that the plugin asks for is not to fail because of the annotation.
func TestAPatchThatIsRefusedWithTheAnnotationIsSentWithoutIt(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	refused := &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Invalid"}}
	f.refuses = func(value string) *effect.Failure {
		if s, _ := handled.Parse(value, "u1"); s.Object != nil {
			return refused
		}
		return nil
	}
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
	f.run()
	if s, _ := handled.Parse(f.annotation(), "u1"); len(f.patches) != 1 || s.Digest == "" || f.c.keys[testKey].left().previous != nil {
		t.Errorf("%d patches, annotation %q, previous %+v", len(f.patches), f.annotation(), f.c.keys[testKey].left().previous)
	}
}

// Objects are compared once for each event, however many keys have read them.
func TestTheAnnotationCostsEachReaderNothing(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	before := patched(t, f.put(aWidget), `{"spec":{"text":"`+strings.Repeat("x", 1<<20)+`"}}`)
	written := patched(t, before, `{"metadata":{"resourceVersion":"9","annotations":{"handled.other.thole.dev/x":"1"}}}`)
	edited := patched(t, written, `{"metadata":{"resourceVersion":"10"},"spec":{"y":1}}`)
	for i, event := range [][2]*object.Object{{before, written}, {written, edited}} {
		read := func() { f.c.ObserveRead(testKey, event[0], event[1], false) }
		if allocations := testing.AllocsPerRun(100, read); allocations > 20 {
			t.Errorf("event %d: %v allocations for each reader", i, allocations)
		}
		if added := len(f.log) > 0; added != (i == 1) {
			t.Errorf("event %d makes a reader due: %t", i, added)
		}
	}
}

// BenchmarkReaders has what an event costs for each key that has read the object, of 1 MiB or
// with 10,000 annotations.
func BenchmarkReaders(b *testing.B) {
	f := newFixture(&testing.T{})
	many := &strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(many, `,"example.dev/%d":"x"`, i)
	}
	of := func(annotations, spec string) *object.Object {
		return patched(f.t, f.put(aWidget), fmt.Sprintf(`{"metadata":{"annotations":{%s}},"spec":{%s}}`, annotations, spec))
	}
	large := `"a":[` + strings.Repeat(`{"a":1},`, 128<<10) + `1]`
	for name, event := range map[string][2]*object.Object{
		"plain":       {of("", ""), of("", `"y":1`)},
		"handled":     {of("", large), of(`"handled.other.thole.dev/x":"1"`, large)},
		"annotations": {of(many.String()[1:], ""), of(many.String()[1:], `"y":1`)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f.c.ObserveRead(testKey, event[0], event[1], false)
			}
		})
	}
}

func TestTheAnnotationRunsNothing(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	before := f.put(aWidget)
	after := patched(t, before, `{"metadata":{"resourceVersion":"9","annotations":{"handled.other.thole.dev/x":"1"}}}`)
	f.c.Observe(before, after, false)
	f.c.ObserveOwned(before, after)
	f.c.ObserveRead(testKey, before, after, false)
	f.c.ObserveWatched(&abi.Watch{By: abi.WatchByLabel, Key: "a"}, fieldpath.Path{}, before, after)
	f.expect()
	f.c.ObserveRead(testKey, before, patched(t, after, `{"spec":{"x":2}}`), false)
	f.expect("add ns/w read")
}
