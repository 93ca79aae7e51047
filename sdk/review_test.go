package sdk_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// What this file's controller does with a request is set by the tests.

type gateSpec struct {
	Replicas int              `json:"replicas,omitempty"`
	Zone     string           `json:"zone,omitempty"`
	Share    float64          `json:"share,omitempty"`
	Doors    []gateDoor       `json:"doors,omitempty"`
	Guard    *gateDoor        `json:"guard,omitempty"`
	Limits   map[string]int64 `json:"limits,omitempty"`
}

type gateDoor struct {
	Name  string `json:"name,omitempty"`
	Width int    `json:"width,omitempty"`
}

type gateStatus struct {
	Open bool `json:"open,omitempty"`
}

type gate = sdk.Object[gateSpec, gateStatus]

type gateReview func(r *sdk.Review, old, object *gate) error

var (
	gateKind = sdk.Kind{APIVersion: "review.example.com/v1", Kind: "Gate"}

	onValidate, onMutate gateReview
)

func init() {
	sdk.Register(sdk.Controller[gateSpec, gateStatus]{
		Name: "gate", For: gateKind, Reads: []sdk.Kind{configMap},
		Reconcile: func(*sdk.Request[gateSpec, gateStatus]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
		Validate: sdk.Validate(func(r *sdk.Review, old, object *gate) error { return onValidate(r, old, object) },
			sdk.OperationCreate, sdk.OperationUpdate, sdk.OperationDelete),
		Mutate: sdk.Mutate(func(r *sdk.Review, old, object *gate) error { return onMutate(r, old, object) }),
	})
}

const theGate = `{"apiVersion":"review.example.com/v1","kind":"Gate","metadata":{"namespace":"a","name":"one"},"spec":{"replicas":2,"zone":"north"}}`

// gateWorld returns a world whose controller validates and mutates by these functions, nil for
// nothing.
func gateWorld(t *testing.T, validate, mutate gateReview) *sdktest.World {
	t.Helper()
	nothing := func(*sdk.Review, *gate, *gate) error { return nil }
	if onValidate, onMutate = validate, mutate; validate == nil {
		onValidate = nothing
	}
	if mutate == nil {
		onMutate = nothing
	}
	return sdktest.New(t, "gate")
}

func TestManifestHasReviews(t *testing.T) {
	c := webhooks.Of(guest.Find("gate").Manifest)
	want := []sdk.Operation{sdk.OperationCreate, sdk.OperationUpdate, sdk.OperationDelete}
	if !reflect.DeepEqual(c.Validate, want) || !reflect.DeepEqual(c.Mutate, want[:2]) || c.Convert {
		t.Errorf("the manifest has %q, %q, %v", c.Validate, c.Mutate, c.Convert)
	}
}

func TestValidatorGetsBothObjects(t *testing.T) {
	var seen []string
	w := gateWorld(t, func(r *sdk.Review, old, object *gate) error {
		zone := func(o *gate, raw sdk.Raw) string {
			if (o == nil) != (raw == nil) {
				t.Errorf("the object is %v, and its JSON %s", o, raw)
			}
			if o == nil {
				return "-"
			}
			return o.Namespace + "/" + o.Name + " " + o.Spec.Zone
		}
		seen = append(seen, fmt.Sprintf("%s %v %s %q: %s, %s", r.Operation, r.DryRun, r.User.Name, r.User.Groups, zone(old, r.Old()), zone(object, r.Object())))
		return nil
	}, nil)
	w.As("ann", "shops")
	w.ReviewCreate(theGate).ExpectAllowed()
	ref := w.Create(theGate)
	w.DryRun(true)
	w.ReviewUpdate(ref, `{"spec":{"zone":"south"}}`).ExpectAllowed()
	if r := w.ReviewDelete(ref).ExpectAllowed(); r.Object != nil {
		t.Errorf("an object that is deleted becomes %s", r.Object)
	}
	want := []string{
		`CREATE false ann ["shops"]: -, a/one north`,
		`UPDATE true ann ["shops"]: a/one north, a/one south`,
		`DELETE true ann ["shops"]: a/one north, -`,
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("it was given\n%q, expected\n%q", seen, want)
	}
}

func TestErrorOfValidatorDecides(t *testing.T) {
	read := &sdk.ReadError{Verb: "get", What: "x", Err: sdk.ErrNotFound}
	unavailable := &sdk.ReadError{Verb: "get", What: "x", Err: sdk.ErrUnavailable}
	no := errors.New("no")
	for _, c := range []struct {
		name   string
		err    error
		class  abi.Class // of a failed review; none: it denies
		reason string
	}{
		{"plain", no, abi.ClassNone, "Forbidden"},
		{"denied", sdk.Denied("Invalid", no), abi.ClassNone, "Invalid"},
		{"denied, wrapped", fmt.Errorf("spec: %w", sdk.Denied("Invalid", no)), abi.ClassNone, "Invalid"},
		{"denied without reason", sdk.Denied("", no), abi.ClassNone, "Forbidden"},
		{"denied because of a read", sdk.Denied("NoQuota", read), abi.ClassNone, "NoQuota"},
		{"denied without a reply", sdk.Denied("NoQuota", unavailable), abi.ClassRetry, "Unavailable"},
		{"read", read, abi.ClassRetry, "NotFound"},
		{"read, wrapped", fmt.Errorf("quota: %w", read), abi.ClassRetry, "NotFound"},
		{"value that does not fit", &sdk.ReadError{Verb: "get", What: "x", Err: no}, abi.ClassRetry, ""},
		{"unavailable", unavailable, abi.ClassRetry, "Unavailable"},
		{"sentinel alone", sdk.ErrDenied, abi.ClassRetry, "Denied"},
		{"retry", sdk.Retry("Later", no), abi.ClassRetry, "Later"},
		{"stalled", sdk.Stalled("Never", no), abi.ClassStalled, "Never"},
		{"waiting", sdk.Waiting("Soon", 1, no), abi.ClassWaiting, "Soon"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, mutates := range []bool{false, true} {
				review := func(r *sdk.Review, _, object *gate) error {
					r.Warn("careful")
					if mutates {
						object.Spec.Replicas++
					}
					return c.err
				}
				w := gateWorld(t, review, nil)
				if mutates {
					w = gateWorld(t, nil, review)
				}
				r := w.ReviewCreate(theGate)
				if c.class == abi.ClassNone {
					r.ExpectDenied(c.reason, "no").ExpectWarnings("careful")
				} else {
					r.ExpectFailure(c.class, c.reason).ExpectWarnings()
				}
				if r.Allowed || r.Object != nil {
					t.Errorf("it is allowed as %s", r.Object)
				}
			}
		})
	}
}

