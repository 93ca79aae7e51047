package effect

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"

	"k8s.io/apimachinery/pkg/types"
)

func TestApplyCreatesAnOwnedChild(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod), nil)

	report := w.intents(target, apply(podObject, "web:1"))

	path := "/api/v1/namespaces/" + w.ns + "/pods/web"
	sent := w.expectSent("PATCH " + path + "?fieldManager=thole%2Fdemo%2Fmain")
	if sent[0].contentType != string(types.ApplyPatchType) || sent[0].agent != "thole/1.2.3 plugin/demo" {
		t.Errorf("sent %+v", sent[0])
	}
	child := w.seen(pod, "web")
	if owner := child.Controller(); owner == nil || owner.UID != target.Object.UID || !*owner.BlockOwnerDeletion {
		t.Errorf("owner is %v", owner)
	}
	if len(report.Writes) != 1 || report.Writes[0].ResourceVersion != child.ResourceVersion || report.Writes[0].Verb != "apply" {
		t.Errorf("reported %+v, the child is at %s", report.Writes, child.ResourceVersion)
	}

	// The server stores the quantity 1000m as 1, which is no difference.
	w.intents(target, apply(podObject, "web:1"))
	w.expectSent()
}

// A guest may return an object as it has read it, with a change.
func TestApplyAcceptsAnObjectAsItWasRead(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod), nil)
	w.intents(target, apply(podObject, "web:1"))
	read := w.seen(pod, "web")
	text := strings.Replace(string(read.Raw), `"image":"web:1"`, `"image":"web:2"`, 1)
	w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: []byte(text)}}})
	got := w.seen(pod, "web")
	if got.UID != read.UID || !strings.Contains(field(got, "spec", "containers"), `"web:2"`) || len(got.OwnerReferences) != 1 {
		t.Errorf("got %s", got.Raw)
	}
	// An object that is returned without a change changes nothing.
	w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: got.Raw}}})
	w.seen(pod, "web")
	w.wire.take()
	w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: w.seen(pod, "web").Raw}}})
	w.expectSent()
}

func TestApplyOfAnUncachedKindReadsTheObjectFirst(t *testing.T) {
	w := newCluster(t)
	w.store.unsynced = map[abi.Kind]bool{configMap.Kind: true}
	target := w.owner(list(configMap), nil)
	path := "/api/v1/namespaces/" + w.ns + "/configmaps/c"
	w.intents(target, apply(configObject, "1"))
	w.expectSent("GET "+path, "PATCH "+path+"?fieldManager=thole%2Fdemo%2Fmain")
	w.intents(target, apply(configObject, "1"))
	w.expectSent("GET " + path)
}

func TestApplyFollowsTheIntent(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"x":"1"}},"data":{"a":"1","b":"1"}}`))
	w.seen(configMap, "c")

	// A field that the intent no longer has is removed.
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	got := w.seen(configMap, "c")
	if got.Labels["x"] != "" || field(got, "data") != `{"b":"1"}` {
		t.Errorf("got %s", got.Raw)
	}

	// A change of a wanted field by another manager is undone; a field that the
	// intent does not have stays.
	w.edit(configMap, "c", "", `{"data":{"b":"2","theirs":"1"}}`)
	w.seen(configMap, "c")
	w.wire.take()
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	if got := w.seen(configMap, "c"); field(got, "data", "b") != `"1"` || field(got, "data", "theirs") != `"1"` {
		t.Errorf("got %s", got.Raw)
	}
	w.expectSent("PATCH /api/v1/namespaces/" + w.ns + "/configmaps/c?fieldManager=thole%2Fdemo%2Fmain&force=true")

	// A change that does not concern the intent needs no request.
	w.edit(configMap, "c", "", `{"data":{"theirs":"2"}}`)
	w.seen(configMap, "c")
	w.wire.take()
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	w.expectSent()

	// A deleted child is created again.
	w.remove(configMap, "c")
	w.seen(configMap, "c")
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	if w.live(configMap, "c") == nil {
		t.Error("the child was not created again")
	}
}

func TestApplyNeverChangesAnotherObjectOfTheSameName(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	w.seen(configMap, "c")

	w.remove(configMap, "c")
	_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v2"))
	if failure == nil || !failure.Conflict {
		t.Errorf("deleted: got %+v", failure)
	}
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	_, failure = w.PerformIntents(t.Context(), target, apply(configObject, "v2"))
	if failure == nil || !failure.Conflict {
		t.Errorf("replaced: got %+v", failure)
	}
	if got := w.live(configMap, "c"); field(got, "data") != "" || got.Controller() != nil {
		t.Errorf("changed %s", got.Raw)
	}
}

func TestTwoControllersCanApplyFieldsOfOneObject(t *testing.T) {
	w := newCluster(t)
	one := w.owner(nil, list(configMap))
	two := Target{Controller: controller(nil, list(configMap)), Object: one.Object}
	two.Controller.Name = "other"
	a := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"one":"1"}}`)
	b := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"two":"2"}}`)
	for range 3 {
		w.intents(one, a)
		w.seen(configMap, "c")
		w.intents(two, b)
		w.seen(configMap, "c")
	}
	got := w.live(configMap, "c")
	if field(got, "data") != `{"one":"1","two":"2"}` || len(got.OwnerReferences) != 0 {
		t.Errorf("got %s", got.Raw)
	}
	w.wire.take()
	w.start()
	w.intents(one, a)
	w.intents(two, b)
	for _, r := range w.wire.take() {
		if r.method != "GET" {
			t.Errorf("after a restart sent %s", r)
		}
	}
}

func TestApplyOfThePrimaryAddsNoOwnerReference(t *testing.T) {
	w, target := newFake(t, respond(200, "application/json", primary))
	w.store.put(target.Object)
	target.Controller = controller(list(widget), list(widget))
	w.intents(target, apply(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","labels":{"x":"1"}}}`))
	sent := w.wire.take()
	if len(sent) != 2 || strings.Contains(sent[1].body, "ownerReferences") || !strings.Contains(sent[1].body, "main.demo.thole.dev/applied-") {
		t.Errorf("sent %+v", sent)
	}
}
