package effect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
)

const ours = "demo.thole.dev/main"

func TestFinalizerIsAddedOnce(t *testing.T) {
	w := newCluster(t)
	for _, given := range []string{``, `,"finalizers":["other.dev/x"]`} {
		o := w.create(widget, fmt.Sprintf(`{"metadata":{"generateName":"w-"%s}}`, given))
		target := Target{Controller: controller(nil, nil), Object: o}
		if w.HasFinalizer(target) {
			t.Fatal("the object has the finalizer already")
		}
		report, failure := w.EnsureFinalizer(t.Context(), target)
		reply := report.Primary
		if failure != nil || len(report.Writes) != 1 || reply.ResourceVersion != w.live(widget, o.Name).ResourceVersion {
			t.Fatalf("got %+v %v", report, failure)
		}
		if got := report.Writes[0]; got.Verb != "finalizer" || got.Kind != widget.Kind || got.Key != o.Key() || got.UID != o.UID ||
			got.Object != reply || got.ResourceVersion != reply.ResourceVersion {
			t.Errorf("reported %+v", got)
		}
		if want := append(slices.Clip(o.Finalizers), ours); !slices.Equal(reply.Finalizers, want) {
			t.Errorf("finalizers are %v, want %v", reply.Finalizers, want)
		}
		sent := w.expectSent("PATCH /apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/" + o.Name + "?fieldManager=thole%2Fdemo%2Fmain")
		if sent[0].contentType != string(types.JSONPatchType) {
			t.Errorf("sent %+v", sent[0])
		}
		target.Object = reply
		if again, failure := w.EnsureFinalizer(t.Context(), target); again.Primary != nil || len(again.Writes) != 0 || failure != nil {
			t.Errorf("got %+v %v", again, failure)
		}
		w.expectSent()
	}
}

func TestFinalizerEditsKeepConcurrentChanges(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"w"}}`)}
	w.wire.before = func(request) { w.edit(widget, "w", "", `{"metadata":{"finalizers":["other.dev/x"]}}`) }
	report, failure := w.EnsureFinalizer(t.Context(), target)
	if failure != nil || len(report.Writes) != 1 || !slices.Equal(report.Primary.Finalizers, []string{"other.dev/x", ours}) {
		t.Fatalf("got %+v %v", report, failure)
	}

	target.Object = report.Primary
	w.wire.before = func(request) { w.edit(widget, "w", "", `{"metadata":{"finalizers":["third.dev/y","`+ours+`"]}}`) }
	report, failure = w.RemoveFinalizer(t.Context(), target)
	if failure != nil || len(report.Writes) != 1 || !slices.Equal(report.Primary.Finalizers, []string{"third.dev/y"}) {
		t.Fatalf("got %+v %v", report, failure)
	}
	target.Object = report.Primary
	w.wire.take()
	if again, failure := w.RemoveFinalizer(t.Context(), target); again.Primary != nil || len(again.Writes) != 0 || failure != nil {
		t.Errorf("got %+v %v", again, failure)
	}
	w.expectSent()
}

func TestRemoveFinalizerDeletesTheObjectAndSparesItsSuccessor(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"w","finalizers":["other.dev/x","`+ours+`"]}}`)}
	stale := target.Object
	w.remove(widget, "w")
	target.Object = w.edit(widget, "w", "", `{"metadata":{"finalizers":["`+ours+`"]}}`)

	report, failure := w.RemoveFinalizer(t.Context(), target)
	if report.Primary != nil || failure != nil || w.live(widget, "w") != nil {
		t.Fatalf("got %+v %v", report, failure)
	}
	if len(report.Writes) != 1 || !report.Writes[0].Gone() || report.Writes[0].Key != stale.Key() || report.Writes[0].UID != stale.UID {
		t.Errorf("reported %+v", report.Writes)
	}
	nothing := func(report Report, failure *Failure) {
		t.Helper()
		if report.Primary != nil || len(report.Writes) != 0 || failure != nil {
			t.Fatalf("got %+v %v", report, failure)
		}
	}
	target.Object = stale
	nothing(w.RemoveFinalizer(t.Context(), target))
	w.create(widget, `{"metadata":{"name":"w","finalizers":["other.dev/x","`+ours+`"]}}`)
	nothing(w.RemoveFinalizer(t.Context(), target))
	if got := w.live(widget, "w"); !slices.Contains(got.Finalizers, ours) {
		t.Errorf("another object of the name was changed: %v", got.Finalizers)
	}
	w.edit(widget, "w", "", `{"metadata":{"finalizers":null}}`)
}

func TestEnsureFinalizerOfADeletedObjectIsAConflict(t *testing.T) {
	w := newCluster(t)
	for name, meanwhile := range map[string]func(name string){
		"deleting": func(name string) { w.remove(widget, name) },
		"deleted": func(name string) {
			w.edit(widget, name, "", `{"metadata":{"finalizers":null}}`)
			w.remove(widget, name)
		},
		"replaced": func(name string) {
			w.edit(widget, name, "", `{"metadata":{"finalizers":null}}`)
			w.remove(widget, name)
			w.create(widget, `{"metadata":{"name":"`+name+`"}}`)
		},
	} {
		target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"`+name+`","finalizers":["other.dev/x"]}}`)}
		meanwhile(name)
		report, failure := w.EnsureFinalizer(t.Context(), target)
		if failure == nil || !failure.Conflict || len(report.Writes) != 0 || failure.Verb != "finalizer" {
			t.Errorf("%s: got %+v %+v", name, report, failure)
		}
	}
	w.edit(widget, "deleting", "", `{"metadata":{"finalizers":null}}`)
}

// TestRefusalIsNotTakenForAChange has an admission webhook that refuses every patch
// while somebody else changes the object all the time.
func TestRefusalIsNotTakenForAChange(t *testing.T) {
	versions, forbidden := 5, false
	w, target := newFake(t, func(rw http.ResponseWriter, r *http.Request) {
		switch versions++; {
		case r.Method == http.MethodPatch:
			respondStatus(422, "Invalid", "the webhook refuses it", "")(rw, r)
		case forbidden:
			respondStatus(403, "Forbidden", "no right to get", "")(rw, r)
		default:
			respond(200, "application/json", strings.Replace(primary, `"resourceVersion":"5"`, fmt.Sprintf(`"resourceVersion":"%d"`, versions), 1))(rw, r)
		}
	})
	patch := func() *Failure {
		_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"size":1}}`)})
		return failure
	}
	for name, write := range map[string]func() *Failure{
		"finalizer": func() *Failure { _, failure := w.EnsureFinalizer(t.Context(), target); return failure },
		"patch":     patch,
		"patch of an object that may not be read": func() *Failure { forbidden = true; defer func() { forbidden = false }(); return patch() },
	} {
		failure := write()
		if failure == nil || failure.Reason != "Invalid" || failure.Conflict || !strings.Contains(failure.Message, "the webhook refuses it") {
			t.Errorf("%s: got %+v", name, failure)
		}
		patches := 0
		for _, r := range w.wire.take() {
			if r.method == http.MethodPatch {
				patches++
			}
		}
		if patches != 1 {
			t.Errorf("%s: %d patches were sent", name, patches)
		}
	}
}