func TestObjectThatDoesNotFitTypesIsDenied(t *testing.T) {
	w := gateWorld(t, func(*sdk.Review, *gate, *gate) error {
		t.Error("it was called")
		return nil
	}, nil)
	bad := strings.Replace(theGate, `"replicas":2`, `"replicas":"two"`, 1)
	w.ReviewCreate(bad).ExpectDenied("Invalid", "spec.replicas: expected an integer, found string")
	ref := w.Create(bad)
	w.ReviewUpdate(ref, `{"spec":{"replicas":2}}`).ExpectFailure(abi.ClassStalled, "InvalidOld")
	w.ReviewDelete(ref).ExpectFailure(abi.ClassStalled, "InvalidOld")
}

func TestReviewReadsWarnsAndAudits(t *testing.T) {
	w := gateWorld(t, func(r *sdk.Review, _, object *gate) error {
		var quota struct {
			Data map[string]string `json:"data"`
		}
		if err := r.Get(configMap.Ref("", "quota"), &quota); err != nil {
			return err
		}
		var all []sdk.Raw
		if err := r.List(sdk.Query{Kind: configMap}, &all); err != nil {
			return err
		}
		var config struct{ Region string }
		if err := r.Config(&config); err != nil {
			return err
		}
		for i := range 20 {
			r.Warn(fmt.Sprint("warning ", i))
			r.Audit(fmt.Sprint("note-", i), "old")
		}
		r.Audit("note-0", fmt.Sprint(quota.Data["max"], len(all), config.Region, r.Now.Year(), r.Rand() != nil))
		r.Log.Info("reviewed")
		return nil
	}, nil)
	w.Configure(map[string]any{"region": "east"})
	w.ReviewCreate(theGate).ExpectFailure(abi.ClassRetry, "NotFound")
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"quota"},"data":{"max":"5"}}`)
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"b","name":"quota"},"data":{"max":"9"}}`)
	r := w.ReviewCreate(theGate).ExpectAllowed().ExpectLog("reviewed")
	if len(r.Warnings) != webhooks.MaxWarnings || r.Warnings[15] != "warning 15" || len(r.Audit) != webhooks.MaxAuditAnnotations || r.Audit["note-0"] != "51east2026 true" {
		t.Errorf("the warnings are %q, the notes %q", r.Warnings, r.Audit)
	}
	w.FailReads(configMap, abi.CodeUnavailable)
	w.ReviewCreate(theGate).ExpectFailure(abi.ClassRetry, "Unavailable")
}

