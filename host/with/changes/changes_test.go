package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/with/changes/handled"
)

func TestFirstRunIsCreatedIfTheCreationWasSeenAndElseResumed(t *testing.T) {
	for name, c := range map[string]struct {
		seen func(*world, *object.Object)
		want contract.Type
	}{
		"created":            {func(f *world, o *object.Object) { f.c.Observe(nil, o, false) }, contract.Created},
		"in the first list":  {func(f *world, o *object.Object) { f.c.Observe(nil, o, true) }, contract.Resumed},
		"before the handler": {func(*world, *object.Object) {}, contract.Resumed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, contract.Memory)
			c.seen(f, f.put(aWidget))
			f.ends(abi.CodeRetry, abi.Result{})
			f.run()
			f.expectChange(c.want, "")
			f.reconcile = succeed
			f.run() // until a run ends well
			f.expectChange(c.want, "")
			handled := f.given()
			f.run()
			f.expectChange(contract.Resynced, handled)
			f.edit(`{"spec":{"x":2}}`)
			f.run()
			if f.change().Type != contract.Updated {
				t.Errorf("after an edit: %s", f.change().Type)
			}
		})
	}
}

// While another replica leads, that one handles what is created.
func TestACreationThatAnotherReplicaHandlesIsNotOne(t *testing.T) {
	f := newChanges(t, contract.Memory)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	f.c.Observe(nil, f.put(aWidget), false)
	l.lead()
	f.run()
	f.expectChange(contract.Resumed, "")
}

// Another replica may have handled the object meanwhile, and what has changed since.
func TestAReplicaThatLeadsAgainResumes(t *testing.T) {
	for _, mode := range []contract.Mode{contract.Memory, contract.Annotation} {
		f := newChanges(t, mode)
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.put(aWidget)
		f.run()
		f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`["a"]`))})
		f.run()
		l.lose()
		other := newChanges(t, mode)
		other.store, other.version = f.store, f.version
		other.run()
		f.edit(`{"spec":{"x":2}}`)
		l.lead()
		f.run()
		old := map[contract.Mode]string{contract.Annotation: contentOfWidget}[mode]
		f.expectChange(contract.Resumed, old)
		if f.change().Progress != nil {
			t.Errorf("%s: progress %s of before the other replica led", mode, f.change().Progress)
		}
	}
}

func TestACreationBeforeAnotherReplicaLedIsNotOne(t *testing.T) {
	f := newChanges(t, contract.Memory)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	f.c.Observe(nil, f.put(aWidget), false)
	l.lose()
	l.lead()
	f.run()
	f.expectChange(contract.Resumed, "")
}

// The run in progress is of before: its end is not one of a run of the next revision.
func TestARevisionThatComesDuringARunResumes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*dispatch.Revision)
		old    bool
	}{
		"new code":        {func(r *dispatch.Revision) { r.Digest = "b" }, true},
		"another account": {func(r *dispatch.Revision) { r.Account = "b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, contract.Memory)
			f.put(aWidget)
			f.run()
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
				f.swap(c.change)
				return returns(&abi.Result{Sections: progress([]byte(`1`))})
			}
			f.run()
			f.reconcile = succeed
			f.run()
			if got := f.change(); got.Type != contract.Resumed || (got.Old != nil) != c.old {
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
			f := newChanges(t, contract.Memory)
			f.put(aWidget)
			f.run()
			handled := f.given()
			f.edit(`{"spec":{"x":2}}`)
			f.ends(c.code, c.result)
			f.fail[c.fails] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
			f.run()
			f.expectChange(contract.Updated, handled)
			if c.well {
				handled = f.given()
			}
			f.edit(`{"spec":{"x":3}}`)
			f.run()
			f.expectChange(contract.Updated, handled)
		})
	}
}

const aGadget = `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`

func TestARunThatDoesNotReturnHandlesNothing(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.put(aWidget)
	f.run()
	handled := f.given()
	f.edit(`{"spec":{"x":2}}`)
	f.reconcile = panics
	f.run()
	f.edit(`{"spec":{"x":3}}`)
	f.run()
	f.expectChange(contract.Updated, handled)
}

