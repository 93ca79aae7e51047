package sdk_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

func TestGetAndListReadObjectsInScope(t *testing.T) {
	w := world(t, doing(func(r *widget) {
		var node struct{ Metadata sdk.ObjectMeta }
		if err := r.Get(nodeKind.Ref("", "n1"), &node); err != nil || node.Metadata.Name != "n1" {
			t.Errorf("get: %v, %+v", err, node)
		}
		var raw sdk.Raw
		if err := r.Get(configMap.Ref("", "a"), &raw); err != nil || !strings.Contains(string(raw), `"data"`) {
			t.Errorf("get raw, in the primary's namespace: %v, %s", err, raw)
		}
		var maps []ConfigMap
		if err := r.List(sdk.Query{Kind: configMap, LabelSelector: "tier in (x, y),!hidden"}, &maps); err != nil || len(maps) != 1 || maps[0].Metadata.Name != "a" {
			t.Errorf("list: %v, %+v", err, maps)
		}
		if err := r.List(sdk.Query{Kind: configMap}, &maps); err != nil || len(maps) != 2 {
			t.Errorf("list all: %v, %+v", err, maps)
		}
		var none []sdk.Raw
		if err := r.List(sdk.Query{Kind: configMap, LabelSelector: "tier=z"}, &none); err != nil || len(none) != 0 {
			t.Errorf("list none: %v, %s", err, none)
		}
	}))
	w.Create(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`)
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a","labels":{"tier":"x"}},"data":{"k":"v"}}`)
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"b","labels":{"tier":"x","hidden":""}}}`)
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"other","name":"c","labels":{"tier":"x"}}}`)

	w.Reconcile(one).ExpectReady()
}

func TestReadErrorNamesCallAndCause(t *testing.T) {
	var into struct {
		Data int `json:"data"`
	}
	for name, c := range map[string]struct {
		read func(*widget) error
		is   error
		text string
	}{
		"no such object": {func(r *widget) error { return r.Get(configMap.Ref("default", "x"), &into) }, sdk.ErrNotFound, "get v1 ConfigMap default/x: not found"},
		"object with another uid": {func(r *widget) error {
			return r.Get(sdk.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "no"}, &into)
		}, sdk.ErrNotFound, ""},
		"undeclared kind":       {func(r *widget) error { return r.Get(secretKind.Ref("default", "x"), &into) }, sdk.ErrDenied, ""},
		"another namespace":     {func(r *widget) error { return r.Get(configMap.Ref("other", "x"), &into) }, sdk.ErrDenied, ""},
		"malformed selector":    {func(r *widget) error { return r.List(sdk.Query{Kind: configMap, LabelSelector: "a b"}, &into) }, sdk.ErrInvalid, "list v1 ConfigMap with a b: invalid"},
		"no name":               {func(r *widget) error { return r.Get(configMap.Ref("default", ""), &into) }, sdk.ErrInvalid, ""},
		"field of another type": {func(r *widget) error { return r.Get(configMap.Ref("default", "a"), &into) }, nil, "get v1 ConfigMap default/a: data: expected an integer, found object"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, func(r *widget) (sdk.Action, error) { return sdk.Action{}, c.read(r) })
			w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a"},"data":{"k":"v"}}`)
			onReconcile = func(r *widget) (sdk.Action, error) {
				err := c.read(r)
				if c.is != nil && !errors.Is(err, c.is) || c.text != "" && err.Error() != c.text {
					t.Errorf("the error is %v, expected %v %q", err, c.is, c.text)
				}
				return sdk.Action{}, err
			}
			w.Reconcile(one).ExpectRetry("")
		})
	}
	for code, want := range map[int64]error{
		abi.CodeUnavailable: sdk.ErrUnavailable, abi.CodeConflict: sdk.ErrConflict, abi.CodeTooLarge: sdk.ErrTooLarge, -99: sdk.ErrUnavailable,
	} {
		w := world(t, doing(func(r *widget) {
			if err := r.List(sdk.Query{Kind: configMap}, &into); !errors.Is(err, want) {
				t.Errorf("code %d is %v, expected %v", code, err, want)
			}
			if err := r.List(sdk.Query{Kind: configMap}, &into); code == abi.CodeTooLarge && (!strings.Contains(err.Error(), "at most 16 MiB") || !strings.Contains(err.Error(), "read.Pages")) {
				t.Errorf("code %d is %v", code, err)
			}
		}))
		w.FailReads(configMap, code)
		w.Reconcile(one)
	}
}

