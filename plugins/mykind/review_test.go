package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thole-dev/thole/plugins/mykind/info"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// object returns a MyKind of version 2 with that spec.
func object(spec string) string {
	return `{"apiVersion":"example.thole.dev/v2","kind":"MyKind","metadata":{"namespace":"default","name":"new"},"spec":` + spec + `}`
}

func TestDefaultAndLabelAreSet(t *testing.T) {
	w := sdktest.New(t)
	label := func(spec string) string {
		r := w.ReviewCreate(object(spec)).ExpectAllowed()
		var got info.MyKind
		meta := struct {
			Metadata *sdk.ObjectMeta `json:"metadata"`
			Spec     *info.Spec      `json:"spec"`
		}{&got.ObjectMeta, &got.Spec}
		if err := json.Unmarshal(r.Object, &meta); err != nil {
			t.Fatal(err)
		}
		if want := "everyone"; !strings.Contains(spec, "audience") && got.Spec.Audience != want {
			t.Errorf("%s: the audience is %q, want %q", spec, got.Spec.Audience, want)
		}
		return got.Labels[info.HashLabel]
	}
	one := label(`{"info":{"some":"a","other":"b"}}`)
	if same := label(`{"info":{"other":"b","some":"a"},"audience":"team"}`); same != one || one == "" {
		t.Errorf("the labels of the same information are %q and %q", one, same)
	}
	if other := label(`{"info":{"some":"ab","other":"-"}}`); other == one {
		t.Errorf("other information has the same label %q", other)
	}
}

func TestInvalidObjectsAreDenied(t *testing.T) {
	w := sdktest.New(t)
	for spec, want := range map[string]string{
		`{}`:                     "spec.info.some is empty",
		`{"info":{"other":"b"}}`: "spec.info.some is empty",
		`{"info":{"some":1}}`:    "spec.info.some",
		`{"info":{"some":"` + strings.Repeat("x", 1001) + `"}}`: "1000 bytes each",
	} {
		if r := w.ReviewCreate(object(spec)); r.Allowed || !strings.Contains(r.Message, want) || r.Reason != "Invalid" {
			t.Errorf("%.80s: allowed %t, %s: %s", spec, r.Allowed, r.Reason, r.Message)
		}
	}
	if r := w.ReviewCreate(object(`{"info":{"some":"a"}}`)); !r.Allowed || len(r.Warnings) != 1 {
		t.Errorf("without the other information: %+v", r)
	}
}

func TestAudienceCannotBeChanged(t *testing.T) {
	w, _ := newWorld(t)
	w.Change(one, `{"spec":{"audience":"team"}}`)
	w.ReviewUpdate(one, `{"spec":{"info":{"some":"bye"}}}`).ExpectAllowed()
	if r := w.ReviewUpdate(one, `{"spec":{"audience":"all"}}`); r.Allowed || !strings.Contains(r.Message, "spec.audience cannot be changed") {
		t.Errorf("allowed: %t, %s", r.Allowed, r.Message)
	}
}

// TestObjectFromBeforeTheReviewsCanBeChanged: it has no audience, and nothing else that is required.
func TestObjectFromBeforeTheReviewsCanBeChanged(t *testing.T) {
	w := sdktest.New(t)
	old := w.Create(object(`{"info":{"other":"b"}}`))
	w.ReviewUpdate(old, `{"metadata":{"finalizers":["mykind.thole.dev/mykind"],"deletionTimestamp":"2026-01-01T00:00:00Z"}}`).ExpectAllowed()
	w.ReviewUpdate(old, `{"spec":{"info":{"some":"a"}}}`).ExpectAllowed()
	if r := w.ReviewUpdate(old, `{"spec":{"info":{"other":"c"}}}`); r.Allowed {
		t.Error("information is allowed that is not complete")
	}
}

// TestConversionLosesNothing in either direction, of the fields that the types have.
func TestConversionLosesNothing(t *testing.T) {
	w := sdktest.New(t)
	sdktest.RoundTrip[info.V1Spec, info.Status](w, "v1", "v2")
	sdktest.RoundTrip[info.Spec, info.Status](w, "v2", "v1")
}

// FuzzConversion expects the same of any values.
func FuzzConversion(f *testing.F) {
	f.Add("hello", "world", "team", "note", int64(3))
	f.Add("", "", "", "", int64(0))
	f.Fuzz(func(t *testing.T, some, other, audience, note string, applied int64) {
		w := sdktest.New(t)
		annotations := map[string]string{"example.thole.dev/audience": audience, "note": note}
		for _, o := range []map[string]any{
			{
				"apiVersion": "example.thole.dev/v2", "spec": map[string]any{"info": map[string]string{"some": some, "other": other}, "audience": audience},
				"metadata": map[string]any{"name": "one", "namespace": "default", "uid": "u", "annotations": map[string]string{"note": note}},
			},
			{
				"apiVersion": "example.thole.dev/v1", "spec": map[string]string{"someInfo": some, "otherInfo": other},
				"metadata": map[string]any{"name": "one", "namespace": "default", "uid": "u", "annotations": annotations},
			},
		} {
			o["kind"], o["status"] = "MyKind", map[string]any{"lastAppliedGeneration": applied, "observedGeneration": applied, "conditions": []any{map[string]string{"type": "Ready", "message": note}}}
			by := "v1"
			if o["apiVersion"] == "example.thole.dev/v1" {
				by = "v2"
			}
			w.RoundTrip(o, by)
		}
	})
}