func TestANewRevisionResumes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*dispatch.Revision)
		want   contract.Type
		old    bool
	}{
		"new code":           {func(r *dispatch.Revision) { r.Digest = "b" }, contract.Resumed, true},
		"a new policy":       {func(*dispatch.Revision) {}, contract.StatusUpdated, true},
		"another account":    {func(r *dispatch.Revision) { r.Account = "b" }, contract.Resumed, false},
		"no changes, before": {func(r *dispatch.Revision) { r.Controller.Sections = nil }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, contract.Memory)
			f.put(aWidget)
			f.run()
			f.swap(c.change)
			f.run(abi.ReasonPlugin)
			switch got := f.change(); {
			case c.want == "" && got == nil:
			case got == nil, got.Type != c.want, (got.Old != nil) != c.old:
				t.Errorf("%+v, want %s, old: %t", got, c.want, c.old)
			}
		})
	}
}

func TestProgressIsKeptUntilARunEndsWell(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.put(aWidget)
	expect := func(want string) {
		t.Helper()
		if f.run(); string(f.change().Progress) != want {
			t.Errorf("progress %s, want %s", f.change().Progress, want)
		}
	}
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`["a"]`))})
	expect("")
	f.reconcile = panics // keeps what there is
	expect(`["a"]`)
	f.ends(abi.CodeWaiting, abi.Result{Sections: progress([]byte(`["a","b"]`))})
	expect(`["a"]`)
	f.ends(abi.CodeRetry, abi.Result{})
	expect(`["a","b"]`)
	expect("")
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`1`))})
	expect("")
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Sections: progress([]byte(`2`))})
	expect("1")
	expect("")
}

// What the guest notes as done would never be asked for again.
func TestProgressOfARunWithAFailedEffectIsNotKept(t *testing.T) {
	for _, mode := range []contract.Mode{contract.Memory, contract.Annotation} {
		f := newChanges(t, mode)
		f.put(aWidget)
		f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`"before"`))})
		f.run()
		f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`"applied"`)), Apply: []abi.Apply{{Object: []byte(aGadget)}}})
		f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
		f.run()
		if f.run(); string(f.change().Progress) != `"before"` {
			t.Errorf("%s: progress %s", mode, f.change().Progress)
		}
		if s, _ := handled.Parse(f.annotation(), "u1"); mode == contract.Annotation && string(s.Progress) != `"before"` {
			t.Errorf("the annotation has %s", s.Progress)
		}
	}
}

// A patch has the annotation, and the conditions that follow it fail: the progress was that of
// the change which is handled.
func TestProgressIsThatOfTheHandledStateInTheAnnotation(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.run()
	f.edit(`{"spec":{"x":2}}`)
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`["a"]`))})
	f.run()
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
	f.fail["status"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
	f.run()
	delete(f.fail, "status")
	f.edit(`{"spec":{"x":3}}`)
	if f.run(); f.change().Progress != nil || !strings.Contains(string(f.change().Old), `"x":2`) {
		t.Errorf("progress %s since %s", f.change().Progress, f.change().Old)
	}
}

// After that its base may come again with another content.
func TestARestoreOfTheAPIServerLosesWhatWasHandled(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.put(aWidget)
	f.run()
	f.c.Restored(nil)
	f.run()
	f.expectChange(contract.Updated, "")
}

// A run that is faster than the event which shows what was handled waits for it, and does not
// take the object for one that was never handled.
func TestARunWaitsForTheEventThatShowsWhatWasHandled(t *testing.T) {
	f := newChanges(t, contract.Memory)
	handled := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return handled, true }
	f.run()
	old, updated := f.store[testKey], patched(t, f.store[testKey], `{"spec":{"x":2},"metadata":{"resourceVersion":"200"}}`)
	f.store[testKey] = updated
	f.shown = nil // the informer has stored it
	f.request = nil
	if f.run(); f.request != nil || f.next.After != eventPause {
		t.Fatalf("the run began: %+v, next %+v", f.request, f.next)
	}
	f.c.Observe(handled, old, false)
	f.c.Observe(old, updated, false)
	f.run()
	f.expectChange(contract.Updated, aWidget)
}

