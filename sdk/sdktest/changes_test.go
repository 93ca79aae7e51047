package sdktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome/handled"
	"github.com/thole-dev/thole/sdk"
)

// changing returns a world with one object, for a controller that has changes and no
// finalizer.
func changing(tb testing.TB, kept abi.Changes) (*World, *script) {
	tb.Helper()
	s := newScript()
	s.controller.Changes, s.controller.Gone, s.controller.Finalizer = kept, true, false
	w := NewWith(tb, s)
	w.createOne()
	return w, s
}

func (w *World) createOne() {
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"},"spec":{"a":1}}`)
}

// both runs a test for each place where the handled state can be kept.
func both(t *testing.T, test func(t *testing.T, w *World, s *script)) {
	t.Helper()
	for _, kept := range []abi.Changes{abi.ChangesMemory, abi.ChangesAnnotation} {
		t.Run(string(kept), func(t *testing.T) {
			w, s := changing(t, kept)
			test(t, w, s)
		})
	}
}

// expectChange runs the object and expects the change of the request.
func (s *script) expectChange(w *World, want abi.ChangeType) *abi.Change {
	w.tb.Helper()
	w.Reconcile("ns/one")
	if got := s.request.Change; got.Type != want {
		w.tb.Errorf("the change is %+v, expected %s", got, want)
	}
	return s.request.Change
}

// expectRest runs the object until what the host has written to its status is handled too,
// and expects that it does not differ then.
func (s *script) expectRest(w *World) {
	w.tb.Helper()
	if w.controller.Changes == abi.ChangesMemory {
		s.expectChange(w, abi.ChangeStatusUpdated)
	}
	s.expectChange(w, abi.ChangeResynced)
}

const handledThing = "handled.plug.thole.dev/ctl"

func TestRequestHasTheChangeSinceTheLastRunThatEndedWell(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.code = abi.CodeRetry
		s.expectChange(w, abi.ChangeCreated)
		s.code = abi.CodeOK
		s.expectChange(w, abi.ChangeCreated)
		s.expectRest(w)
		w.Change(theOne, `{"spec":{"a":2}}`)
		s.result.Result = abi.OutcomeRequeue
		s.expectChange(w, abi.ChangeUpdated)
		s.result.Result = abi.OutcomeEmpty
		change := s.expectChange(w, abi.ChangeUpdated)
		if !strings.Contains(string(change.Old), `"spec":{"a":1}`) || !strings.Contains(string(change.Old), `"uid":"uid-1"`) {
			t.Errorf("old is %s", change.Old)
		}
		s.expectRest(w)
	})
}

func TestControllerWithoutChangesGetsNone(t *testing.T) {
	w, s := scripted(t)
	w.Reconcile("ns/one")
	if s.request.Change != nil {
		t.Errorf("the change is %+v", s.request.Change)
	}
}

func TestStatusIsPartOfOldInMemoryOnly(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.result.Status = []byte(`{"b":1}`)
		w.Settle("ns/one")
		w.Change(theOne, `{"status":{"b":2}}`)
		s.result.Status = nil
		w.Reconcile("ns/one")
		want, inOld := abi.ChangeStatusUpdated, true
		if w.controller.Changes == abi.ChangesAnnotation {
			want, inOld = abi.ChangeResynced, false
		}
		if c := s.request.Change; c.Type != want || strings.Contains(string(c.Old), `"b":1`) != inOld {
			t.Errorf("the change is %s, old is %s", c.Type, c.Old)
		}
	})
}

func TestFailedEffectIsNoGoodEnd(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)
		w.FailWrites(child, "Forbidden")
		s.expectChange(w, abi.ChangeCreated)
		w.FailWrites(child, "")
		s.expectChange(w, abi.ChangeCreated)
		s.expectRest(w)
	})
}

func TestProgressIsKeptUntilARunEndsWell(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		expect := func(want string) {
			t.Helper()
			w.Reconcile("ns/one")
			if got := string(s.request.Change.Progress); got != want {
				t.Errorf("the progress is %s, expected %s", got, want)
			}
		}
		s.code, s.result.Progress = abi.CodeRetry, []byte(`["a"]`)
		expect("")
		s.code, s.result.Progress = abi.CodeWaiting, []byte(`["a","b"]`)
		expect(`["a"]`)
		s.err = errors.New("trap")
		expect(`["a","b"]`)
		s.err = nil
		s.result.Apply = []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)}}
		s.result.Progress = []byte(`["c"]`)
		w.FailWrites(child, "Forbidden")
		expect(`["a","b"]`)
		w.FailWrites(child, "")
		s.code, s.result.Progress = abi.CodeStalled, nil
		expect(`["a","b"]`)
		s.code, s.result.Progress = abi.CodeRetry, []byte(`["d"]`)
		expect("")
		s.code, s.result.Progress = abi.CodeOK, []byte(`["e"]`)
		expect(`["d"]`)
		expect("")
	})
}

