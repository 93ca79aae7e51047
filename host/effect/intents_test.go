package effect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestPatchOfThePrimaryIsSentOnceAndNeverToASuccessor(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	in := &abi.Result{Patch: []byte(`{"metadata":{"labels":{"x":"1"}},"spec":{"size":5,"unknown":1}}`)}
	report := w.intents(target, in)
	path := "PATCH /apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/w?fieldManager=thole%2Fdemo%2Fmain"
	w.expectSent(path)
	if o := report.Primary; o == nil || o.Labels["x"] != "1" || field(o, "spec") != `{"size":5}` || len(report.Writes) != 1 {
		t.Fatalf("got %+v", report)
	}
	// A patch of which the server dropped a field is not sent again.
	target.Object = report.Primary
	if report = w.intents(target, in); report.Primary != nil || len(report.Writes) != 0 {
		t.Errorf("got %+v", report)
	}
	w.expectSent()
	target.Object = w.edit(widget, "w", "", `{"spec":{"size":6}}`)
	w.intents(target, in)
	w.expectSent(path)

	_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"size":101}}`)})
	if failure == nil || failure.Verb != "patch" || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "spec.size") || failure.Conflict {
		t.Errorf("got %+v", failure)
	}
	w.remove(widget, "w")
	_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"size":9}}`)})
	if failure == nil || !failure.Conflict {
		t.Errorf("deleted: got %+v", failure)
	}
	w.create(widget, `{"metadata":{"name":"w"}}`)
	_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"size":9}}`)})
	if failure == nil || !failure.Conflict || field(w.live(widget, "w"), "spec", "size") != "" {
		t.Errorf("replaced: got %+v", failure)
	}
}

func remove(uid string) *abi.Result {
	return &abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: uid}}}}
}

func TestDeleteRemovesAChildOnce(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	child := w.seen(configMap, "c")
	w.wire.take()

	report := w.intents(target, remove(""))
	path := "/api/v1/namespaces/" + w.ns + "/configmaps/c"
	sent := w.expectSent("DELETE " + path)
	want := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + string(child.UID) + `"},"propagationPolicy":"Background"}` + "\n"
	if sent[0].body != want || w.live(configMap, "c") != nil {
		t.Errorf("sent %s", sent[0].body)
	}
	if len(report.Writes) != 1 || report.Writes[0].Verb != "delete" || report.Writes[0].Key.Name != "c" {
		t.Errorf("reported %+v", report.Writes)
	}
	// A delete of what does not exist sends nothing, after a restart one read.
	w.seen(configMap, "c")
	w.intents(target, remove(""))
	w.expectSent()
	w.start()
	for range 2 {
		w.intents(target, remove(""))
	}
	w.expectSent("GET " + path)
}

func TestDeleteDoesNotWaitForFinalizers(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	w.create(configMap, `{"metadata":{"name":"c","finalizers":["other.dev/x"]}}`)
	w.seen(configMap, "c")
	report := w.intents(target, remove(""))
	if got := w.seen(configMap, "c"); !got.Deleting() || len(report.Writes) != 1 || report.Writes[0].ResourceVersion != got.ResourceVersion {
		t.Errorf("reported %+v, the object is %s", report.Writes, got.Raw)
	}
	w.wire.take()
	w.intents(target, remove(""))
	w.expectSent()
	w.edit(configMap, "c", "", `{"metadata":{"finalizers":null}}`)
}

func TestDeleteRemovesOnlyTheObjectThatWasDecidedOn(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	old := w.create(configMap, `{"metadata":{"name":"c"}}`)
	w.seen(configMap, "c")
	w.remove(configMap, "c")
	w.create(configMap, `{"metadata":{"name":"c"}}`)

	_, failure := w.PerformIntents(t.Context(), target, remove(""))
	if failure == nil || !failure.Conflict {
		t.Fatalf("got %+v", failure)
	}
	// A delete that names the UID of the deleted object succeeds.
	w.intents(target, remove(string(old.UID)))
	w.seen(configMap, "c")
	w.intents(target, remove(string(old.UID)))
	if w.live(configMap, "c") == nil {
		t.Error("another object of the name was deleted")
	}
	w.intents(target, remove(string(w.live(configMap, "c").UID)))
	if w.live(configMap, "c") != nil {
		t.Error("not deleted")
	}
}

func TestDeleteOfAnUncontrolledObjectIsDenied(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	_, failure := w.PerformIntents(t.Context(), target, remove(""))
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonNotControlled || !strings.Contains(failure.Message, "list the kind in Writes") {
		t.Errorf("got %+v", failure)
	}
	if w.live(configMap, "c") == nil {
		t.Error("deleted")
	}
}

func TestDeleteOfThePrimaryIsAllowedByWrites(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(widget))
	w.intents(target, &abi.Result{Delete: []abi.Delete{{Ref: target.Object.Ref()}}})
	if w.live(widget, "w") != nil {
		t.Error("not deleted")
	}
}

func TestEventsOfConsecutiveRunsAreEmittedOnce(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {})
	a := abi.Event{Type: "Normal", Reason: "A", Message: "m"}
	b := abi.Event{Type: "Warning", Reason: "B", Message: "m"}
	for _, events := range [][]abi.Event{{a, a}, {a, b}, {a, b}, nil, {b}} {
		w.intents(target, &abi.Result{Events: events})
	}
	if want := []string{"Normal A m", "Warning B m", "Warning B m"}; !slices.Equal(w.recorder.events, want) {
		t.Errorf("got %q, want %q", w.recorder.events, want)
	}

	w.recorder.events = nil
	for _, e := range []*abi.Event{&a, &a, &b, &b, nil, &b} {
		w.EmitEvent(target, e)
	}
	if want := []string{"Normal A m", "Warning B m", "Warning B m"}; !slices.Equal(w.recorder.events, want) {
		t.Errorf("got %q, want %q", w.recorder.events, want)
	}

	// A failed effect emits no Event, and keeps those of the run before.
	w.recorder.events = nil
	_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Apply: apply(serviceObject).Apply, Events: []abi.Event{a}})
	if failure == nil || len(w.recorder.events) != 0 {
		t.Errorf("got %v, emitted %q", failure, w.recorder.events)
	}
}

// TestDeleteGoesToTheNameThatWasChecked has a server that returns an object of
// another name than it was asked for, as an aggregated API server could.
func TestDeleteGoesToTheNameThatWasChecked(t *testing.T) {
	w, target := newFake(t, respond(200, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","uid":"u2",
		"name":"../../../../api/v1/namespaces/kube-system/secrets/s",
		"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}]}}`))
	w.store.unsynced = map[abi.Kind]bool{configMap.Kind: true}
	if _, failure := w.PerformIntents(t.Context(), target, remove("")); failure != nil {
		t.Fatal(failure)
	}
	const path = "/api/v1/namespaces/default/configmaps/c"
	if got := fmt.Sprint(w.wire.take()); strings.Count(got, " "+path) != 2 || !strings.Contains(got, "DELETE "+path) {
		t.Errorf("requests: %s", got)
	}
}