func TestConditionIsSetReadAndRemoved(t *testing.T) {
	w := world(t, doing(func(r *widget) {
		if _, ok := r.Condition("Painted"); ok {
			t.Error("the condition exists before it is set")
		}
		r.SetCondition(sdk.Condition{Type: "Painted", Status: sdk.True, Reason: "Old", Message: "x"})
		r.SetCondition(sdk.Condition{Type: "Painted", Status: sdk.False, Reason: "OutOfPaint", Message: "no paint"})
	}))
	w.Reconcile(one).ExpectCondition("Painted", sdk.False, "OutOfPaint").ExpectCondition("Ready", sdk.False, "OutOfPaint")

	onReconcile = doing(func(r *widget) {
		if c, ok := r.Condition("Painted"); !ok || c.Reason != "OutOfPaint" || c.LastTransitionTime == "" {
			t.Errorf("the condition is %+v", c)
		}
		r.RemoveCondition("Painted")
	})
	w.Reconcile(one).ExpectReady().ExpectCondition("Painted", "", "")

	onReconcile = doing(func(r *widget) { r.SetCondition(sdk.Condition{Type: "Foreign", Status: sdk.True, Reason: "X"}) })
	w.Reconcile(one).ExpectClass(abi.ClassABI)
}

func TestMemoRemainsUntilItIsSetAgain(t *testing.T) {
	w := world(t, doing(func(r *widget) { r.SetMemo(map[string]int{"n": 1}) }))
	w.Reconcile(one)

	read := func(want int) {
		t.Helper()
		onReconcile = doing(func(r *widget) {
			var memo struct{ N int }
			if ok, err := r.Memo(&memo); err != nil || ok != (want > 0) || memo.N != want {
				t.Errorf("the memo is %+v, %v, %v", memo, ok, err)
			}
		})
		w.Reconcile(one).ExpectReady()
	}
	read(1)
	read(1)
	onReconcile = doing(func(r *widget) { r.SetMemo(nil) })
	w.Reconcile(one)
	read(0)
}

func TestConfigReadsConfigurationOfPlugin(t *testing.T) {
	type config struct {
		Size int `json:"size"`
	}
	w := world(t, func(r *widget) (sdk.Action, error) {
		c := config{Size: 5}
		err := r.Config(&c)
		r.Status.Size = c.Size
		return sdk.AwaitChange(), err
	})
	w.Reconcile(one).ExpectReady()
	w.Configure(config{Size: 8})
	w.Reconcile(one).ExpectReady()

	var after struct{ Status widgetStatus }
	if w.Get(oneRef, &after); after.Status.Size != 8 {
		t.Errorf("the size is %d", after.Status.Size)
	}
	w.Configure(`{"size":"x"}`)
	w.Reconcile(one).ExpectStalled("InvalidConfig")
}