func TestAnnotationIsWrittenOnceForEachChange(t *testing.T) {
	w, s := changing(t, abi.ChangesAnnotation)
	s.code, s.result.Progress = abi.CodeRetry, []byte(`1`)
	w.Reconcile("ns/one").ExpectWrites("status", "handled")
	w.Reconcile("ns/one").ExpectNoWrites()
	s.result.Progress = []byte(`2`)
	w.Reconcile("ns/one").ExpectWrites("handled")
	s.code, s.result.Progress = abi.CodeOK, nil
	w.Reconcile("ns/one").ExpectWrites("status", "handled")
	w.Reconcile("ns/one").ExpectNoWrites()

	if state, valid := handled.Parse(get(t, w, theOne).Metadata.Annotations[handledThing], "uid-1"); !valid || !state.Known || state.Progress != nil {
		t.Errorf("the annotation has %+v, valid %t", state, valid)
	}
	if strings.Contains(string(s.request.Object), handledThing) {
		t.Errorf("the guest is given the annotation: %s", s.request.Object)
	}
	w.Change(theOne, `{"status":{"theirs":1}}`)
	w.Reconcile("ns/one").ExpectNoWrites()
}

func TestAnnotationIsPartOfAPatchThatIsAlone(t *testing.T) {
	w, s := changing(t, abi.ChangesAnnotation)
	w.controller.Writes = nil
	w.Settle("ns/one")
	s.result.Patch = []byte(`{"metadata":{"labels":{"x":"1"}}}`)
	w.Reconcile("ns/one").ExpectWrites("patch")
	s.expectChange(w, abi.ChangeUpdated) // the label
	s.expectChange(w, abi.ChangeResynced)

	expect := func(n string, writes ...string) {
		t.Helper()
		s.result.Patch = []byte(`{"metadata":{"labels":{"x":"` + n + `"}}}`)
		w.Change(theOne, `{"spec":{"a":`+n+`}}`)
		w.Reconcile("ns/one").ExpectWrites(writes...)
	}
	expect("2", "patch", "status") // with observedGeneration
	s.result.Status = []byte(`{"y":1}`)
	expect("3", "patch", "status", "handled")
	s.result.Status, s.code, s.result.Progress = nil, abi.CodeRetry, []byte(`1`)
	expect("4", "patch", "status", "handled")
}

func TestNoProgressIsWrittenWithAPatchThatFails(t *testing.T) {
	w, s := changing(t, abi.ChangesAnnotation)
	s.result.Patch, s.result.Progress, s.code = []byte(`{"metadata":{"labels":{"x":"1"}}}`), []byte(`1`), abi.CodeRetry
	w.FailWrites(thing, "Forbidden")
	w.Reconcile("ns/one").ExpectWrites("status")
	if s.expectChange(w, abi.ChangeCreated); s.request.Change.Progress != nil {
		t.Errorf("the progress is %s", s.request.Change.Progress)
	}
}

func TestAnEditedAnnotationLeavesOldOfAChangedObjectUnknown(t *testing.T) {
	for name, edited := range map[string]string{"edited": `"edited"`, "removed": `null`} {
		t.Run(name, func(t *testing.T) {
			w, s := changing(t, abi.ChangesAnnotation)
			edit := func() { w.Change(theOne, `{"metadata":{"annotations":{"`+handledThing+`":`+edited+`}}}`) }
			w.Settle("ns/one")
			edit()
			if c := s.expectChange(w, abi.ChangeResynced); c.Old == nil {
				t.Error("old is not told by its digest")
			}
			if get(t, w, theOne).Metadata.Annotations[handledThing] == strings.Trim(edited, `"`) {
				t.Error("the annotation was not written anew")
			}
			edit()
			w.Change(theOne, `{"spec":{"a":2}}`)
			if c := s.expectChange(w, abi.ChangeUpdated); c.Old != nil {
				t.Errorf("old is %s", c.Old)
			}
			edit()
			w.Restart()
			want := abi.ChangeResumed
			if name == "removed" {
				want = abi.ChangeCreated
			}
			s.expectChange(w, want)
		})
	}
}