// The event that shows what was handled comes after the run has read what the informer shows,
// and before the run has ended.
func TestAnEventAsARunEndsLosesNothing(t *testing.T) {
	f := newChanges(t, contract.Memory)
	before := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) {
		f.shown = nil
		f.edit(`{"spec":{"x":2}}`)
		return before, true
	}
	f.run()
	f.run()
	f.expectChange(contract.Updated, aWidget)
}

func TestAnEventThatNeverComesDelaysARunForSeconds(t *testing.T) {
	f := newChanges(t, contract.Memory)
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
	f.expectChange(contract.Updated, "")
}

func TestAnObjectThatIsCreatedAgainHasNoHandledState(t *testing.T) {
	f := newChanges(t, contract.Memory)
	old := f.put(aWidget)
	f.run()
	f.c.Observe(old, nil, false)
	f.c.Observe(nil, f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u2","resourceVersion":"300"}}`), false)
	f.run()
	f.expectChange(contract.Created, "")
}

// The event of the deletion makes the key due.
func TestAnObjectThatIsCreatedAgainAndRunsBeforeItsEventIsCreated(t *testing.T) {
	f := newChanges(t, contract.Memory)
	old := f.put(aWidget)
	f.run()
	again := f.put(strings.Replace(aWidget, "u1", "u2", 1))
	f.c.Observe(old, nil, false)
	f.run()
	f.expectChange(contract.Created, "")
	f.c.Observe(nil, again, false)
	f.run()
	if f.change().Type != contract.StatusUpdated {
		t.Errorf("then: %s", f.change().Type)
	}
}

func TestAnObjectThatIsCreatedAsItsPredecessorIsForgottenIsCreated(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.put(aWidget)
	f.run()
	f.remove()
	f.releasing = func() { f.c.Observe(nil, f.put(strings.Replace(aWidget, "u1", "u2", 1)), false) }
	f.run()
	f.run()
	f.expectChange(contract.Created, "")
}

// As those of an API server that is no Kubernetes: a version does not tell what an object is.
func TestAnObjectWithoutAResourceVersionIsKeptAsItIs(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.c.Revision().Controller.For.MetadataOnly = true // no status is written
	f.put(strings.Replace(aWidget, `"resourceVersion":"1",`, "", 1))
	f.run()
	handled := f.given()
	f.put(strings.Replace(handled, `"x":1`, `"x":2`, 1))
	f.request = nil
	if f.run(); f.request == nil {
		t.Fatal("the run waits for an event")
	}
	f.expectChange(contract.Updated, handled)
}

func TestAnEventOfACreationThatIsLateIsNotOneOfAHandledObject(t *testing.T) {
	f := newChanges(t, contract.Memory)
	o := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return o, true } // the events are late
	f.run()
	f.swap(func(r *dispatch.Revision) { r.Digest = "b" })
	f.reconcile = panics
	f.run()
	f.c.Observe(nil, o, false)
	f.run()
	if f.change().Type != contract.Resumed {
		t.Errorf("the change is %s", f.change().Type)
	}
}

// informerModel is an informer that stores versions of the widget late, and delivers their
// events later still.
type informerModel struct {
	*world
	versions         []*object.Object // of the API server
	shownAt, eventAt int              // indexes of what the informer has stored, and has delivered
}

