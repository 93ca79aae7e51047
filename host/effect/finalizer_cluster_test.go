package effect

import (
	"fmt"
	"slices"
	"testing"
)

const ours = "demo.thole.dev/main"

func TestFinalizerIsAddedOnce(t *testing.T) {
	w := newCluster(t)
	for _, given := range []string{``, `,"finalizers":["other.dev/x"]`} {
		o := w.create(widget, fmt.Sprintf(`{"metadata":{"generateName":"w-"%s}}`, given))
		target := Target{controller(nil, nil), o}
		if w.HasFinalizer(target) {
			t.Fatal("has it already")
		}
		reply, wrote, failure := w.EnsureFinalizer(t.Context(), target)
		if failure != nil || !wrote || reply.ResourceVersion != w.live(widget, o.Name).ResourceVersion {
			t.Fatalf("got %v %v %v", reply, wrote, failure)
		}
		if want := append(slices.Clip(o.Finalizers), ours); !slices.Equal(reply.Finalizers, want) {
			t.Errorf("finalizers are %v, want %v", reply.Finalizers, want)
		}
		sent := w.expectSent("PATCH /apis/test.thole.dev/v1/namespaces/" + w.ns + "/widgets/" + o.Name + "?fieldManager=thole%2Fdemo%2Fmain")
		if sent[0].contentType != jsonPatch {
			t.Errorf("sent %+v", sent[0])
		}
		target.Object = reply
		if again, wrote, failure := w.EnsureFinalizer(t.Context(), target); again != reply || wrote || failure != nil {
			t.Errorf("got %v %v %v", again, wrote, failure)
		}
		w.expectSent()
	}
}

func TestFinalizerRaces(t *testing.T) {
	w := newCluster(t)
	target := Target{controller(nil, nil), w.create(widget, `{"metadata":{"name":"w"}}`)}
	w.wire.before = func(request) { w.edit(widget, "w", "", `{"metadata":{"finalizers":["other.dev/x"]}}`) }
	reply, wrote, failure := w.EnsureFinalizer(t.Context(), target)
	if failure != nil || !wrote || !slices.Equal(reply.Finalizers, []string{"other.dev/x", ours}) {
		t.Fatalf("got %v %v %v", reply, wrote, failure)
	}

	// Removal beside somebody else's removal.
	target.Object = reply
	w.wire.before = func(request) { w.edit(widget, "w", "", `{"metadata":{"finalizers":["third.dev/y","`+ours+`"]}}`) }
	reply, failure = w.RemoveFinalizer(t.Context(), target)
	if failure != nil || !slices.Equal(reply.Finalizers, []string{"third.dev/y"}) {
		t.Fatalf("got %v %v", reply, failure)
	}
	target.Object = reply
	w.wire.take()
	if again, failure := w.RemoveFinalizer(t.Context(), target); again != reply || failure != nil {
		t.Errorf("got %v %v", again, failure)
	}
	w.expectSent()
}

func TestFinalizerLetsTheObjectGo(t *testing.T) {
	w := newCluster(t)
	target := Target{controller(nil, nil), w.create(widget, `{"metadata":{"name":"w","finalizers":["other.dev/x","`+ours+`"]}}`)}
	stale := target.Object
	w.remove(widget, "w")
	target.Object = w.edit(widget, "w", "", `{"metadata":{"finalizers":["`+ours+`"]}}`)

	reply, failure := w.RemoveFinalizer(t.Context(), target)
	if reply != nil || failure != nil || w.live(widget, "w") != nil {
		t.Fatalf("got %v %v", reply, failure)
	}
	// Gone already, and another object of the name: nothing to do.
	target.Object = stale
	if reply, failure = w.RemoveFinalizer(t.Context(), target); reply != nil || failure != nil {
		t.Fatalf("got %v %v", reply, failure)
	}
	w.create(widget, `{"metadata":{"name":"w","finalizers":["other.dev/x","`+ours+`"]}}`)
	if reply, failure = w.RemoveFinalizer(t.Context(), target); reply != nil || failure != nil {
		t.Fatalf("got %v %v", reply, failure)
	}
	if got := w.live(widget, "w"); !slices.Contains(got.Finalizers, ours) {
		t.Errorf("touched the successor: %v", got.Finalizers)
	}
	w.edit(widget, "w", "", `{"metadata":{"finalizers":null}}`)
}

func TestFinalizerOfAnObjectThatGoes(t *testing.T) {
	w := newCluster(t)
	for name, meanwhile := range map[string]func(name string){
		"deleting": func(name string) { w.remove(widget, name) },
		"gone": func(name string) {
			w.edit(widget, name, "", `{"metadata":{"finalizers":null}}`)
			w.remove(widget, name)
		},
		"replaced": func(name string) {
			w.edit(widget, name, "", `{"metadata":{"finalizers":null}}`)
			w.remove(widget, name)
			w.create(widget, `{"metadata":{"name":"`+name+`"}}`)
		},
	} {
		target := Target{controller(nil, nil), w.create(widget, `{"metadata":{"name":"`+name+`","finalizers":["other.dev/x"]}}`)}
		meanwhile(name)
		_, wrote, failure := w.EnsureFinalizer(t.Context(), target)
		if failure == nil || !failure.Conflict || wrote || failure.Verb != "finalizer" {
			t.Errorf("%s: got %v %+v", name, wrote, failure)
		}
	}
	w.edit(widget, "deleting", "", `{"metadata":{"finalizers":null}}`)
}