func TestAnEditedAnnotationOfAnObjectThatWasNeverHandledIsNone(t *testing.T) {
	w, s := changing(t, abi.ChangesAnnotation)
	s.result.Progress, s.code = []byte(`1`), abi.CodeRetry
	s.expectChange(w, abi.ChangeCreated)
	w.Change(theOne, `{"metadata":{"annotations":{"`+handledThing+`":"edited"}}}`)
	if c := s.expectChange(w, abi.ChangeCreated); string(c.Progress) != `1` {
		t.Errorf("the progress is %s", c.Progress)
	}
}

func TestAnnotationOfAnotherObjectIsNone(t *testing.T) {
	w, s := changing(t, abi.ChangesAnnotation)
	w.Settle("ns/one")
	copied := get(t, w, theOne).Metadata.Annotations[handledThing]
	w.Delete(theOne)
	w.createOne()
	w.Change(theOne, map[string]any{"metadata": map[string]any{"annotations": map[string]string{handledThing: copied}}})
	s.expectChange(w, abi.ChangeCreated)
}

func TestFirstRunAfterARestartIsResumed(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.result.Memo = []byte(`"m"`)
		w.Reconcile("ns/one")
		w.Change(theOne, `{"spec":{"a":2}}`)
		w.Restart()
		s.code = abi.CodeRetry
		s.expectChange(w, abi.ChangeResumed)
		s.code = abi.CodeOK
		change := s.expectChange(w, abi.ChangeResumed)
		if inOld := strings.Contains(string(change.Old), `"spec":{"a":1}`); inOld != (w.controller.Changes == abi.ChangesAnnotation) {
			t.Errorf("old is %s", change.Old)
		}
		s.expectRest(w)
	})
}

func TestRestartDropsWhatAHostHasInMemory(t *testing.T) {
	w, s := scripted(t)
	s.code, s.result.Memo = abi.CodeRetry, []byte(`"m"`)
	w.Reconcile("ns/one")
	w.Restart()
	w.Reconcile("ns/one")
	if s.request.Attempt != 0 || s.request.Previous != nil || s.request.Memo != nil {
		t.Errorf("the request has %+v", s.request)
	}
}

func TestProgressInTheAnnotationSurvivesARestart(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.code, s.result.Progress = abi.CodeRetry, []byte(`1`)
		w.Reconcile("ns/one")
		w.Restart()
		w.Reconcile("ns/one")
		if kept := s.request.Change.Progress != nil; kept != (w.controller.Changes == abi.ChangesAnnotation) {
			t.Errorf("the progress is %s", s.request.Change.Progress)
		}
	})
}

func TestObjectWithoutACleanupHasAGoneRun(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		w.Settle("ns/one")
		w.Delete(theOne)
		w.createOne()
		s.code, s.result.Progress = abi.CodeRetry, []byte(`1`)
		w.ReconcileGone("ns/one").ExpectRetry("").ExpectNoWrites()
		q := s.request
		if !q.Gone || q.Deleting || q.Change.Type != abi.ChangeDeleted || !strings.Contains(string(q.Object), `"uid":"uid-1"`) ||
			!strings.Contains(string(q.Change.Old), `"a":1`) {
			t.Errorf("the request is %+v, change %+v, object %s", q, q.Change, q.Object)
		}
		s.code = abi.CodeOK
		w.ReconcileGone("ns/one").ExpectSuccess().ExpectNoWrites()
		if string(s.request.Change.Progress) != "1" || s.request.Attempt != 1 {
			t.Errorf("the request is %+v, change %+v", s.request, s.request.Change)
		}
		if len(w.gone) != 0 {
			t.Error("a gone run that ended well is repeated")
		}
		s.expectChange(w, abi.ChangeCreated)
	})
}