// store makes Get return the later of the last own write and what the informer shows.
func (m *informerModel) storeShown(i int) {
	m.shownAt = i
	if o := m.versions[i]; versionOf(m.store[testKey]) < versionOf(o) {
		m.store[testKey] = o
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
		m := &informerModel{world: newChanges(t, contract.Memory)}
		m.versions = []*object.Object{m.put(aWidget)}
		m.shown = func(object.Key) (*object.Object, bool) { return m.versions[m.shownAt], true }
		handled, runs := "", 0
		m.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			runs++
			if got := string(m.change().Old); (got == "") != (handled == "") || got != "" && !rawjson.Equal([]byte(got), []byte(handled)) {
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
		if seen := m.store[testKey]; seen.ResourceVersion != latest.ResourceVersion { // the write of the status is made for what it is now
			x, _ := rawjson.Lookup(latest.Raw, "spec", "x")
			m.foreign = fmt.Sprintf(`{"spec":{"x":%s},"metadata":{"resourceVersion":"%s"}}`, x, latest.ResourceVersion)
		}
		m.run()
		m.foreign = ""
		if now := m.store[testKey]; versionOf(now) > versionOf(latest) {
			m.versions = append(m.versions, now)
		}
	}
}

// With the annotation.

func (f *world) annotation() string {
	return f.store[testKey].Annotations[handled.Annotation("p", "c")]
}

const contentOfWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1"},"spec":{"x":1}}`

func TestTheHandledStateSurvivesInTheAnnotation(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.run()
	f.expectChange(contract.Created, "")
	f.run()
	f.expectChange(contract.Resynced, contentOfWidget)
	if _, ok := rawjson.Lookup(f.request.Object, "metadata", "annotations", handled.Annotation("p", "c")); ok {
		t.Error("the guest sees the annotation")
	}
	f.edit(`{"spec":{"x":2}}`)
	again := newChanges(t, contract.Annotation) // another host
	again.store, again.version = f.store, f.version
	again.run()
	again.expectChange(contract.Resumed, contentOfWidget)
	again.run()
	if again.change().Type != contract.Resynced {
		t.Errorf("then: %s", again.change().Type)
	}
}

// As one that is restored from a backup, or made by copying another one.
func TestACopyOfAnObjectIsCreated(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.run()
	f.put(strings.Replace(string(f.store[testKey].Raw), "u1", "u2", 1))
	f.log = nil
	f.run()
	f.expectChange(contract.Created, "")
	if slices.Contains(f.log, "event Warning LastHandledInvalid") {
		t.Errorf("what happened: %q", f.log)
	}
	f.run()
	if f.change().Old == nil {
		t.Error("the copy is not handled")
	}
}

func TestTheAnnotationIsTheLastEffect(t *testing.T) {
	f := newChanges(t, contract.Annotation)
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
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)})
	f.run()
	if f.annotation() == "" || slices.Contains(f.log, "annotate") || len(f.patches) != 1 {
		t.Errorf("annotation %q after %q", f.annotation(), f.log)
	}
}

func TestARunThatFailsLeavesTheAnnotationButForItsProgress(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.run()
	before, _ := handled.Parse(f.annotation(), "u1")
	f.edit(`{"spec":{"x":2}}`)
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`["a"]`))})
	f.run()
	after, valid := handled.Parse(f.annotation(), "u1")
	if !valid || !rawjson.Equal(after.Object, before.Object) || string(after.Progress) != `["a"]` {
		t.Errorf("%+v, %t", after, valid)
	}
	again := newChanges(t, contract.Annotation) // another host
	again.store = f.store
	if again.run(); string(again.change().Progress) != `["a"]` {
		t.Errorf("after a restart: %+v", again.change())
	}
	if s, _ := handled.Parse(f.annotation(), "u1"); s.Progress != nil {
		t.Errorf("a run that ended well leaves %+v", s)
	}
}

func TestAnAnnotationThatCannotBeWrittenFailsTheRun(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.fail["annotate"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbPatch, Class: abi.ClassRetry, Message: "no"}}
	f.run()
	if f.ended.Failure.Class == abi.ClassNone {
		t.Errorf("the run ended well: %+v", f.ended)
	}
	f.run()
	f.expectChange(contract.Created, "")
}

func TestAnEditedAnnotationIsToldAndReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		edit     string // of the annotation
		restart  bool
		changed  bool // the object, too
		want     contract.Type
		reported bool
	}{
		"edited":                      {`"{}"`, false, false, contract.Resynced, true},
		"edited, and the object":      {`"{}"`, false, true, contract.Updated, true},
		"edited before a restart":     {`"{}"`, true, false, contract.Resumed, true},
		"removed":                     {`null`, false, false, contract.Resynced, false},
		"removed, and the object too": {`null`, false, true, contract.Updated, false},
		"removed before a restart":    {`null`, true, false, contract.Created, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, contract.Annotation)
			f.put(aWidget)
			f.run()
			f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":` + c.edit + `}}}`)
			if c.changed {
				f.edit(`{"spec":{"x":2}}`)
			}
			if c.restart {
				again := newChanges(t, contract.Annotation)
				again.store, f = f.store, again
			}
			f.log = nil
			f.run()
			old := ""
			if c.want == contract.Resynced { // by the digest
				old = contentOfWidget
			}
			f.expectChange(c.want, old)
			if slices.Contains(f.log, "event Warning LastHandledInvalid") != c.reported {
				t.Errorf("what happened: %q", f.log)
			}
			if f.run(); f.change().Type != contract.Resynced || f.change().Old == nil {
				t.Errorf("then: %+v", f.change())
			}
		})
	}
}

func TestAContentThatTheAPIServerRefusesIsReplacedByItsDigest(t *testing.T) {
	f := newChanges(t, contract.Annotation)
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
	f.expectChange(contract.Resynced, contentOfWidget)
}

// What is remembered of the annotation counts, not what somebody has made of it.
func TestAnEditedAnnotationOfAnObjectThatWasNeverHandledIsNone(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`1`))})
	f.run()
	f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":"{}"}}}`)
	f.reconcile = succeed
	f.run()
	f.expectChange(contract.Created, "")
	f.run()
	f.expectChange(contract.Resynced, contentOfWidget)
}

func TestARemovedAnnotationIsKnownToANewRevision(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.run()
	f.edit(`{"metadata":{"annotations":null}}`)
	f.swap(func(r *dispatch.Revision) { r.Digest = "b" })
	f.run()
	f.expectChange(contract.Resumed, contentOfWidget)
}

// Such as of an object with the annotations of several controllers, which are too long together.
func TestAContentThatIsAlwaysRefusedIsSentOnceForEachChange(t *testing.T) {
	f := newChanges(t, contract.Annotation)
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
	if n := annotations(); n != 2 || f.change().Type != contract.Updated {
		t.Errorf("%d writes for a change, which is %s", n, f.change().Type)
	}
}

// An object whose annotations have no room for another one, or which its schema does not accept any
// more: the run has succeeded all the same.
func TestAnAnnotationThatIsRefusedFailsNoRun(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	full := true
	f.refuses = func(string) *effect.Failure {
		if !full {
			return nil
		}
		return &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Invalid", Message: "metadata.annotations: Too long"}}
	}
	expect := func(want contract.Type, old string) {
		t.Helper()
		f.log = nil
		f.run()
		f.expectChange(want, old)
		if f.annotation() != "" || !slices.Contains(f.log, "event Warning LastHandledNotKept") || slices.ContainsFunc(f.log, func(what string) bool { return strings.Contains(what, "Ready=False") }) {
			t.Errorf("what happened: %q, the annotation is %q", f.log, f.annotation())
		}
	}
	expect(contract.Created, "")
	expect(contract.Resynced, contentOfWidget)
	f.edit(`{"spec":{"x":2}}`)
	expect(contract.Updated, "")
	full = false
	f.run()
	if s, valid := handled.Parse(f.annotation(), "u1"); !valid || s.Object == nil {
		t.Errorf("with room: %+v, %t", s, valid)
	}
}

// The patch that the plugin asks for is not to fail because of the annotation.
func TestAPatchThatIsRefusedWithTheAnnotationIsSentWithoutIt(t *testing.T) {
	f := newChanges(t, contract.Annotation)
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
	if s, _ := handled.Parse(f.annotation(), "u1"); len(f.patches) != 1 || s.Digest == "" || f.ended.Failure.Class != abi.ClassNone {
		t.Errorf("%d patches, annotation %q, previous %+v", len(f.patches), f.annotation(), f.ended.Failure)
	}
}

