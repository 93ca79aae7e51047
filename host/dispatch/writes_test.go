package dispatch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestAResultWithoutIntentsAddsNoFinalizer(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"f"`, "", 1))
	f.run(abi.ReasonPrimary)
	f.expect("status Ready=True/Succeeded patch=", "commit reads", "metric success ")
}

func TestAFailedEffectIsDecidedAgain(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`), Memo: []byte(`1`), Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
	}
	f.fail["apply"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassDenied, Reason: "Forbidden", Message: "no"}}
	f.run()
	if got := f.log[1]; !strings.HasPrefix(got, "status ") || !strings.Contains(got, "Ready=False/Forbidden") || !strings.HasSuffix(got, "patch=") {
		t.Errorf("after a failed effect: %s", got)
	}
	if next := f.done[0]; next.Kind != outcome.Backoff {
		t.Errorf("done with %+v", next)
	}
	delete(f.fail, "apply")
	f.run()
	if p := f.request.Previous; p == nil || p.Class != abi.ClassDenied || len(p.Failures) != 1 || p.Failures[0].Verb != "apply" {
		t.Errorf("previous is %+v", p)
	}
	if f.request.Attempt != 1 {
		t.Errorf("attempt %d", f.request.Attempt)
	}
	f.run()
	if f.request.Previous != nil || f.request.Attempt != 0 || string(f.request.Memo) != "1" {
		t.Errorf("after success: %+v", f.request)
	}
}

// The API server refuses the status that the guest wants: the object must show that.
func TestTheHostsPartOfARefusedStatusIsWritten(t *testing.T) {
	refused := func(reason string) *effect.Failure {
		return &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: reason, Message: "status.n: must be a string"}}
	}
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`)})
	}
	f.fail["status"] = refused("Invalid")
	f.run()
	f.expect(`status Ready=True/Succeeded patch={"n":1}`,
		"status Reconciling=True/ProgressingWithRetry Ready=False/Invalid patch=",
		"commit reads", "event Warning Invalid", "metric error retry")
	f.fail["status"] = refused("Unavailable")
	f.run()
	f.expect(`status Ready=True/Succeeded patch={"n":1}`, "commit reads", "event Warning Unavailable", "metric error retry")
}

// A plugin at a limit of bytes could write status without end.
func TestARunThatHitsALimitOfBytesIsTold(t *testing.T) {
	full := func(verb string) *effect.Failure {
		return &effect.Failure{EffectFailure: abi.EffectFailure{Verb: verb, Class: abi.ClassDenied, Reason: "StoredLimit", Message: "limits.storedMiB"}, Full: true}
	}
	for verb, want := range map[string][]string{
		"apply": {"apply", "status Reconciling=True/ProgressingWithRetry Ready=False/StoredLimit patch= full"},
		"status": {
			"apply", `status Ready=True/Succeeded patch={"n":1}`,
			"status Reconciling=True/ProgressingWithRetry Ready=False/StoredLimit patch= full",
		},
	} {
		t.Run(verb, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.c.revision.Load().Controller.Retry = abi.Retry{Attempts: 2, Then: abi.ThenStalled}
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
				return returns(&abi.Result{Status: []byte(`{"n":1}`), Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
			}
			f.fail[verb] = full(verb)
			for range 3 { // it uses up none of the attempts
				f.run()
				f.expect(append(slices.Clone(want), "commit reads", "event Warning StoredLimit", "metric error denied")...)
				if next := f.done[len(f.done)-1]; next.Kind != outcome.Backoff {
					t.Fatalf("done with %+v", next)
				}
			}
			delete(f.fail, verb)
			f.run()
			f.expect("apply", `status Ready=True/Succeeded patch={"n":1}`, "commit reads", "metric success ")
		})
	}
}

// Each conflict used to be repeated for ever, with a line in the log only.
func TestAConflictThatPersistsIsTold(t *testing.T) {
	for verb, result := range map[string]*abi.Result{
		"apply":  {Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}},
		"status": {Status: []byte(`{"n":1}`)},
	} {
		t.Run(verb, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(result) }
			f.fail[verb] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: verb, Class: abi.ClassRetry, Reason: "Conflict", Message: "modified"}, Conflict: true}
			for range 4 {
				// Somebody changes the object, and the run meets the next change.
				f.due = append(f.due, queue.Item{Key: testKey, Reasons: []abi.Reason{abi.ReasonPrimary}, ResetTries: true})
				f.c.work(t.Context(), t.Context())
				if got := strings.Join(f.log, " "); strings.Contains(got, "Reconciling") || strings.Contains(got, "event") {
					t.Errorf("a single conflict is told: %s", got)
				}
				f.log = nil
			}
			f.run()
			got := strings.Join(f.log, "\n")
			if !strings.Contains(got, "status Reconciling=True/ProgressingWithRetry Ready=False/Conflict patch=\n") || !strings.Contains(got, "event Warning Conflict") {
				t.Errorf("the fifth conflict in a row:\n%s", got)
			}
			f.run()
			if f.request.Attempt != 1 || f.done[5].After < 700*time.Millisecond {
				t.Errorf("then attempt %d, and the backoff is %+v", f.request.Attempt, f.done[5])
			}
		})
	}
}

func TestAFinalizerThatCannotBeRemovedShowsInTheStatus(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	f.fail["remove"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "finalizer", Class: abi.ClassDenied, Reason: "Forbidden", Message: "no"}}
	f.run()
	f.expect("remove finalizer", "status Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch=",
		"commit reads", "event Warning Forbidden", "metric error denied")
}

func TestTheFinalizerIsRemovedLast(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"generation":1`, `"generation":1,"deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))
	f.run()
	f.expect("remove finalizer", "commit reads", "metric success ")
	if !f.request.Deleting {
		t.Error("the guest does not know of it")
	}
	f.run()
	f.expect("cache forgets ns/w", "queue forgets ns/w", "effects forget u1")
}

func TestTheStatusOfACleanupIsWrittenBeforeTheFinalizerIsRemoved(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{Status: []byte(`{"n":1}`)})
	}
	f.fail["status"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "Unavailable"}}
	f.run()
	f.expect(`status  patch={"n":1}`, "commit reads", "event Warning Unavailable", "metric error retry")
	delete(f.fail, "status")
	f.run()
	f.expect(`status  patch={"n":1}`, "remove finalizer", "commit reads", "metric success ")
}

func TestARunCopiesRequestedAtToTheStatus(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"uid"`, `"annotations":{"`+RequestedAt+`":"now"},"uid"`, 1))
	f.run()
	if !slices.ContainsFunc(f.log, func(l string) bool { return strings.HasPrefix(l, "status ") && strings.Contains(l, " handled=now ") }) {
		t.Errorf("what happened: %q", f.log)
	}
}

