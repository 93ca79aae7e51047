package dispatch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome/handled"
	"github.com/thole-dev/thole/host/sandbox"
)

// Rules of changes.go, annotation.go and gone.go that no scenario of the other tests depends on.

// The informer is one that others of the plugin share, which follow all of each object.
func TestNothingButMetadataIsKeptOfAnObjectOfWhichThatIsFollowed(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	rev := f.c.revision.Load()
	rev.Controller.For.MetadataOnly = true
	f.follow()
	whole := f.put(aWidget)
	f.store[widget][testKey] = whole.Metadata()
	f.run()
	old := f.given()
	next := patched(t, whole, `{"metadata":{"resourceVersion":"9","labels":{"a":"b"}},"spec":{"x":2}}`)
	f.store[widget][testKey] = next.Metadata()
	f.c.Observe(whole, next, false)
	f.run()
	f.expectChange(abi.ChangeUpdated, old)
}

func TestWhatWasHandledIsNotKeptBesideTheAnnotation(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.put(aWidget)
	f.run()
	f.swap(func(r *Revision) { r.Controller.Changes = abi.ChangesAnnotation })
	f.run()
	if kept := f.c.keys[testKey].changes.kept; kept != nil {
		t.Errorf("kept: %+v", kept)
	}
}

func TestAfterAnEventThatNeverCameNoRunWaitsForItAgain(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	handled := f.put(aWidget)
	f.shown = func(object.Key) (*object.Object, bool) { return handled, true }
	f.run()
	f.shown, f.reconcile = nil, panics
	f.c.keys[testKey].changes.behind = maxBehind
	f.run()
	f.request = nil
	if f.run(); f.request == nil {
		t.Error("the next run waits")
	}
}

// The informer shows its successor already.
func TestAnObjectIsNotKeptByItsDifferenceToAnother(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	f.put(aWidget)
	other, _ := object.Parse([]byte(strings.Replace(aWidget, "u1", "u2", 1)), abi.Kind{})
	f.shown = func(object.Key) (*object.Object, bool) { return other, true }
	f.run()
	if kept := f.c.keys[testKey].changes.kept; kept == nil || kept.base != "" {
		t.Errorf("kept: %+v", kept)
	}
}

func TestASuccessorThatAnotherReplicaMayHaveHandledIsResumed(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	f.put(aWidget)
	f.run()
	l.lose()
	f.put(strings.Replace(aWidget, "u1", "u2", 1))
	l.lead()
	f.run()
	f.expectChange(abi.ChangeResumed, "")
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
			f := newChanges(t, abi.ChangesAnnotation)
			f.c.revision.Load().Controller.Writes = c.writes
			f.put(aWidget)
			f.ends(0, c.result)
			if f.run(); !slices.Contains(f.log, "annotate") {
				t.Errorf("what happened: %q", f.log)
			}
		})
	}
}

func TestAnObjectAboutToDisappearGetsNoAnnotation(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.c.revision.Load().Controller.Finalizer = true
	f.put(aWidget)
	f.edit(`{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
	f.log = nil
	if f.run(); slices.Contains(f.log, "annotate") || !slices.Contains(f.log, "remove finalizer") {
		t.Errorf("what happened: %q", f.log)
	}
}

func TestARunThatFailsLeavesAnEditedAnnotation(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.put(aWidget)
	f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":"{}"}}}`)
	f.ends(abi.CodeRetry, abi.Result{Progress: []byte(`1`)})
	if f.run(); f.annotation() != "{}" {
		t.Errorf("the annotation is %s", f.annotation())
	}
}

// One event may show both.
func TestAChangeByOthersBeforeTheAnnotationIsTheirs(t *testing.T) {
	f := newChanges(t, abi.ChangesAnnotation)
	f.c.revision.Load().Controller.For.MetadataOnly = true // no status is written
	before := f.put(aWidget)
	f.foreign = `{"metadata":{"generation":2},"spec":{"x":2}}`
	f.run()
	f.log = nil
	f.c.Observe(before, f.store[widget][testKey], false)
	f.expect("add ns/w primary")
}

func TestAHandledStateBesideAStatusDoesNotEndABackoff(t *testing.T) {
	f := newChanges(t, abi.ChangesMemory)
	before := f.put(aWidget)
	f.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"9","annotations":{"handled.other.thole.dev/x":"1"}},"status":{"a":1}}`), false)
	f.expect("add ns/w status")
}

func TestAnEditedAnnotationOfAnObjectThatIsGoneIsNotTold(t *testing.T) {
	f := newGone(t, false)
	f.c.revision.Load().Controller.Changes = abi.ChangesAnnotation
	f.put(aWidget)
	f.edit(`{"metadata":{"annotations":{"` + handled.Annotation("p", "c") + `":"{}"}}}`)
	f.remove()
	f.log = nil
	if f.run(); !f.isGone() || slices.ContainsFunc(f.log, func(what string) bool { return strings.HasPrefix(what, "event") || what == "annotate" }) {
		t.Errorf("what happened: %q", f.log)
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