// The informer is one that others of the plugin share, which follow all of each object.
func TestNothingButMetadataIsKeptOfAnObjectOfWhichThatIsFollowed(t *testing.T) {
	f := newChanges(t, contract.Memory)
	rev := f.c.Revision()
	rev.Controller.For.MetadataOnly = true
	whole := f.put(aWidget)
	f.store[testKey] = whole.Metadata()
	f.run()
	old := f.given()
	next := patched(t, whole, `{"metadata":{"resourceVersion":"9","labels":{"a":"b"}},"spec":{"x":2}}`)
	f.store[testKey] = next.Metadata()
	f.c.Observe(whole, next, false)
	f.run()
	f.expectChange(contract.Updated, old)
}

func TestWhatWasHandledIsNotKeptBesideTheAnnotation(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.put(aWidget)
	f.run()
	f.swap(func(r *dispatch.Revision) { r.Controller.Sections = sections(contract.Annotation) })
	f.run()
	if kept := f.state().kept; kept != nil {
		t.Errorf("kept: %+v", kept)
	}
}

func TestAfterAnEventThatNeverCameNoRunWaitsForItAgain(t *testing.T) {
	f := newChanges(t, contract.Memory)
	handled := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return handled, true }
	f.run()
	f.shown, f.reconcile = nil, panics
	f.state().behind = maxBehind
	f.run()
	f.request = nil
	if f.run(); f.request == nil {
		t.Error("the next run waits")
	}
}

// The informer shows its successor already.
func TestAnObjectIsNotKeptByItsDifferenceToAnother(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.put(aWidget)
	other, _ := object.Parse([]byte(strings.Replace(aWidget, "u1", "u2", 1)), abi.Kind{})
	f.shown = func(object.Key) (*object.Object, bool) { return other, true }
	f.run()
	if kept := f.state().kept; kept == nil || kept.base != "" {
		t.Errorf("kept: %+v", kept)
	}
}

func TestASuccessorThatAnotherReplicaMayHaveHandledIsResumed(t *testing.T) {
	f := newChanges(t, contract.Memory)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	f.put(aWidget)
	f.run()
	l.lose()
	f.put(strings.Replace(aWidget, "u1", "u2", 1))
	l.lead()
	f.run()
	f.expectChange(contract.Resumed, "")
}

func TestTheAnnotationIsNotPartOfAPatchThatMoreFollows(t *testing.T) {
	patch := abi.Result{Result: abi.OutcomeSuccess, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}
	deletes := patch
	deletes.Delete = []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "g"}}}
	for name, c := range map[string]struct {
		result abi.Result
		writes []abi.Kind
	}{"a delete": {deletes, nil}, "a release of fields": {patch, []abi.Kind{gadget}}} {
		t.Run(name, func(t *testing.T) {
			f := newChanges(t, contract.Annotation)
			f.c.Revision().Controller.Writes = c.writes
			f.put(aWidget)
			f.ends(0, c.result)
			if f.run(); !slices.Contains(f.log, "annotate") {
				t.Errorf("what happened: %q", f.log)
			}
		})
	}
}

func TestAnObjectAboutToDisappearGetsNoAnnotation(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.c.Revision().Controller.Finalizer = true
	f.put(aWidget)
	f.edit(`{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
	f.log = nil
	if f.run(); slices.Contains(f.log, "annotate") || !slices.Contains(f.log, "remove finalizer") {
		t.Errorf("what happened: %q", f.log)
	}
}

func TestARunThatFailsLeavesAnEditedAnnotation(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":"{}"}}}`)
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`1`))})
	if f.run(); f.annotation() != "{}" {
		t.Errorf("the annotation is %s", f.annotation())
	}
}

// One event may show both.
func TestAChangeByOthersBeforeTheAnnotationIsTheirs(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.c.Revision().Controller.For.MetadataOnly = true // no status is written
	before := f.put(aWidget)
	f.foreign = `{"metadata":{"generation":2},"spec":{"x":2}}`
	f.run()
	f.log = nil
	f.c.Observe(before, f.store[testKey], false)
	f.expect("add ns/w primary")
}

func TestAnEditedAnnotationOfAnObjectThatIsGoneIsNotTold(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.c.Revision().Controller.Gone = true
	f.put(aWidget)
	f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":"{}"}}}`)
	f.remove()
	f.log = nil
	if f.run(); !f.request.Gone || slices.ContainsFunc(f.log, func(what string) bool { return strings.HasPrefix(what, "event") || what == "annotate" }) {
		t.Errorf("what happened: %q", f.log)
	}
}