// The object is about to disappear: one write less.
func TestACleanupDoesNotCopyRequestedAt(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"uid"`, `"annotations":{"`+RequestedAt+`":"now"},"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	f.run()
	f.expect("remove finalizer", "commit reads", "metric success ")
}

func TestFieldsOfSharedObjectsAreReleasedOnlyAfterSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		reconcile reconcileFunc
		fail      string
		released  bool
	}{
		"success": {reconcile: succeed, released: true},
		"requeue": {reconcile: resultOf(abi.OutcomeRequeue)},
		"empty":   {reconcile: resultOf(abi.OutcomeEmpty)},
		"retry":   {reconcile: returnsCode(abi.CodeRetry)},
		"waiting": {reconcile: returnsCode(abi.CodeWaiting)},
		"stalled": {reconcile: returnsCode(abi.CodeStalled)},
		"panic":   {reconcile: panics},
		"retry with success": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			returned, err := returns(&abi.Result{})
			returned.Code = abi.CodeRetry
			return returned, err
		}},
		"a failed apply": {reconcile: applies, fail: "apply"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.shares, f.reconcile = true, c.reconcile
			if c.fail != "" {
				f.fail[c.fail] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "X"}}
			}
			f.run()
			if got := slices.Contains(f.log, "release all=false"); got != c.released {
				t.Errorf("released is %v: %q", got, f.log)
			}
		})
	}
}

func applies(context.Context, sandbox.Call) (sandbox.Return, error) {
	return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
}

func resultOf(outcome abi.Outcome) reconcileFunc {
	return func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: abi.EncodeResult(&abi.Result{Result: outcome})}, nil
	}
}

func TestARefusedReleaseIsAFailureOfTheRun(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.shares = true
	f.fail["release all=false"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassDenied, Reason: "Forbidden", Verb: abi.VerbApply}}
	f.run()
	f.expect("release all=false", "status Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch=",
		"commit reads", "event Warning Forbidden", "metric error denied")
}

func TestFieldsOfSharedObjectsAreReleasedBeforeTheFinalizer(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"generation":1`, `"generation":1,"deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))
	f.shares = true
	f.fail["release all=true"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "X"}}
	f.run()
	f.expect("release all=false", "release all=true", "status Reconciling=True/ProgressingWithRetry Ready=False/X patch=",
		"commit reads", "event Warning X", "metric error retry")
	f.fail = map[string]*effect.Failure{}
	f.run()
	f.expect("release all=false", "release all=true", "remove finalizer", "commit reads", "metric success ")
}

func TestFieldsOfAPrimaryThatIsGoneAreReleasedUntilThatSucceeds(t *testing.T) {
	f := newFixture(t)
	f.shares = true
	f.fail["release gone ns/w"] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "X"}}
	f.run()
	f.expect("release gone ns/w")
	if next := f.done[len(f.done)-1]; next.Kind != outcome.Backoff || next.After != releaseRetry {
		t.Errorf("next is %+v", next)
	}
	f.fail = map[string]*effect.Failure{}
	f.run()
	f.expect("release gone ns/w", "cache forgets ns/w", "queue forgets ns/w")
	if len(f.wrote) != 1 || f.wrote[0].Kind != gadget {
		t.Errorf("made visible: %+v", f.wrote)
	}
	if next := f.done[len(f.done)-1]; next != (outcome.Next{}) {
		t.Errorf("next is %+v", next)
	}
}
