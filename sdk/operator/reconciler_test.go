package operator_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
)

func TestReconcilerIsCalledForEveryEvent(t *testing.T) {
	x := &test{t: t}
	x.begin(x.record())
	if r := x.run("created A").ExpectReady(); r.Result.Patch != nil {
		t.Errorf("patches the object: %s", r.Result.Patch)
	}
	x.title("B")
	x.run("updated B").ExpectReady()
	x.change(`{"metadata":{"labels":{"tier":"web"}}}`)
	x.run("updated B")
	x.change(`{"status":{"url":"http://b"}}`)
	x.run("updated B")
	x.run("resynced B").ExpectNoWrites()
	x.Delete(shop)
	x.runGone("deleted").ExpectSuccess()
}

func TestObjectThatIsThereAtTheStartIsCreated(t *testing.T) {
	x := &test{t: t}
	x.begin(x.record())
	x.run("created A")
	x.Restart()
	x.run("created A")
	x.run("resynced A")
}

// Its own update of the object is an event, which it must leave early itself.
func TestOwnUpdateIsAnEvent(t *testing.T) {
	x := &test{t: t}
	x.begin(reconciler{Reconcile: func(r *request) (result, error) {
		x.calls = append(x.calls, string(r.Action))
		r.Patch(map[string]any{"spec": map[string]string{"title": "own"}})
		return result{}, nil
	}})
	x.run("created").ExpectWrites("patch", "status")
	x.run("updated").ExpectWrites("status")
	x.run("updated").ExpectNoWrites() // the status has the generation of its update
	x.run("resynced")
}

func TestDeletionIsDeliveredUntilItIsDone(t *testing.T) {
	x := &test{t: t, fail: errBroken}
	x.begin(x.record())
	x.run("created A")
	x.Delete(shop)
	x.runGone("deleted").ExpectRetry("")
	x.runGone("deleted 1").ExpectRetry("")
	x.fail = nil
	x.runGone("deleted 2").ExpectSuccess()
}

func TestRequeueAfterDeliversTheEventAgain(t *testing.T) {
	x := &test{t: t, RequeueAfter: time.Minute}
	x.begin(x.record())
	x.run("created A").ExpectWaiting("Requeued").ExpectNext(time.Minute)
	x.Advance(time.Minute)
	x.run("created A 1").ExpectWaiting("Requeued").ExpectNext(time.Minute)
	x.RequeueAfter = 0
	x.Advance(time.Minute)
	x.run("created A 2").ExpectReady().ExpectNext(0)
	x.run("updated A") // its condition is another
	x.run("resynced A")
}

func TestRequeueAfterPrecedesTheError(t *testing.T) {
	for name, err := range map[string]error{"any": errBroken, "stalled": sdk.Stalled("Wrong", errBroken)} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t, RequeueAfter: time.Hour, fail: err}
			x.begin(x.record(), controller{Retry: sdk.RetryPolicy{Attempts: 1}})
			x.edit = func(q *abi.Request) { q.Attempt = 0 }
			r := x.run("created A")
			if r.Code != abi.CodeRetry || r.Result.Error.After != time.Hour.Milliseconds() || r.Result.Error.Message != "broken" {
				t.Errorf("code %d, error %+v", r.Code, r.Result.Error)
			}
			x.fail = nil
			x.run("created A 1")
		})
	}
}

// An object that is run before its time is delivered again then.
func TestEventIsDeliveredEarlyIfTheObjectRuns(t *testing.T) {
	x := &test{t: t, RequeueAfter: time.Hour}
	x.begin(x.record())
	x.run("created A")
	x.run("created A 1")
}

func TestStateIsGivenToTheNextCallForTheEvent(t *testing.T) {
	x := &test{t: t, fail: errBroken, State: "one"}
	x.begin(x.record())
	x.run("created A")
	x.State = "two"
	x.run("created A 1 one")
	x.State = nil // keeps it
	x.run("created A 2 two")
	x.fail, x.RequeueAfter = nil, time.Second
	x.run("created A 3 two")
	x.RequeueAfter = 0
	x.run("created A 4 two").ExpectReady()
	x.run("updated A")
	x.title("B")
	x.fail, x.State = errBroken, "three"
	x.run("updated B")
	x.title("C")
	x.run("updated C")
	x.Restart()
	x.run("created C")
}