func TestPatchesOfOneRunAreCombined(t *testing.T) {
	w := world(t, doing(func(r *widget) {
		r.Patch(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": nil}}})
		r.Patch(sdk.Raw(`{"metadata":{"labels":{"c":"d"},"annotations":{"e":"f"}}}`))
	}))
	w.Reconcile(one).ExpectReady().ExpectWrites("finalizer", "patch", "status")

	var after struct{ Metadata sdk.ObjectMeta }
	w.Get(oneRef, &after)
	if m := after.Metadata; len(m.Labels) != 1 || m.Labels["c"] != "d" || m.Annotations["e"] != "f" {
		t.Errorf("labels are %v, annotations %v", m.Labels, m.Annotations)
	}
}

func TestNextRunGetsFailureOfEffect(t *testing.T) {
	w := world(t, doing(func(r *widget) {
		r.Apply(ConfigMap{TypeMeta: configMap.Type(), Metadata: sdk.ObjectMeta{Name: "made"}})
	}))
	w.FailWrites(configMap, "Forbidden")
	w.Reconcile(one).ExpectRetry("Forbidden")

	apply := onReconcile
	onReconcile = func(r *widget) (sdk.Action, error) {
		if p := r.Previous; r.Attempt != 1 || p == nil || p.Class != abi.ClassRetry || len(p.Failures) != 1 ||
			p.Failures[0].Ref.Name != "made" || p.Failures[0].Reason != "Forbidden" {
			t.Errorf("attempt %d, previous %+v", r.Attempt, r.Previous)
		}
		return apply(r)
	}
	w.FailWrites(configMap, "")
	w.Reconcile(one).ExpectReady()
}

func TestLogWritesPairsAndExtras(t *testing.T) {
	w := world(t, doing(func(r *widget) {
		r.Log.Debug("plain")
		r.Log.Info("told", "name", "x\"y", "count", 3, "ok", true, "none", nil, "err", errors.New("bad"), "after", time.Second,
			"at", r.Now, "list", []int{1}, "big", int64(1)<<60, "kind", configMap, "func", func() {}, "raw", sdk.Raw(nil))
		r.Log.Warn("odd", "lonely")
		r.Log.Error("number", 5, "a", "b")
	}))
	logs := w.Reconcile(one).Logs
	want := []sdktest.Line{
		{Level: abi.LogDebug, Text: "plain", Fields: map[string]string{}},
		{Level: abi.LogInfo, Text: "told", Fields: map[string]string{
			"name": "x\"y", "count": "3", "ok": "true", "none": "null", "err": "bad", "after": "1s", "at": "2026-01-01T00:00:00Z",
			"list": "[1]", "big": "1152921504606846976", "kind": "v1 ConfigMap", "func": "(json: unsupported type: func())", "raw": "null",
		}},
		{Level: abi.LogWarn, Text: "odd", Fields: map[string]string{"extra": "lonely"}},
		{Level: abi.LogError, Text: "number", Fields: map[string]string{"extra": "5", "a": "b"}},
	}
	if !reflect.DeepEqual(logs, want) {
		t.Errorf("logged %+v\nexpected %+v", logs, want)
	}
}

func TestRandIsSeededPerRun(t *testing.T) {
	var numbers []uint64
	w := world(t, doing(func(r *widget) { numbers = append(numbers, r.Rand().Uint64(), r.Rand().Uint64()) }))
	w.Reconcile(one)
	w.Reconcile(one)
	if numbers[0] != numbers[1] || numbers[0] == numbers[2] {
		t.Errorf("numbers are %v: expected the same ones within a run, others in the next", numbers)
	}
}

func TestCleanupHoldsObjectUntilItSucceeds(t *testing.T) {
	w := world(t, doing(func(r *widget) { r.Status.Size = r.Spec.Size }))
	w.Reconcile(one).ExpectWrites("finalizer", "status")
	w.Delete(oneRef)
	onCleanup = func(r *widget) error {
		if !r.Deleting() {
			t.Error("cleanup runs for an object that is not being deleted")
		}
		return sdk.Waiting("Busy", time.Second, errors.New("still busy"))
	}
	w.Reconcile(one).ExpectWaiting("Busy").ExpectWrites("status")

	onCleanup = func(*widget) error { return nil }
	w.Reconcile(one).ExpectWrites("release")
	w.ExpectGone(oneRef)
}

func TestTimeIsTruncatedToSeconds(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("x", 3600))
	if got := sdk.TimeOf(at); got != "2026-02-03T03:05:06Z" || !got.Time().Equal(at.Truncate(time.Second)) {
		t.Errorf("the time is %q", got)
	}
	if sdk.TimeOf(time.Time{}) != "" || !sdk.Time("").Time().IsZero() || !sdk.Time("x").Time().IsZero() {
		t.Error("an empty or malformed time is not zero")
	}
}

func TestRegisterPanicsOnIncompleteController(t *testing.T) {
	for want, c := range map[string]sdk.Controller[widgetSpec, widgetStatus]{
		`sdk.Register: controller "idle" has no Reconcile`:       {Name: "idle"},
		`sdk.Register: there are two controllers named "widget"`: {Name: "widget", Reconcile: doing(nil)},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v", got)
				}
			}()
			sdk.Register(c)
		})
	}
}
