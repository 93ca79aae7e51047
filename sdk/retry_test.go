package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The controller of this file has an error policy, which the tests set.

type task = sdk.Request[struct{}, struct{}]

var (
	errTask    error // that Reconcile and Cleanup return
	taskPolicy func(r *task, err error, attempt int) error
)

func init() {
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: "task", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Task"},
		Reads:     []sdk.Kind{configMap},
		Reconcile: func(*task) (sdk.Action, error) { return sdk.AwaitChange(), errTask },
		Cleanup:   func(*task) error { return errTask },
		Retry: sdk.RetryPolicy{
			Initial: 2 * time.Second, Factor: 1.1, Cap: time.Minute, Jitter: 0.001, Attempts: 7, Then: sdk.ThenCap,
		},
		ErrorPolicy: func(r *task, err error, attempt int) error { return taskPolicy(r, err, attempt) },
	})
}

var taskRef = sdk.Kind{APIVersion: "example.com/v1", Kind: "Task"}.Ref("default", "one")

// taskWorld returns a world with a Task that fails with err.
func taskWorld(t *testing.T, err error, policy func(r *task, err error, attempt int) error) *sdktest.World {
	t.Helper()
	errTask, taskPolicy = err, policy
	w := sdktest.New(t, "task")
	w.Create(`{"apiVersion":"example.com/v1","kind":"Task","metadata":{"namespace":"default","name":"one"}}`)
	return w
}

func TestRetryIsInManifest(t *testing.T) {
	m := guest.Manifest()
	i := slices.IndexFunc(m.Controllers, func(c abi.Controller) bool { return c.Name == "task" })
	want := abi.Retry{Initial: 2000, Factor: 110, Cap: 60_000, Jitter: 1, Attempts: 7, Then: "cap"}
	if got := m.Controllers[i].Retry; got != want {
		t.Errorf("retry is %+v, expected %+v", got, want)
	}
	for _, c := range m.Controllers {
		if c.Name != "task" && c.Retry != (abi.Retry{}) {
			t.Errorf("%s has %+v without asking for it", c.Name, c.Retry)
		}
	}
}

func TestErrorPolicyDecidesByErrorAndAttempt(t *testing.T) {
	errQuota, errNetwork := errors.New("no quota"), errors.New("no network")
	var attempts []int
	w := taskWorld(t, errNetwork, func(r *task, err error, attempt int) error {
		attempts = append(attempts, attempt)
		switch {
		case r.Name != "one":
			t.Errorf("called for %q", r.Name)
		case errors.Is(err, errQuota):
			return sdk.Stalled("NoQuota", err)
		case attempt <= 2:
			return sdk.RetryAfter(time.Duration(attempt)*10*time.Second, err)
		}
		return err
	})
	w.Reconcile(one).ExpectRetry("").ExpectNext(10 * time.Second)
	w.Reconcile(one).ExpectRetry("").ExpectNext(20 * time.Second)
	w.Reconcile(one).ExpectRetry("").ExpectBackoff(2420 * time.Millisecond) // 2 s, 2.2 s, 2.42 s
	errTask = fmt.Errorf("create: %w", errQuota)
	w.Reconcile(one).ExpectStalled("NoQuota").ExpectNext(0)
	w.Reconcile(one).ExpectStalled("NoQuota")
	if want := []int{1, 2, 3, 4, 1}; !slices.Equal(attempts, want) { // stalled is no failure
		t.Errorf("attempts are %v, expected %v", attempts, want)
	}
}