func TestAChangeOfTheAccountMakesNoObjectANewOne(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.c.Observe(nil, f.put(aWidget), false)
	f.run()
	f.expectChange(contract.Created, "")
	f.swap(func(r *dispatch.Revision) { r.Account = "b" })
	f.run()
	f.expectChange(contract.Resumed, "")
}

func TestAnObjectThatIsGoneIsDeletedFromWhatWasHandled(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.c.Revision().Controller.Gone = true
	f.put(aWidget)
	f.run()
	handled := f.given()
	f.edit(`{"spec":{"x":2}}`)
	f.remove()
	f.run()
	f.expectChange(contract.Deleted, handled)
}

// No event comes for it any more.
func TestARunForAnObjectThatIsGoneWaitsForNoEvent(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.c.Revision().Controller.Gone = true
	o := f.put(aWidget)
	f.run()
	delete(f.store, testKey)
	f.c.Observe(patched(t, o, `{"metadata":{"resourceVersion":"500"}}`), nil, false)
	f.request = nil
	f.run()
	f.expectChange(contract.Deleted, "")
}

func TestWaitsForEventsAreCountedAnewForEachRun(t *testing.T) {
	f := newChanges(t, contract.Memory)
	handled := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return handled, true }
	f.run()
	now := f.store[testKey]
	f.shown = nil
	f.run() // waits
	if f.state().behind != 1 {
		t.Fatalf("the run has waited %d times", f.state().behind)
	}
	f.c.Observe(handled, now, false)
	if f.run(); f.state().behind != 0 {
		t.Errorf("the next one waits less: %d", f.state().behind)
	}
}

// interrupted has the states of objects, which a run changes between two looks at one.
type interrupted struct {
	*world
	looks int
	run   func()
}

func (i *interrupted) ChangeState(o *object.Object, do func(any)) {
	if i.looks++; i.looks == 2 {
		i.run()
	}
	i.world.ChangeState(o, do)
}

func TestAnEventLeavesWhatARunKeepsMeanwhile(t *testing.T) {
	f := newChanges(t, contract.Memory)
	old := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return old, true }
	f.run()
	meanwhile := &kept{patch: []byte(`{"of":"a run"}`)}
	c := controller{"p", &interrupted{world: f, run: func() { f.state().kept = meanwhile }}}
	c.changed(f.c.Revision(), old, f.store[testKey])
	if f.state().kept != meanwhile {
		t.Errorf("kept is %+v", f.state().kept)
	}
}

func TestARunThatFailsDoesNotForgetWhatARemovedAnnotationHad(t *testing.T) {
	f := newChanges(t, contract.Annotation)
	f.put(aWidget)
	f.run()
	f.edit(`{"metadata":{"annotations":null}}`)
	f.ends(abi.CodeRetry, abi.Result{Sections: progress([]byte(`1`))})
	f.run()
	f.run()
	f.expectChange(contract.Resynced, contentOfWidget)
	if p := f.change().Progress; string(p) != "1" {
		t.Errorf("the progress is %s", p)
	}
}

// Many objects that are gone wait with their metadata alone.
func TestOldIsNotThatOfMetadataAlone(t *testing.T) {
	f := newChanges(t, contract.Memory)
	f.c.Revision().Controller.Gone = true
	o := f.put(aWidget)
	f.run()
	f.c.Observe(o, f.store[testKey], false)
	hooks := (&controller{"p", f}).hooks()
	for _, c := range []struct {
		gone *object.Object
		old  bool
	}{{f.store[testKey], true}, {f.store[testKey].Metadata(), false}} {
		kept := any(f.state())
		run := &dispatch.BeginningRun{Revision: f.c.Revision(), Object: c.gone, Gone: true, State: func(func(any)) {}}
		hooks.Begin(&kept, run)
		run.Prepare(run)
		change, err := contract.DecodeChange(run.Sections[0].Value)
		if err != nil || (change.Old != nil) != c.old {
			t.Errorf("old is %s, %v", change.Old, err)
		}
	}
}
