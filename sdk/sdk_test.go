package sdk_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The functions of this file's controller are set by the tests.

type widgetSpec struct {
	Size  int               `json:"size,omitempty"`
	Parts map[string]string `json:"parts,omitempty"`
}

type widgetStatus struct {
	Size  int      `json:"size,omitempty"`
	Note  *string  `json:"note,omitempty"`
	Parts []string `json:"parts,omitempty"`
	Bad   float64  `json:"bad,omitempty"`
}

type widget = sdk.Request[widgetSpec, widgetStatus]

var (
	widgetKind = sdk.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	secretKind = sdk.Kind{APIVersion: "v1", Kind: "Secret"}
	nodeKind   = sdk.Kind{APIVersion: "v1", Kind: "Node"}

	onReconcile func(*widget) (sdk.Action, error)
	onCleanup   func(*widget) error
)

func init() {
	sdk.Plugin("test", "1.2.3")
	sdk.Register(sdk.Controller[widgetSpec, widgetStatus]{
		Name: "widget", For: widgetKind, Owns: []sdk.Kind{configMap}, Reads: []sdk.Kind{nodeKind},
		Indexes: []sdk.Index{
			{Name: "zone", Kind: nodeKind, Field: "spec.zone"},
			{Name: "unschedulable", Kind: nodeKind, Field: "spec.unschedulable"},
			{Name: "taint", Kind: nodeKind, Field: "spec.taints[*].key"},
		},
		Reconcile:  func(r *widget) (sdk.Action, error) { return onReconcile(r) },
		Cleanup:    func(r *widget) error { return onCleanup(r) },
		Interval:   time.Hour,
		Conditions: sdk.Conditions{Owned: []string{"Painted"}, Summarized: []string{"Painted"}},
	})
}

const one = "default/one"

var oneRef = widgetKind.Ref("default", "one")

// world returns a world with one Widget, whose controller calls reconcile.
func world(t *testing.T, reconcile func(*widget) (sdk.Action, error)) *sdktest.World {
	t.Helper()
	onReconcile = reconcile
	onCleanup = func(*widget) error { return nil }
	w := sdktest.New(t, "widget")
	w.Create(`{"apiVersion":"example.com/v1","kind":"Widget",
		"metadata":{"namespace":"default","name":"one","labels":{"a":"b"}},
		"spec":{"size":3,"future":{"x":1}},
		"status":{"size":2,"note":"old","future":[1,2],"parts":["p"]}}`)
	return w
}

// doing returns a reconcile function that calls do and succeeds.
func doing(do func(*widget)) func(*widget) (sdk.Action, error) {
	return func(r *widget) (sdk.Action, error) {
		do(r)
		return sdk.AwaitChange(), nil
	}
}

func TestExamplePluginGreets(t *testing.T) {
	w := sdktest.New(t, "greeting")
	w.Create(`{"apiVersion":"example.thole.dev/v1","kind":"Greeting","metadata":{"namespace":"default","name":"g"},"spec":{"who":"you"}}`)

	w.Reconcile("default/g").ExpectWaiting("NoWords").ExpectNext(time.Minute)

	w.Create(ConfigMap{TypeMeta: configMap.Type(), Metadata: sdk.ObjectMeta{Namespace: "default", Name: "words"}, Data: map[string]string{"hello": "Good day"}})
	w.Reconcile("default/g").ExpectReady().ExpectWrites("apply v1 ConfigMap default/g", "status")

	var made ConfigMap
	if !w.Get(configMap.Ref("default", "g"), &made) || made.Data["text"] != "Good day, you" {
		t.Errorf("the config map is %+v", made)
	}
}