func TestStateIsGivenAfterAFailedEffect(t *testing.T) {
	for _, write := range []string{"status", "patch"} {
		t.Run(write, func(t *testing.T) {
			x := &test{t: t, State: "done"}
			record := x.record()
			x.begin(reconciler{Reconcile: func(r *request) (result, error) {
				r.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`))
				r.Patch(map[string]any{"spec": map[string]string{"title": "own"}})
				return record.Reconcile(r)
			}})
			failing := configMap
			if write == "patch" {
				failing = siteKind
			}
			x.FailWrites(failing, "Forbidden")
			x.run("created A").ExpectRetry("Forbidden")
			title := map[string]string{"status": "own", "patch": "A"}[write]
			x.run("created " + title + " 1 done")
			x.traps = true
			x.run().ExpectClass(abi.ClassPanic)
			x.traps = false
			x.FailWrites(failing, "")
			x.run("created " + title + " 2 done").ExpectReady()
			x.title("B")
			x.run("updated B")
		})
	}
}

func TestStateIsAtMostAKibibyte(t *testing.T) {
	x := &test{t: t, State: strings.Repeat("x", 1022), fail: errBroken}
	x.begin(x.record())
	x.run("created A").ExpectRetry("")
	x.State = strings.Repeat("x", 1023)
	x.run("created A 1 " + strings.Repeat("x", 1022)).ExpectStalled("InvalidState")
	x.State = func() {}
	x.run("created A").ExpectStalled("InvalidState")
}

func TestReadThatIsNotAvailableIsNoCall(t *testing.T) {
	x := &test{t: t, fail: errBroken}
	record := x.record()
	policy := func(_ *object, err error, _ int) error {
		if errors.Is(err, sdk.ErrUnavailable) {
			t.Error("the policy is asked")
		}
		return err
	}
	x.begin(reconciler{Reconcile: func(r *request) (result, error) {
		var o sdk.Raw
		if err := r.Get(configMap.Ref("", "m"), &o); !errors.Is(err, sdk.ErrNotFound) {
			return result{}, err
		}
		return record.Reconcile(r)
	}}, controller{ErrorPolicy: policy})
	x.run("created A")
	x.FailReads(configMap, abi.CodeUnavailable)
	x.run().ExpectNoWrites()
	x.FailReads(configMap, 0)
	x.run("created A 1")
	x.fail = sdk.ErrUnavailable // whatever it was that is not available
	x.run("created A 2").ExpectRetry("Unavailable")
	x.run("created A 2")
}

// A run that did not return is no call, and its event is delivered.
func TestEventOfARunThatDidNotReturnIsDelivered(t *testing.T) {
	for name, opinionated := range map[string]bool{"plain": false, "opinionated": true} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t, traps: true}
			r := x.record()
			r.Opinionated = opinionated
			x.begin(r)
			trap := func() {
				x.traps = true
				x.run()
				x.traps = false
			}
			trap()
			x.run("created A")
			trap()
			other := map[bool]string{false: "updated", true: "resynced"}[opinionated] // the status is another
			x.run(other + " A")
			x.title("B")
			trap()
			x.run("updated B")
			trap()
			x.run(map[bool]string{false: "updated B 1", true: "resynced B"}[opinionated])
		})
	}
}

func TestEventThatIsGivenUpIsDeliveredByAnyOtherRun(t *testing.T) {
	x := &test{t: t}
	r := x.record()
	r.Opinionated = true
	x.begin(r)
	x.run("created A")
	x.title("B")
	x.fail = sdk.Stalled("Wrong", errBroken)
	x.run("updated B").ExpectStalled("Wrong")
	x.fail = nil
	x.run("updated B").ExpectReady()
	x.run()
}

// A processor can return that the desired state is not reached.
func TestEventIsDeliveredUntilARunHasEndedWell(t *testing.T) {
	x := &test{t: t}
	r := x.record()
	r.Opinionated = true
	requeue := true
	x.begin(r, controller{Processors: []sdk.Processor[siteSpec, siteStatus]{
		func(_ *object, action sdk.Action, err error) (sdk.Action, error) {
			if requeue {
				action = sdk.Requeue()
			}
			return action, err
		},
	}})
	x.run("created A").ExpectRequeue()
	requeue = false
	x.run("created A").ExpectReady()
	x.run().ExpectEmpty()
}

func TestMemoThatCannotBeReadIsIgnored(t *testing.T) {
	x := &test{t: t}
	r := x.record()
	r.Opinionated = true
	x.begin(r)
	x.run("created A").ExpectReady()
	x.edit = func(q *abi.Request) { q.Memo = []byte(`{"pending":[{"a":"updated","n":1}],"seen":1}`) }
	x.run().ExpectEmpty()
}

func TestControllerThatCannotWorkIsRefused(t *testing.T) {
	reconcile := func(*request) (result, error) { return result{}, nil }
	end := func(*object) error { return nil }
	for name, c := range map[string]struct {
		layer layer
		base  controller
		want  string
	}{
		"no function":      {reconciler{}, controller{}, `operator: controller "x" has no function`},
		"a Reconcile":      {watcher{}, controller{Reconcile: func(*object) (sdk.Action, error) { return sdk.Action{}, nil }}, "of its own"},
		"a Cleanup":        {watcher{}, controller{Cleanup: end}, "of its own"},
		"a Gone":           {watcher{}, controller{Gone: end}, "of its own"},
		"in memory":        {reconciler{Reconcile: reconcile, Opinionated: true}, controller{Changes: sdk.ChangesMemory}, "sdk.ChangesAnnotation"},
		"an Interval":      {reconciler{Reconcile: reconcile, Opinionated: true}, controller{Interval: time.Hour}, "use Timers"},
		"an IntervalOf":    {watcher{Opinionated: true}, controller{IntervalOf: func(*object) time.Duration { return 0 }}, "use Timers"},
		"a plain Interval": {watcher{}, controller{Interval: time.Hour}, ""},
		"a plain Sync":     {watcher{Sync: end}, controller{}, "set Opinionated"},
		"a watcher":        {watcher{}, controller{}, ""},
		"an annotation":    {reconciler{Reconcile: reconcile}, controller{Changes: sdk.ChangesAnnotation}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
					t.Errorf("panicked with %q, expected %q", got, c.want)
				}
			}()
			c.base.Name = "x"
			c.layer.Controller(c.base)
		})
	}
}

func TestControllerHasWhatItsFormNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		opinionated bool
		base        sdk.Changes
		want        sdk.Changes
	}{
		"plain":       {false, "", sdk.ChangesMemory},
		"as asked":    {false, sdk.ChangesAnnotation, sdk.ChangesAnnotation},
		"opinionated": {true, "", sdk.ChangesAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&test{t: t}).record()
			r.Opinionated = c.opinionated
			got := r.Controller(controller{Changes: c.base})
			if got.Changes != c.want || (got.Cleanup != nil) != c.opinionated || got.Gone == nil {
				t.Errorf("changes %q, cleanup %t, gone %t", got.Changes, got.Cleanup != nil, got.Gone != nil)
			}
		})
	}
}

func TestGenerationThatWasAppliedIsLeftEarly(t *testing.T) {
	x := &test{t: t}
	x.begin(reconciler{Reconcile: func(r *request) (result, error) {
		generation := strconv.FormatInt(r.Generation, 10)
		if r.Status.URL == generation {
			return result{}, nil
		}
		x.calls = append(x.calls, "applied "+generation)
		r.Status.URL = generation
		return result{}, nil
	}})
	x.run("applied 1").ExpectWrites("status")
	x.run().ExpectNoWrites()
	x.change(`{"metadata":{"labels":{"tier":"web"}}}`)
	x.run().ExpectNoWrites()
	x.title("B")
	x.run("applied 2")
	x.Restart()
	x.run().ExpectNoWrites()
}

func TestRequeueAfterOfADeletionKeepsTheObject(t *testing.T) {
	x := &test{t: t}
	r := x.record()
	r.Opinionated = true
	x.begin(r)
	x.run("created A")
	x.RequeueAfter = time.Minute
	x.Delete(shop)
	x.run("deleted").ExpectWaiting("Requeued").ExpectNext(time.Minute)
	if !x.Exists(shop) {
		t.Fatal("the object is gone")
	}
	x.RequeueAfter = 0
	x.later("deleted 1").ExpectSuccess()
	x.ExpectGone(shop)
}
