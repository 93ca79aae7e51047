package sdktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/host/with/changes/handled"
	"github.com/thole-dev/thole/sdk"
)

// changing returns a world with one object, for a controller that has changes and no
// finalizer.
func changing(tb testing.TB, kept contract.Mode) (*World, *script) {
	tb.Helper()
	s := newScript()
	s.controller.Gone, s.controller.Finalizer = true, false
	s.controller.Sections = []abi.Section{{Name: contract.Name, Value: kept.Encode()}}
	w := NewWith(tb, s)
	w.createOne()
	return w, s
}

// change returns the change of the last request, nil if there was none.
func (s *script) change() *contract.Change {
	c, _ := contract.DecodeChange(s.request.Section(contract.Name))
	return c
}

// progress returns the sections of a result with that progress.
func progress(text string) []abi.Section {
	return []abi.Section{{Name: contract.Name, Value: (&contract.Result{Progress: []byte(text)}).Encode()}}
}

func (w *World) createOne() {
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"},"spec":{"a":1}}`)
}

// both runs a test for each place where the handled state can be kept.
func both(t *testing.T, test func(t *testing.T, w *World, s *script)) {
	t.Helper()
	for _, kept := range []contract.Mode{contract.Memory, contract.Annotation} {
		t.Run(string(kept), func(t *testing.T) {
			w, s := changing(t, kept)
			test(t, w, s)
		})
	}
}

// expectChange runs the object and expects the change of the request.
func (s *script) expectChange(w *World, want contract.Type) *contract.Change {
	w.tb.Helper()
	w.Reconcile("ns/one")
	if got := s.change(); got.Type != want {
		w.tb.Errorf("the change is %+v, expected %s", got, want)
	}
	return s.change()
}

// expectRest runs the object until what the host has written to its status is handled too,
// and expects that it does not differ then.
func (s *script) expectRest(w *World) {
	w.tb.Helper()
	if w.changes() == contract.Memory {
		s.expectChange(w, contract.StatusUpdated)
	}
	s.expectChange(w, contract.Resynced)
}

const handledThing = "ctl.plug.thole.dev/handled"

func TestRequestHasTheChangeSinceTheLastRunThatEndedWell(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.code = abi.CodeRetry
		s.expectChange(w, contract.Created)
		s.code = abi.CodeOK
		s.expectChange(w, contract.Created)
		s.expectRest(w)
		w.Change(theOne, `{"spec":{"a":2}}`)
		s.result.Result = abi.OutcomeRequeue
		s.expectChange(w, contract.Updated)
		s.result.Result = abi.OutcomeEmpty
		change := s.expectChange(w, contract.Updated)
		if !strings.Contains(string(change.Old), `"spec":{"a":1}`) || !strings.Contains(string(change.Old), `"uid":"uid-1"`) {
			t.Errorf("old is %s", change.Old)
		}
		s.expectRest(w)
	})
}

func TestControllerWithoutChangesGetsNone(t *testing.T) {
	w, s := scripted(t)
	w.Reconcile("ns/one")
	if s.change() != nil {
		t.Errorf("the change is %+v", s.change())
	}
}

func TestStatusIsPartOfOldInMemoryOnly(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.result.Status = []byte(`{"b":1}`)
		w.Settle("ns/one")
		w.Change(theOne, `{"status":{"b":2}}`)
		s.result.Status = nil
		w.Reconcile("ns/one")
		want, inOld := contract.StatusUpdated, true
		if w.changes() == contract.Annotation {
			want, inOld = contract.Resynced, false
		}
		if c := s.change(); c.Type != want || strings.Contains(string(c.Old), `"b":1`) != inOld {
			t.Errorf("the change is %s, old is %s", c.Type, c.Old)
		}
	})
}

func TestFailedEffectIsNoGoodEnd(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)
		w.FailWrites(child, "Forbidden")
		s.expectChange(w, contract.Created)
		w.FailWrites(child, "")
		s.expectChange(w, contract.Created)
		s.expectRest(w)
	})
}