func TestRequestHasPartsOfObject(t *testing.T) {
	w := world(t, doing(func(r *widget) {
		if r.Name != "one" || r.Namespace != "default" || r.UID == "" || r.Generation != 1 || r.Labels["a"] != "b" {
			t.Errorf("metadata is %+v", r.ObjectMeta)
		}
		if r.CreationTimestamp.Time().IsZero() || r.Deleting() {
			t.Errorf("creation is %q, deletion %q", r.CreationTimestamp, r.DeletionTimestamp)
		}
		if r.Spec.Size != 3 || r.Status.Size != 2 || *r.Status.Note != "old" {
			t.Errorf("spec is %+v, status %+v", r.Spec, r.Status)
		}
		if !strings.Contains(string(r.Object()), `"future":{"x":1}`) {
			t.Errorf("the whole object is %s", r.Object())
		}
		if r.Previous != nil || r.Attempt != 0 || len(r.Reasons) == 0 || r.Now.IsZero() {
			t.Errorf("the run is %+v", r.Run)
		}
	}))
	w.Reconcile(one).ExpectReady().ExpectNext(time.Hour)
}

func TestStatusPatchHasOnlyTheChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*widgetStatus)
		want   string // the merge patch
	}{
		"nothing":         {func(*widgetStatus) {}, ""},
		"a field":         {func(s *widgetStatus) { s.Size = 9 }, `{"size":9}`},
		"a pointer":       {func(s *widgetStatus) { *s.Note = "new" }, `{"note":"new"}`},
		"a removed field": {func(s *widgetStatus) { s.Note, s.Size = nil, 0 }, `{"size":null,"note":null}`},
		"an element":      {func(s *widgetStatus) { s.Parts[0] = "q" }, `{"parts":["q"]}`},
		"everything":      {func(s *widgetStatus) { *s = widgetStatus{} }, `{"size":null,"note":null,"parts":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, doing(func(r *widget) { c.change(&r.Status) }))
			run := w.Reconcile(one).ExpectReady()
			if !sameJSON(t, string(run.Result.Status), c.want) {
				t.Errorf("the patch is %s, expected %s", run.Result.Status, c.want)
			}
			var after struct {
				Status struct{ Future []int }
			}
			if w.Get(oneRef, &after); len(after.Status.Future) != 2 {
				t.Error("a member that the type does not have was lost")
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	parse := func(s string) (v any) {
		if s == "" {
			return nil
		}
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	return reflect.DeepEqual(parse(a), parse(b))
}

func TestReturnValueDecidesOutcome(t *testing.T) {
	plain := errors.New("no luck")
	for name, c := range map[string]struct {
		action sdk.Action
		err    error
		expect func(*sdktest.Run)
	}{
		"await change":                          {sdk.AwaitChange(), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(time.Hour) }},
		"zero action":                           {sdk.Action{}, nil, func(r *sdktest.Run) { r.ExpectReady() }},
		"requeue after":                         {sdk.RequeueAfter(time.Minute), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(time.Minute) }},
		"requeue after less than a millisecond": {sdk.RequeueAfter(time.Nanosecond), nil, func(r *sdktest.Run) { r.ExpectNext(100 * time.Millisecond) }},
		"requeue after more than 100 years":     {sdk.RequeueAfter(math.MaxInt64), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(100 * 365 * 24 * time.Hour) }},
		"requeue after no time":                 {sdk.RequeueAfter(0), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(100 * time.Millisecond) }},
		"requeue after a time that is over":     {sdk.RequeueAfter(math.MinInt64), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(100 * time.Millisecond) }},
		"waiting for more than 100 years": {sdk.Action{}, sdk.Waiting("Soon", math.MaxInt64, plain), func(r *sdktest.Run) {
			r.ExpectWaiting("Soon").ExpectNext(100 * 365 * 24 * time.Hour)
		}},
		"requeue":           {sdk.Requeue(), nil, func(r *sdktest.Run) { r.ExpectRequeue().ExpectCondition("Ready", sdk.False, "Progressing") }},
		"empty":             {sdk.Empty(), nil, func(r *sdktest.Run) { r.ExpectEmpty().ExpectCondition("Ready", sdk.Unknown, "") }},
		"plain error":       {sdk.Action{}, plain, func(r *sdktest.Run) { r.ExpectRetry("Failed").ExpectClass(abi.ClassRetry) }},
		"retry":             {sdk.Action{}, sdk.Retry("NoLuck", plain), func(r *sdktest.Run) { r.ExpectRetry("NoLuck") }},
		"stalled":           {sdk.Action{}, sdk.Stalled("Wrong", plain), func(r *sdktest.Run) { r.ExpectStalled("Wrong") }},
		"waiting":           {sdk.Action{}, sdk.Waiting("Soon", time.Second, plain), func(r *sdktest.Run) { r.ExpectWaiting("Soon").ExpectNext(time.Second) }},
		"wrapped error":     {sdk.Action{}, errors.Join(errors.New("more"), sdk.Stalled("Wrong", plain)), func(r *sdktest.Run) { r.ExpectStalled("Wrong") }},
		"composite literal": {sdk.Action{}, &sdk.Error{Reason: "Odd"}, func(r *sdktest.Run) { r.ExpectRetry("Odd").ExpectClass(abi.ClassRetry) }},
		"without cause":     {sdk.Action{}, sdk.Waiting("Soon", 0, nil), func(r *sdktest.Run) { r.ExpectWaiting("Soon") }},
		"not found":         {sdk.Action{}, sdk.ErrNotFound, func(r *sdktest.Run) { r.ExpectRetry("NotFound") }},
		"unavailable":       {sdk.Action{}, sdk.Stalled("Wrong", sdk.ErrUnavailable), func(r *sdktest.Run) { r.ExpectRetry("Unavailable") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, func(*widget) (sdk.Action, error) { return c.action, c.err })
			c.expect(w.Reconcile(one))
		})
	}
}

func TestIntentsOfFailedRunArePerformed(t *testing.T) {
	w := world(t, func(r *widget) (sdk.Action, error) {
		r.Status.Size = 7
		r.Event(sdk.Warning, "Odd", "something is odd")
		r.Apply(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "made"}})
		return sdk.Action{}, errors.New("no luck")
	})
	w.Reconcile(one).ExpectRetry("Failed").ExpectEvents("Odd").
		ExpectWrites("finalizer", "apply v1 ConfigMap default/made", "status")
}

func TestUnencodableValueStallsRun(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(*widget)
		reason string
	}{
		"status":           {func(r *widget) { r.Status.Bad = zero() / zero() }, "InvalidStatus"},
		"object":           {func(r *widget) { r.Apply(make(chan int)) }, "InvalidObject"},
		"invalid raw JSON": {func(r *widget) { r.Apply(sdk.Raw(`{"kind":`)) }, "InvalidObject"},
		"memo":             {func(r *widget) { r.SetMemo(func() {}) }, "InvalidMemo"},
		"memo of 5 KB":     {func(r *widget) { r.SetMemo(strings.Repeat("x", 5000)) }, "InvalidMemo"},
		"patch":            {func(r *widget) { r.Patch(zero() / zero()) }, "InvalidPatch"},
		"second patch":     {func(r *widget) { r.Patch(map[string]string{"a": "b"}); r.Patch(map[string]string(nil)) }, "InvalidPatch"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, doing(func(r *widget) {
				r.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"half"}}`))
				c.do(r)
			}))
			w.Reconcile(one).ExpectStalled(c.reason)
			w.ExpectGone(configMap.Ref("default", "half"))
		})
	}
}

func zero() float64 { return 0 }

func TestObjectThatDoesNotFitTypesStalls(t *testing.T) {
	for patch, want := range map[string]string{
		`{"spec":{"size":"big"}}`:        "InvalidSpec spec.size: expected an integer, found string",
		`{"spec":{"size":1.5}}`:          "InvalidSpec spec.size: expected an integer, found number 1.5",
		`{"spec":[]}`:                    "InvalidSpec spec: expected an object, found array",
		`{"spec":{"parts":{"a":[]}}}`:    "InvalidSpec spec.parts: expected a string, found array",
		`{"status":{"parts":{"a":"b"}}}`: "InvalidStatus status.parts: expected an array, found object",
	} {
		t.Run(patch, func(t *testing.T) {
			w := world(t, func(*widget) (sdk.Action, error) {
				t.Error("reconcile was called")
				return sdk.Action{}, nil
			})
			w.Change(oneRef, patch)
			run := w.Reconcile(one).ExpectClass(abi.ClassStalled)
			if got := run.Reason + " " + run.Message; got != want {
				t.Errorf("got %q, expected %q", got, want)
			}
		})
	}
}
