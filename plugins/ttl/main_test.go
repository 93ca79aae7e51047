package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const (
	preview = "default/preview"
	deleted = "delete v1 ConfigMap default/preview"
)

var configMap = kinds[0].Ref("default", "preview")

// newWorld returns a world with one ConfigMap with an annotation.
func newWorld(t *testing.T, annotation, value string) *sdktest.World {
	t.Helper()
	w := sdktest.New(t, "configmap")
	w.Create(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "default", "name": "preview", "annotations": map[string]string{annotation: value}},
		"data":     map[string]string{"a": "b"},
	})
	return w
}

func annotate(w *sdktest.World, annotation string, value any) {
	w.Change(configMap, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
}

func TestObjectIsDeletedAfterItsTimeToLive(t *testing.T) {
	w := newWorld(t, afterAnnotation, "36h")
	var object struct{ Metadata sdk.ObjectMeta }
	w.Get(configMap, &object)
	w.Advance(time.Hour)

	w.Reconcile(preview).ExpectSuccess().ExpectNoWrites().ExpectEvents().ExpectNext(35 * time.Hour)

	w.Advance(35*time.Hour - time.Second)
	w.Reconcile(preview).ExpectSuccess().ExpectNoWrites().ExpectNext(time.Second)

	w.Advance(time.Second)
	run := w.Reconcile(preview).ExpectSuccess().ExpectWrites(deleted).ExpectEvents("Expired").ExpectNext(0)
	if run.Result.Delete[0].UID != object.Metadata.UID {
		t.Error("the deletion has no UID and could delete a later object of that name")
	}
	if want := "deleted: its time to live ended at 2026-01-02T12:00:00Z"; run.Result.Events[0].Message != want {
		t.Errorf("the message of the event is %q, expected %q", run.Result.Events[0].Message, want)
	}
	w.ExpectGone(configMap)
}

func TestObjectIsDeletedAtGivenTime(t *testing.T) {
	w := newWorld(t, atAnnotation, "2026-01-01T03:00:00+01:00")

	w.Reconcile(preview).ExpectSuccess().ExpectNoWrites().ExpectNext(2 * time.Hour)

	w.Advance(3 * time.Hour) // the host was not running
	w.Reconcile(preview).ExpectSuccess().ExpectWrites(deleted)
	w.ExpectGone(configMap)
}

func TestObjectWithoutAnnotationIsIgnored(t *testing.T) {
	w := newWorld(t, "example.com/note", "36h")
	w.Advance(1000 * day)

	run := w.Reconcile(preview).ExpectEmpty().ExpectNoWrites().ExpectNext(0)

	if len(run.Result.Events)+len(run.Logs) > 0 {
		t.Error("events or log lines about an object without the annotation")
	}
}

func TestChangedAnnotationChangesTime(t *testing.T) {
	w := newWorld(t, afterAnnotation, "1h")
	w.Reconcile(preview).ExpectNext(time.Hour)

	annotate(w, afterAnnotation, "2h")
	w.Reconcile(preview).ExpectSuccess().ExpectNoWrites().ExpectNext(2 * time.Hour)

	annotate(w, afterAnnotation, nil)
	w.Reconcile(preview).ExpectEmpty().ExpectNext(0)

	w.Advance(3 * time.Hour)
	annotate(w, afterAnnotation, "90m")
	w.Reconcile(preview).ExpectSuccess().ExpectWrites(deleted)
}

func TestFailedDeletionIsRetried(t *testing.T) {
	w := newWorld(t, afterAnnotation, "1h")
	w.Advance(time.Hour)
	w.FailWrite(deleted, "Forbidden")

	w.Reconcile(preview).ExpectRetry("Forbidden").ExpectNoWrites()

	w.FailWrite(deleted, "")
	w.Reconcile(preview).ExpectSuccess().ExpectWrites(deleted)
}

func TestInvalidAnnotationStallsObject(t *testing.T) {
	const durations = `: expected a duration of more than 0 such as 90m, 36h, 7d or 1d12h`
	const times = `: expected a time in RFC 3339 such as 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00`
	for _, c := range []struct{ annotation, value, forms string }{
		{afterAnnotation, "tomorrow", durations},
		{afterAnnotation, "", durations},
		{afterAnnotation, "-1h", durations},
		{afterAnnotation, "12", durations},
		{atAnnotation, "2026-01-01", times},
		{atAnnotation, "36h", times},
	} {
		w := newWorld(t, c.annotation, c.value)
		w.Advance(1000 * day)

		run := w.Reconcile(preview).ExpectStalled("InvalidTTL").ExpectNoWrites().ExpectNext(0)

		if want := "annotation " + c.annotation + ` is "` + c.value + `"` + c.forms; run.Message != want {
			t.Errorf("the message is %q, expected %q", run.Message, want)
		}
		annotate(w, c.annotation, nil)
		annotate(w, afterAnnotation, "2000d")
		w.Reconcile(preview).ExpectSuccess()
	}
}

func TestBothAnnotationsAreRefused(t *testing.T) {
	w := newWorld(t, afterAnnotation, "1s")
	annotate(w, atAnnotation, "2026-01-01T00:00:01Z")
	w.Advance(day)
	w.Reconcile(preview).ExpectStalled("InvalidTTL").ExpectNoWrites()
}

func TestDistantTimeIsCheckedOnceAYear(t *testing.T) {
	for annotation, value := range map[string]string{
		afterAnnotation: "106751d",
		atAnnotation:    "9999-12-31T23:59:59Z",
	} {
		w := newWorld(t, annotation, value)
		for range 3 {
			w.Reconcile(preview).ExpectSuccess().ExpectNoWrites().ExpectNext(365 * day)
			w.Advance(365 * day)
		}
	}
}

func TestDurationMayHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"36h": 36 * time.Hour, "7d": 7 * day, "1d12h30m": day + 12*time.Hour + 30*time.Minute, "0d1ms": time.Millisecond,
		"1.5h": 90 * time.Minute, "106751d": 106751 * day, "2562047h47m16.854775807s": math.MaxInt64,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("%q is %s, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "d", "1", "0d", "0h", "1.5d", "-1d", "+1d", "1d-1h", "1d+1h", "1d 1h", "1h1d", "1d1d", "1w",
		"106752d", "213504d", "4294967295d", "4294967296d", "106751d24h", "106751d2562047h", "2562048h",
	} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("%q is accepted as %s", text, got)
		}
	}
}

func TestEveryKindHasAController(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.Kind, func(t *testing.T) {
			w := sdktest.New(t, strings.ToLower(kind.Kind))
			meta := sdk.ObjectMeta{Namespace: "default", Name: "old", Annotations: map[string]string{afterAnnotation: "1h"}}
			name := "default/old"
			if kind.Kind == "Namespace" {
				meta.Namespace, name = "", "old"
			}
			ref := w.Create(map[string]any{
				"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": meta,
				"spec": map[string]any{"x": []int{1}}, "status": map[string]any{"conditions": []any{}},
			})
			w.Reconcile(name).ExpectSuccess().ExpectNoWrites().ExpectNext(time.Hour)
			w.Advance(time.Hour)
			w.Reconcile(name).ExpectSuccess().ExpectClass(abi.ClassNone)
			w.ExpectGone(ref)
		})
	}
}