func TestReviewMayNotLookUp(t *testing.T) {
	for _, call := range []func([]byte, sdktest.Host) (abi.Code, []byte){
		func(q []byte, h sdktest.Host) (abi.Code, []byte) { return guest.Validate(h, q) },
		func(q []byte, h sdktest.Host) (abi.Code, []byte) { return guest.Mutate(h, q) },
	} {
		for request, want := range map[string]string{
			string(webhooks.EncodeReviewRequest(&webhooks.ReviewRequest{Controller: "widget"})): `the plugin does not review for controller "widget"`,
			`{`: "read request: ",
		} {
			code, text := call([]byte(request), nil)
			result, err := webhooks.DecodeValidateResult(text)
			if err != nil || code != abi.CodeRetry || result.Error == nil || !strings.HasPrefix(result.Error.Message, want) {
				t.Errorf("%s: returned %d %s, expected %s", request, code, text, want)
			}
		}
	}
}

// TestMutatorKeepsWhatTypesDoNotHave: only what it changes differs, to the byte.
func TestMutatorKeepsWhatTypesDoNotHave(t *testing.T) {
	const before = `{"apiVersion":"review.example.com/v1", "kind":"Gate", "data":{"n":1.0},
		"metadata":{"namespace":"a","name":"one","generateName":"one-","labels":{"z":"1","a":"2"},"managedFields":[{"fieldsV1":{"f:spec":{}}}]},
		"spec":{"big":9007199254740993,"replicas":2,"zone":"north","guard":{"name":"g","badge":7},
			"doors":[{"name":"front","lock":"\u0041"},{"name":"back","lock":2}],"limits":{"cpu":1,"odd":2},"share":5e-1},"status":{"open":true,"more":null}}`
	for _, c := range []struct {
		name          string
		change        func(*gate)
		before, after string // the part of the object that differs; "" for nothing
	}{
		{"nothing", func(*gate) {}, "", ""},
		{"the same value", func(o *gate) { o.Spec.Replicas = 2 }, "", ""},
		{"number", func(o *gate) { o.Spec.Replicas = 3 }, `"replicas":2`, `"replicas":3`},
		{"removed", func(o *gate) { o.Spec.Zone = "" }, `"zone":"north",`, ``},
		{"element", func(o *gate) { o.Spec.Doors[1].Width = 5 }, `{"name":"back","lock":2}`, `{"name":"back","lock":2,"width":5}`},
		{"element before", func(o *gate) { o.Spec.Doors = append([]gateDoor{{Name: "side"}}, o.Spec.Doors...) }, `[{"name":"front"`, `[{"name":"side"},{"name":"front"`},
		{"element removed", func(o *gate) { o.Spec.Doors = o.Spec.Doors[1:] }, `{"name":"front","lock":"\u0041"},`, ``},
		{"elements swapped", func(o *gate) {
			o.Spec.Doors[0], o.Spec.Doors[1] = o.Spec.Doors[1], o.Spec.Doors[0]
		}, `{"name":"front","lock":"\u0041"},{"name":"back","lock":2}`, `{"name":"back","lock":2},{"name":"front","lock":"\u0041"}`},
		{"elements swapped and changed", func(o *gate) {
			o.Spec.Doors = []gateDoor{{Name: "back", Width: 1}, {Name: "front", Width: 2}}
		}, `{"name":"front","lock":"\u0041"},{"name":"back","lock":2}`, `{"name":"back","lock":2,"width":1},{"name":"front","lock":"\u0041","width":2}`},
		{"element replaced", func(o *gate) { o.Spec.Doors[0] = gateDoor{Name: "roof"} }, `{"name":"front","lock":"\u0041"}`, `{"name":"roof"}`},
		{"inner object", func(o *gate) { o.Spec.Guard.Name = "h" }, `{"name":"g","badge":7}`, `{"name":"h","badge":7}`},
		{"inner object removed", func(o *gate) { o.Spec.Guard = nil }, `"guard":{"name":"g","badge":7},`, ``},
		{"map", func(o *gate) { o.Spec.Limits["cpu"]++ }, `"cpu":1,`, `"cpu":2,`},
		{"label", func(o *gate) { o.SetLabel("z", "3") }, `"z":"1"`, `"z":"3"`},
		{"annotation", func(o *gate) { o.SetAnnotation("k", "v") }, `"managedFields":[{"fieldsV1":{"f:spec":{}}}]`, `"managedFields":[{"fieldsV1":{"f:spec":{}}}],"annotations":{"k":"v"}`},
		{"finalizer", func(o *gate) { o.Finalizers = []string{"a/b"} }, `"managedFields":[{"fieldsV1":{"f:spec":{}}}]`, `"managedFields":[{"fieldsV1":{"f:spec":{}}}],"finalizers":["a/b"]`},
		{"status", func(o *gate) { o.Status.Open = false }, `"open":true,`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			mutated := mutate(t, before, c.change)
			if c.before == "" {
				if mutated != nil {
					t.Errorf("it has become %s", mutated)
				}
				return
			}
			want := compact(strings.Replace(before, c.before, c.after, 1))
			if want == compact(before) || compact(string(mutated)) != want {
				t.Errorf("it has become\n%s, expected\n%s", mutated, want)
			}
		})
	}
}