func TestProgressIsKeptUntilARunEndsWell(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		expect := func(want string) {
			t.Helper()
			w.Reconcile("ns/one")
			if got := string(s.change().Progress); got != want {
				t.Errorf("the progress is %s, expected %s", got, want)
			}
		}
		s.code, s.result.Sections = abi.CodeRetry, progress(`["a"]`)
		expect("")
		s.code, s.result.Sections = abi.CodeWaiting, progress(`["a","b"]`)
		expect(`["a"]`)
		s.err = errors.New("trap")
		expect(`["a","b"]`)
		s.err = nil
		s.result.Apply = []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)}}
		s.result.Sections = progress(`["c"]`)
		w.FailWrites(child, "Forbidden")
		expect(`["a","b"]`)
		w.FailWrites(child, "")
		s.code, s.result.Sections = abi.CodeStalled, nil
		expect(`["a","b"]`)
		s.code, s.result.Sections = abi.CodeRetry, progress(`["d"]`)
		expect("")
		s.code, s.result.Sections = abi.CodeOK, progress(`["e"]`)
		expect(`["d"]`)
		expect("")
	})
}

func TestAnnotationIsWrittenOnceForEachChange(t *testing.T) {
	w, s := changing(t, contract.Annotation)
	s.code, s.result.Sections = abi.CodeRetry, progress(`1`)
	w.Reconcile("ns/one").ExpectWrites("status", "handled")
	w.Reconcile("ns/one").ExpectNoWrites()
	s.result.Sections = progress(`2`)
	w.Reconcile("ns/one").ExpectWrites("handled")
	s.code, s.result.Sections = abi.CodeOK, nil
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
	w, s := changing(t, contract.Annotation)
	w.controller.Writes = nil
	w.Settle("ns/one")
	s.result.Patch = []byte(`{"metadata":{"labels":{"x":"1"}}}`)
	w.Reconcile("ns/one").ExpectWrites("patch")
	s.expectChange(w, contract.Updated) // the label
	s.expectChange(w, contract.Resynced)

	expect := func(n string, writes ...string) {
		t.Helper()
		s.result.Patch = []byte(`{"metadata":{"labels":{"x":"` + n + `"}}}`)
		w.Change(theOne, `{"spec":{"a":`+n+`}}`)
		w.Reconcile("ns/one").ExpectWrites(writes...)
	}
	expect("2", "patch", "status") // with observedGeneration
	s.result.Status = []byte(`{"y":1}`)
	expect("3", "patch", "status", "handled")
	s.result.Status, s.code, s.result.Sections = nil, abi.CodeRetry, progress(`1`)
	expect("4", "patch", "status", "handled")
}

func TestNoProgressIsWrittenWithAPatchThatFails(t *testing.T) {
	w, s := changing(t, contract.Annotation)
	s.result.Patch, s.result.Sections, s.code = []byte(`{"metadata":{"labels":{"x":"1"}}}`), progress(`1`), abi.CodeRetry
	w.FailWrites(thing, "Forbidden")
	w.Reconcile("ns/one").ExpectWrites("status")
	if s.expectChange(w, contract.Created); s.change().Progress != nil {
		t.Errorf("the progress is %s", s.change().Progress)
	}
}

func TestAnEditedAnnotationLeavesOldOfAChangedObjectUnknown(t *testing.T) {
	for name, edited := range map[string]string{"edited": `"edited"`, "removed": `null`} {
		t.Run(name, func(t *testing.T) {
			w, s := changing(t, contract.Annotation)
			edit := func() { w.Change(theOne, `{"metadata":{"annotations":{"`+handledThing+`":`+edited+`}}}`) }
			w.Settle("ns/one")
			edit()
			if c := s.expectChange(w, contract.Resynced); c.Old == nil {
				t.Error("old is not told by its digest")
			}
			if get(t, w, theOne).Metadata.Annotations[handledThing] == strings.Trim(edited, `"`) {
				t.Error("the annotation was not written anew")
			}
			edit()
			w.Change(theOne, `{"spec":{"a":2}}`)
			if c := s.expectChange(w, contract.Updated); c.Old != nil {
				t.Errorf("old is %s", c.Old)
			}
			edit()
			w.Restart()
			want := contract.Resumed
			if name == "removed" {
				want = contract.Created
			}
			s.expectChange(w, want)
		})
	}
}

