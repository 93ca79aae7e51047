package effect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestFieldsAreReleasedWhenAResultNoLongerNamesTheObject(t *testing.T) {
	for name, restart := range map[string]bool{"in one process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			p := w.sharers("one", "two")
			w.create(configMap, `{"metadata":{"name":"c"},"data":{"theirs":"1"}}`)
			w.succeed(p[0], data("one=1", "same=x"))
			w.succeed(p[1], data("two=2", "same=x"))
			if restart {
				w.start()
				w.FindShared(p[0].Controller)
			}
			w.intents(p[0], &abi.Result{}) // not followed by Release: the run failed
			w.expectData("one=1", "same=x", "theirs=1", "two=2")
			w.succeed(p[0], &abi.Result{})
			w.expectData("same=x", "theirs=1", "two=2")
			w.succeed(p[1], &abi.Result{})
			w.expectData("theirs=1")
			if got := w.live(configMap, "c"); len(got.Annotations) != 0 || len(w.managers()) != 0 {
				t.Errorf("left %v %v", got.Annotations, w.managers())
			}
			w.wire.take()
			w.succeed(p[0], &abi.Result{})
			w.expectSent()
		})
	}
}

// Several releases of one cleanup are several writes.
func TestReleasesAndHandoversObeyTheLimitOfWrites(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	both := &abi.Result{}
	for _, name := range []string{"c", "d"} {
		w.create(configMap, `{"metadata":{"name":"`+name+`"}}`)
		both.Apply = append(both.Apply, abi.Apply{Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"1"}}`)})
	}
	w.succeed(p[0], both)
	w.formerApply(p[1], data("b=1"))
	w.seen(configMap, "c")
	w.writes = rate.NewLimiter(rate.Every(time.Hour), 1)
	w.writes.Allow()
	w.wire.take()
	if _, failure := w.Release(t.Context(), p[0], true); failure == nil || failure.Later == 0 {
		t.Errorf("the release is not postponed: %+v", failure)
	}
	if _, failure := w.PerformIntents(t.Context(), p[1], data("b=2")); failure == nil || failure.Later == 0 {
		t.Errorf("the handover is not postponed: %+v", failure)
	}
	for _, r := range w.wire.take() {
		if r.method != "GET" {
			t.Errorf("sent %s %s", r.method, r.path)
		}
	}
}

// A plugin may return only what has to change. What it has created is not
// emptied then, and is not left as an empty object when the primary goes.
func TestWhatOnlyItsCreatorAppliesIsNotReleased(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	w.succeed(p[0], data("one=1"))
	w.edit(configMap, "c", "", `{"metadata":{"labels":{"theirs":"1"}},"data":{"theirs":"1"}}`)
	w.seen(configMap, "c")
	w.wire.take()
	w.succeed(p[0], &abi.Result{})
	w.expectSent()
	w.start()
	w.FindShared(p[0].Controller)
	w.succeed(p[0], &abi.Result{})
	w.expectSent()
	w.expectData("one=1", "theirs=1")

	// As soon as another primary shares it, it is like any other.
	w.succeed(p[1], data("two=2"))
	w.succeed(p[0], &abi.Result{})
	w.expectData("theirs=1", "two=2")
}

func TestFieldsAreReleasedWhenThePrimaryGoes(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two", "three")
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	for i, target := range p {
		w.succeed(target, data(fmt.Sprintf("k%d=1", i)))
	}
	w.releases(w.Release(t.Context(), p[0], true)) // by its cleanup
	w.expectData("k1=1", "k2=1")

	// A primary that the cache does not have, but the API server, is not gone.
	key := p[1].Object.Key()
	w.releases(w.ReleaseGone(t.Context(), p[1].Controller, key))
	w.expectData("k1=1", "k2=1")
	w.remove(widget, "two")
	w.releases(w.ReleaseGone(t.Context(), p[1].Controller, key))
	w.expectData("k2=1")

	// It went while the host was down.
	w.remove(widget, "three")
	w.seen(configMap, "c")
	w.start()
	for _, key := range w.FindShared(p[2].Controller) {
		w.releases(w.ReleaseGone(t.Context(), p[2].Controller, key))
	}
	w.expectData()
	w.wire.take()
	w.releases(w.ReleaseGone(t.Context(), p[2].Controller, p[2].Object.Key()))
	w.expectSent()
}

func TestARecreatedPrimaryGoesOnWithItsFields(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	w.succeed(p, data("a=1", "b=1"))
	before := w.managers()
	w.remove(widget, "one")
	w.Forget(object.HashOf(string(p.Object.UID)))
	p = w.sharers("one")[0]
	w.succeed(p, data("a=1"))
	w.expectData("a=1")
	if got := w.managers(); !slices.Equal(got, before) {
		t.Errorf("managers %q, before %q", got, before)
	}
}

func TestReleaseChangesNoOtherObject(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	shared := func() {
		w.create(configMap, `{"metadata":{"name":"c"}}`)
		w.seen(configMap, "c")
		w.succeed(p, data("a=1"))
		w.intents(p, &abi.Result{})
		w.wire.take()
	}
	release := func() { w.releases(w.Release(t.Context(), p, true)) }

	shared() // it is deleted before the release
	w.remove(configMap, "c")
	release()
	if w.live(configMap, "c") != nil {
		t.Fatal("created again")
	}

	for name, replace := range map[string]func(){
		"deleted": func() { w.remove(configMap, "c") },
		"replaced": func() {
			w.remove(configMap, "c")
			w.create(configMap, `{"metadata":{"name":"c"},"data":{"a":"theirs"}}`)
		},
	} {
		shared() // it is deleted or replaced between the read and the write of the release
		w.wire.before = func(request) { w.wire.before = func(request) { replace() } }
		release()
		got := w.live(configMap, "c")
		if name == "deleted" && got != nil {
			t.Fatal("created again")
		}
		if name == "replaced" {
			w.expectData("a=theirs")
			if len(got.Annotations) != 0 {
				t.Errorf("annotated %v", got.Annotations)
			}
			w.remove(configMap, "c")
		}
		w.seen(configMap, "c")
	}

	shared() // another controller owns it now
	other := w.create(widget, `{"metadata":{"name":"other"}}`)
	w.edit(configMap, "c", "", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"other","uid":%q,"controller":true}]}}`, other.UID))
	release()
	w.expectData("a=1")
}

// The server refuses a Service without ports. A primary that has set the only
// one can go nevertheless.
func TestFieldsThatAnObjectRequiresStay(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	for i := range p {
		p[i].Controller.Writes = []abi.Kind{service.Kind}
	}
	w.intents(p[0], apply(serviceObject))
	w.intents(p[1], apply(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"svc","labels":{"two":"2"}}}`))
	w.releases(w.Release(t.Context(), p[0], true))
	got := w.live(service, "svc")
	if field(got, "spec", "ports") == "" || got.Labels["two"] != "2" || sharers(got.Annotations) != 1 {
		t.Fatalf("got %s", got.Raw)
	}
	w.releases(w.Release(t.Context(), p[1], true))
	if got := w.live(service, "svc"); got.Labels["two"] != "" {
		t.Errorf("got %s", got.Raw)
	}
}