func TestGoneRunCannotWriteTheObject(t *testing.T) {
	w, s := changing(t, abi.ChangesMemory)
	w.Delete(theOne)
	for name, c := range map[string]struct {
		result abi.Result
		class  abi.Class
	}{
		"status":     {abi.Result{Status: []byte(`{"a":1}`)}, abi.ClassABI},
		"conditions": {abi.Result{Conditions: []abi.Condition{{Type: "Ready", Status: sdk.True, Reason: "Done"}}}, abi.ClassABI},
		"patch":      {abi.Result{Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}, abi.ClassABI},
		"apply":      {abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)}}}, abi.ClassDenied},
	} {
		s.result = c.result
		s.result.Result = abi.OutcomeSuccess
		if run := w.ReconcileGone("ns/one").ExpectNoWrites(); run.Class != c.class {
			t.Errorf("%s: class %s (%s)", name, run.Class, run.Message)
		}
	}
	s.wants(`{"apiVersion":"v1","kind":"Other","metadata":{"name":"o"}}`)
	w.ReconcileGone("ns/one").ExpectSuccess().ExpectWrites("apply v1 Other ns/o")
}

func TestNoGoneRunAfterACleanupOrARestart(t *testing.T) {
	s := newScript()
	s.controller.Gone = true
	s.result.Patch = []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	w := NewWith(t, s)
	w.createOne()
	w.Reconcile("ns/one").ExpectWrites("finalizer", "patch", "status")
	w.Delete(theOne)
	w.Reconcile("ns/one").ExpectSuccess().ExpectWrites("release")
	w.ExpectGone(theOne)
	if len(w.gone) != 0 {
		t.Error("an object that was cleaned up has a gone run")
	}

	w.createOne()
	w.Reconcile("ns/one")
	w.Change(theOne, `{"metadata":{"finalizers":null}}`)
	w.Delete(theOne)
	if len(w.gone) != 1 {
		t.Error("an object that lost its finalizer has no gone run")
	}
	w.Restart()
	if len(w.gone) != 0 {
		t.Error("a gone run survived a restart")
	}
}

func TestCleanupOfAnObjectThatHasVanished(t *testing.T) {
	s := newScript()
	s.result.Patch = []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	w := NewWith(t, s)
	w.createOne()
	w.Reconcile("ns/one").ExpectWrites("finalizer", "patch", "status")
	w.Vanish(theOne)
	w.ExpectGone(theOne)
	s.code, s.result.Status = abi.CodeRetry, []byte(`{"a":1}`)
	w.ReconcileGone("ns/one").ExpectRetry("").ExpectNoWrites()
	if q := s.request; !q.Gone || !q.Deleting || q.Change != nil || !strings.Contains(string(q.Object), `"uid":"uid-1"`) {
		t.Errorf("the request is %+v", q)
	}
	s.code = abi.CodeOK
	w.ReconcileGone("ns/one").ExpectSuccess().ExpectNoWrites()
	if len(w.gone) != 0 {
		t.Error("another cleanup runs after it has succeeded")
	}
}

func TestCleanupOfAnObjectThatHasVanishedStallsIfItIsToOwnSomething(t *testing.T) {
	s := newScript()
	s.result.Patch = []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	w := NewWith(t, s)
	w.createOne()
	w.Reconcile("ns/one")
	w.Vanish(theOne)
	s.result.Apply = []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)}}
	if run := w.ReconcileGone("ns/one"); run.Class != abi.ClassStalled || len(w.gone) != 0 {
		t.Errorf("class %q, %d objects are left", run.Class, len(w.gone))
	}
}

func TestObjectVanishesWithoutACleanupIfItWasNotHeld(t *testing.T) {
	s := newScript()
	w := NewWith(t, s)
	w.createOne()
	w.Reconcile("ns/one")
	if w.Vanish(theOne); len(w.gone) != 0 {
		t.Error("a cleanup runs for an object without the finalizer")
	}
}

func TestObjectThatIsNoLongerFollowedIsGone(t *testing.T) {
	s := newScript()
	s.controller.Gone, s.controller.Finalizer = true, false
	s.controller.For.LabelSelector = "shard=a"
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one","labels":{"shard":"a"}}}`)
	w.Change(theOne, `{"metadata":{"labels":{"shard":"b"}}}`)
	w.ReconcileGone("ns/one").ExpectSuccess()
	if !s.request.Gone || !strings.Contains(string(s.request.Object), `"shard":"a"`) {
		t.Errorf("the request is %+v, object %s", s.request, s.request.Object)
	}
	w.Change(theOne, `{"metadata":{"labels":{"shard":"a"}}}`)
	if w.Reconcile("ns/one").ExpectReady(); s.request.Gone {
		t.Error("an object that is followed again is gone")
	}
}