func TestAnEditedAnnotationOfAnObjectThatWasNeverHandledIsNone(t *testing.T) {
	w, s := changing(t, contract.Annotation)
	s.result.Sections, s.code = progress(`1`), abi.CodeRetry
	s.expectChange(w, contract.Created)
	w.Change(theOne, `{"metadata":{"annotations":{"`+handledThing+`":"edited"}}}`)
	if c := s.expectChange(w, contract.Created); string(c.Progress) != `1` {
		t.Errorf("the progress is %s", c.Progress)
	}
}

func TestAnnotationOfAnotherObjectIsNone(t *testing.T) {
	w, s := changing(t, contract.Annotation)
	w.Settle("ns/one")
	copied := get(t, w, theOne).Metadata.Annotations[handledThing]
	w.Delete(theOne)
	w.createOne()
	w.Change(theOne, map[string]any{"metadata": map[string]any{"annotations": map[string]string{handledThing: copied}}})
	s.expectChange(w, contract.Created)
}

func TestFirstRunAfterARestartIsResumed(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		s.result.Memo = []byte(`"m"`)
		w.Reconcile("ns/one")
		w.Change(theOne, `{"spec":{"a":2}}`)
		w.Restart()
		s.code = abi.CodeRetry
		s.expectChange(w, contract.Resumed)
		s.code = abi.CodeOK
		change := s.expectChange(w, contract.Resumed)
		if inOld := strings.Contains(string(change.Old), `"spec":{"a":1}`); inOld != (w.changes() == contract.Annotation) {
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
		s.code, s.result.Sections = abi.CodeRetry, progress(`1`)
		w.Reconcile("ns/one")
		w.Restart()
		w.Reconcile("ns/one")
		if kept := s.change().Progress != nil; kept != (w.changes() == contract.Annotation) {
			t.Errorf("the progress is %s", s.change().Progress)
		}
	})
}

func TestObjectWithoutACleanupHasAGoneRun(t *testing.T) {
	both(t, func(t *testing.T, w *World, s *script) {
		w.Settle("ns/one")
		w.Delete(theOne)
		w.createOne()
		s.code, s.result.Sections = abi.CodeRetry, progress(`1`)
		w.ReconcileGone("ns/one").ExpectRetry("").ExpectNoWrites()
		q := s.request
		if !q.Gone || q.Deleting || s.change().Type != contract.Deleted || !strings.Contains(string(q.Object), `"uid":"uid-1"`) ||
			!strings.Contains(string(s.change().Old), `"a":1`) {
			t.Errorf("the request is %+v, change %+v, object %s", q, s.change(), q.Object)
		}
		s.code = abi.CodeOK
		w.ReconcileGone("ns/one").ExpectSuccess().ExpectNoWrites()
		if string(s.change().Progress) != "1" || s.request.Attempt != 1 {
			t.Errorf("the request is %+v, change %+v", s.request, s.change())
		}
		if len(w.gone) != 0 {
			t.Error("a gone run that ended well is repeated")
		}
		s.expectChange(w, contract.Created)
	})
}

func TestGoneRunCannotWriteTheObject(t *testing.T) {
	w, s := changing(t, contract.Memory)
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
	if q := s.request; !q.Gone || !q.Deleting || s.change() != nil || !strings.Contains(string(q.Object), `"uid":"uid-1"`) {
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