// compact removes the white space between the values of this file, whose texts have none.
func compact(text string) string {
	return strings.NewReplacer("\n", "", "\t", "", `", "`, `","`).Replace(text)
}

// mutate returns the object of the result of the export mutate, nil if there is none.
func mutate(t *testing.T, object string, change func(*gate)) []byte {
	t.Helper()
	gateWorld(t, nil, func(_ *sdk.Review, _, o *gate) error {
		change(o)
		return nil
	})
	q := &webhooks.ReviewRequest{Controller: "gate", Operation: sdk.OperationCreate, Object: []byte(object)}
	code, text := guest.Mutate(nil, webhooks.EncodeReviewRequest(q))
	result, err := webhooks.DecodeMutateResult(text)
	if err != nil || code != abi.CodeOK || !result.Allowed {
		t.Fatalf("returned %d %s, %v", code, text, err)
	}
	return result.Object
}

func TestMutatorFillsSparseObjects(t *testing.T) {
	fill := func(o *gate) {
		o.SetLabel("a", "b")
		o.Spec.Replicas, o.Spec.Guard = 1, &gateDoor{Name: "g"}
		o.Spec.Doors = []gateDoor{{Name: "d"}}
		o.Status.Open = true
	}
	const filled = `"spec":{"replicas":1,"doors":[{"name":"d"}],"guard":{"name":"g"}},"status":{"open":true}}`
	for object, want := range map[string]string{
		`{}`: `{"metadata":{"labels":{"a":"b"}},` + filled,
		`{"spec":null,"metadata":null,"status":null}`:                         `{"spec":{"replicas":1,"doors":[{"name":"d"}],"guard":{"name":"g"}},"metadata":{"labels":{"a":"b"}},"status":{"open":true}}`,
		`{"metadata":{"labels":null},"spec":{"replicas":0,"doors":[],"x":1}}`: `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":1,"doors":[{"name":"d"}],"x":1,"guard":{"name":"g"}},"status":{"open":true}}`,
		`{"metadata":{},"spec":{"guard":null}}`:                               `{"metadata":{"labels":{"a":"b"}},"spec":{"guard":{"name":"g"},"replicas":1,"doors":[{"name":"d"}]},"status":{"open":true}}`,
	} {
		if got := string(mutate(t, object, fill)); got != want {
			t.Errorf("%s has become\n%s, expected\n%s", object, got, want)
		}
	}
}

