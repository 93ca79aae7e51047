package dispatch

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestARunPerformsItsEffectsInOrder(t *testing.T) {
	f := newFixture(t)
	f.put(strings.Replace(aWidget, `"f"`, "", 1))
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return returns(&abi.Result{
			RequeueAfter: 60_000,
			Status:       []byte(`{"n":1}`),
			Apply:        []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}},
		})
	}
	f.run(abi.ReasonPrimary)
	f.expect("finalizer", "apply", `status Ready=True/Succeeded patch={"n":1}`, "commit reads", "metric requeue_after ")
	if next := f.done[0]; next.Kind != outcome.After || next.After != time.Minute {
		t.Errorf("done with %+v", next)
	}
	if string(f.request.Object) == "" || f.request.Reasons[0] != abi.ReasonPrimary {
		t.Errorf("request %+v", f.request)
	}
	f.run(abi.ReasonOwned)
	f.expect("apply", `status Ready=True/Succeeded patch={"n":1}`, "commit reads", "metric requeue_after ")
}

// The guest may hand its result over while it still holds its slot, or only return it.
func TestAResultIsDecodedOnce(t *testing.T) {
	for _, handsOver := range []bool{true, false} {
		for output, want := range map[string]string{`{"status":{"x":1}}`: "", `{"x":1}`: "InvalidResult"} {
			f := newFixture(t)
			r := &run{guestCall: guestCall{c: f.c, revision: f.c.Revision(), given: f.put(aWidget)}, origin: origin{state: &keyState{carried: &carried{}}}}
			f.reconcile = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
				ret := sandbox.Return{Code: abi.CodeOK, Output: []byte(output)}
				if handsOver {
					call.BeforeRelease(ret)
					ret.Output = nil // is not looked at again
				}
				return ret, nil
			}
			r.call(t.Context())
			if fault := r.fault; (fault == nil) != (want == "") || fault != nil && fault.Reason != want {
				t.Errorf("handed over: %t, %s: fault %+v, want %q", handsOver, output, fault, want)
			}
		}
	}
}

func TestARunHasTheTimeoutOfItsController(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.c.Revision().Controller.Timeout = 5000
	f.reconcile = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		if call.Deadline != 5*time.Second {
			t.Errorf("the deadline of the call is %s, want 5s", call.Deadline)
		}
		return succeed(t.Context(), call)
	}
	f.run()
	if f.request == nil {
		t.Error("the guest was not called")
	}
}

func TestATrapWritesNothingButConditions(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic}
	}
	f.run()
	if !strings.HasPrefix(f.log[0], "status ") || f.log[1] != "abandon reads" {
		t.Errorf("what happened: %q", f.log)
	}
	if last := f.log[len(f.log)-1]; last != "metric error panic" {
		t.Error(last)
	}
}

func TestAResultThatCannotBeDecodedIsClassABI(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: []byte(`{"aply":[]}`)}, nil
	}
	f.run()
	if last := f.log[len(f.log)-1]; last != "metric error abi" {
		t.Error(last)
	}
}

func TestAFailureNeedsNoOutput(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Code: abi.CodeStalled}, nil
	}
	f.run()
	if last := f.log[len(f.log)-1]; last != "metric error stalled" {
		t.Error(last)
	}
}

// returnsIntents is a reconcile whose result has n intents.
func returnsIntents(n int) func(context.Context, sandbox.Call) (sandbox.Return, error) {
	result := &abi.Result{}
	for range n {
		result.Events = append(result.Events, abi.Event{Type: abi.EventNormal, Reason: "Any", Message: "any"})
	}
	return func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(result) }
}

func TestIntentsOfOneResultAreBounded(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit, n int
		ready    string
	}{
		{"as many as the policy allows", 2, 2, "Ready=True/Succeeded"},
		{"more than the policy allows", 2, 3, "Ready=False/TooManyIntents"},
		{"as many as the default", 0, abi.MaxIntents, "Ready=True/Succeeded"},
		{"more than the default", 0, abi.MaxIntents + 1, "Ready=False/TooManyIntents"},
		{"more than policy and default allow", 2, abi.MaxIntents + 1, "Ready=False/TooManyIntents"},
		{"as many as a policy allows that allows many", 1000, 1000, "Ready=True/Succeeded"},
		{"more than that", 1000, 1001, "Ready=False/TooManyIntents"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.c.revision.Load().MaxIntents = c.limit
			f.put(aWidget)
			f.reconcile = returnsIntents(c.n)
			f.run()
			log := strings.Join(f.log, "\n")
			if !strings.Contains(log, c.ready) {
				t.Errorf("what happened:\n%s\nwant %s", log, c.ready)
			}
			refused := !strings.Contains(c.ready, "True")
			if got := strings.Contains(log, "limited by intents"); got != refused {
				t.Errorf("counted: %v, want %v", got, refused)
			}
		})
	}
}

func TestAGuestThatWasReplacedCostsNoAttempt(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, sandbox.ErrClosed
	}
	f.run()
	if next := f.done[0]; next.Kind == outcome.AwaitChange {
		t.Errorf("the key is lost: %+v", next)
	}
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(&abi.Result{}) }
	f.run()
	if f.request.Attempt != 0 || f.request.Previous != nil && f.request.Previous.Class == abi.ClassPanic {
		t.Errorf("attempt %d, previous %+v", f.request.Attempt, f.request.Previous)
	}
}

func TestASuspendedObjectIsReconciledOnlyToCleanUp(t *testing.T) {
	f := newFixture(t)
	o := f.put(strings.Replace(aWidget, `"uid"`, `"annotations":{"reconcile.thole.dev/suspend":"true"},"uid"`, 1))
	f.run()
	f.expect()
	if len(f.done) != 1 || f.done[0].Kind != outcome.AwaitChange {
		t.Errorf("done with %+v", f.done)
	}
	f.put(string(mergePatch(t, o.Raw, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	f.run()
	f.expect("remove finalizer", "commit reads", "metric success ")
}

func TestADeletingObjectWithoutOurFinalizerIsNotReconciled(t *testing.T) {
	f := newFixture(t)
	f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	f.run()
	f.expect()
	if len(f.done) != 1 {
		t.Error("the key was not done")
	}
}

// Retry of the manifest decides when a failed run is repeated; the codec, the decision and the queue must agree.
func TestTheControllersRetryDecidesTheNextRun(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.swap(func(r *Revision) {
		r.Controller.Retry = abi.Retry{Initial: 3_600_000, Attempts: 3}
	})
	fails := func(failure abi.Failure) {
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{Code: abi.CodeRetry, Output: abi.EncodeResult(&abi.Result{Error: &failure})}, nil
		}
		f.run()
	}
	fails(abi.Failure{})
	fails(abi.Failure{After: 7000})
	fails(abi.Failure{After: 7000})
	fails(abi.Failure{Terminal: true})
	if d := f.done[0].After; d < 48*time.Minute || d > time.Hour {
		t.Errorf("the first delay is %v", d)
	}
	if d := f.done[1].After; d != 7*time.Second {
		t.Errorf("after the error's time: %v", d)
	}
	for i, what := range map[int]string{2: "the last attempt", 3: "a terminal error"} {
		if next := f.done[i]; next != (outcome.Next{}) {
			t.Errorf("%s is repeated: %+v", what, next)
		}
	}
}