func TestErrorPolicyIsNotAskedAboutErrorsThatDecide(t *testing.T) {
	plain := errors.New("no luck")
	asked := 0
	policy := func(_ *task, err error, _ int) error {
		asked++
		return sdk.Waiting("Asked", time.Hour, err)
	}
	for name, c := range map[string]struct {
		err    error
		asked  bool
		expect func(*sdktest.Run)
	}{
		"none":        {nil, false, func(r *sdktest.Run) { r.ExpectReady() }},
		"stalled":     {sdk.Stalled("Bad", plain), false, func(r *sdktest.Run) { r.ExpectStalled("Bad") }},
		"waiting":     {sdk.Waiting("Soon", time.Second, plain), false, func(r *sdktest.Run) { r.ExpectWaiting("Soon").ExpectNext(time.Second) }},
		"retry after": {sdk.RetryAfter(time.Minute, plain), false, func(r *sdktest.Run) { r.ExpectRetry("Failed").ExpectNext(time.Minute) }},
		"retry":       {sdk.Retry("Bad", plain), true, func(r *sdktest.Run) { r.ExpectWaiting("Asked").ExpectNext(time.Hour) }},
		"plain":       {plain, true, func(r *sdktest.Run) { r.ExpectWaiting("Asked") }},
		"a literal":   {&sdk.Error{Reason: "Bad"}, true, func(r *sdktest.Run) { r.ExpectWaiting("Asked") }},
		"unavailable": {fmt.Errorf("read: %w", sdk.ErrUnavailable), false, func(r *sdktest.Run) { r.ExpectRetry("Unavailable") }},
	} {
		for _, phase := range []string{"reconcile", "cleanup"} {
			t.Run(name+" in "+phase, func(t *testing.T) {
				asked = 0
				w := taskWorld(t, c.err, policy)
				if phase == "cleanup" {
					if c.err == nil {
						return
					}
					w.Change(taskRef, `{"metadata":{"finalizers":["test.thole.dev/task"]}}`)
					w.Delete(taskRef)
				}
				c.expect(w.Reconcile(one))
				if (asked > 0) != c.asked {
					t.Errorf("the policy was asked %d times", asked)
				}
			})
		}
	}
}

func TestErrorPolicyThatReturnsNilLeavesTheError(t *testing.T) {
	w := taskWorld(t, sdk.Retry("Broken", errors.New("no luck")), func(*task, error, int) error { return nil })
	w.Reconcile(one).ExpectRetry("Broken").ExpectBackoff(2 * time.Second)
}

func TestAttemptsOfARetryPolicyEndInItsCap(t *testing.T) {
	w := taskWorld(t, errors.New("no luck"), func(_ *task, err error, _ int) error { return err })
	for range 6 {
		w.Reconcile(one)
	}
	for range 2 {
		w.Reconcile(one).ExpectRetry("").ExpectBackoff(time.Minute)
	}
}

func TestRetryAfterNothingIsAsSoonAsPossible(t *testing.T) {
	for _, after := range []time.Duration{-1, 0, 1, 99 * time.Millisecond} {
		w := taskWorld(t, sdk.RetryAfter(after, errors.New("no luck")), nil)
		w.Reconcile(one).ExpectRetry("").ExpectNext(100 * time.Millisecond)
	}
}

// A policy that wraps an error keeps its reason.
func TestReasonOfAWrappedErrorIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"retry after":           {sdk.RetryAfter(time.Second, sdk.Retry("Broken", errors.New("x"))), "Broken"},
		"stalled":               {sdk.Stalled("", fmt.Errorf("read: %w", sdk.ErrDenied)), "Denied"},
		"the outermost":         {sdk.Stalled("Outer", sdk.Retry("Inner", errors.New("x"))), "Outer"},
		"a reason between":      {fmt.Errorf("a: %w", sdk.RetryAfter(1, fmt.Errorf("b: %w", &sdk.Error{Reason: "Literal"}))), "Literal"},
		"without any":           {sdk.RetryAfter(1, errors.New("x")), "Failed"},
		"without even an error": {&sdk.Error{}, "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := taskWorld(t, c.err, func(_ *task, err error, _ int) error { return err })
			if got := w.Reconcile(one).Reason; got != c.want {
				t.Errorf("the reason is %q, expected %q", got, c.want)
			}
		})
	}
}