func TestMutatorSeesOldObjectAndValidatorSeesMutatedOne(t *testing.T) {
	w := gateWorld(t, func(_ *sdk.Review, old, object *gate) error {
		if object != nil && object.Spec.Zone == "" {
			return errors.New("no zone")
		}
		return nil
	}, func(_ *sdk.Review, old, object *gate) error {
		if object.Spec.Zone == "" && old != nil {
			object.Spec.Zone = old.Spec.Zone
			old.Spec.Zone = "changed in vain"
		}
		return nil
	})
	ref := w.Create(theGate)
	w.ReviewUpdate(ref, `{"spec":{"zone":null}}`).ExpectAllowed().ExpectObject(`{"spec":{"zone":"north","replicas":2}}`)
	w.ReviewCreate(strings.Replace(theGate, "north", "", 1)).ExpectDenied("Forbidden", "no zone")
	w.ReviewDelete(ref).ExpectAllowed() // mutate has no DELETE
}

func TestMutatorMayNotChangeIdentity(t *testing.T) {
	for name, change := range map[string]func(*gate){
		"name":      func(o *gate) { o.Name = "two" },
		"namespace": func(o *gate) { o.Namespace = "b" },
		"uid":       func(o *gate) { o.UID = "new" },
	} {
		w := gateWorld(t, nil, func(_ *sdk.Review, _, o *gate) error {
			change(o)
			return nil
		})
		if r := w.ReviewCreate(theGate).ExpectFailure(abi.ClassABI, "InvalidResult"); !strings.HasPrefix(r.Message, "object.metadata."+name+": is ") {
			t.Errorf("the message is %s", r.Message)
		}
	}
}

func TestMutatorThatCannotBeEncodedFails(t *testing.T) {
	w := gateWorld(t, nil, func(_ *sdk.Review, _, o *gate) error {
		o.Spec.Share = math.NaN()
		return nil
	})
	w.ReviewCreate(theGate).ExpectFailure(abi.ClassStalled, "InvalidObject")
}

func TestNilFunctionIsRefused(t *testing.T) {
	for _, f := range []func(){
		func() { sdk.Validate[gateSpec, gateStatus](nil) },
		func() { sdk.Mutate[gateSpec, gateStatus](nil) },
		func() { sdk.Version[gateSpec, gateStatus, gateSpec, gateStatus]("v2", nil, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a nil function is accepted")
				}
			}()
			f()
		}()
	}
}

func TestDeniedInRunIsRetried(t *testing.T) {
	w := probing(t, func(*probeStep, *probeState) error { return sdk.Denied("Invalid", errors.New("no")) })
	w.Step("a/one").ExpectFailure(abi.ClassRetry, "Invalid")
}
