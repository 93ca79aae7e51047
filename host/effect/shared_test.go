package effect

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// sharers creates primaries whose controller writes ConfigMaps without owning
// them.
func (w *world) sharers(names ...string) (all []Target) {
	w.Helper()
	for _, name := range names {
		o := w.create(widget, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		w.store.put(o)
		all = append(all, Target{Controller: controller(nil, list(configMap)), Object: o})
	}
	return all
}

// data is an apply of these entries to ConfigMap c.
func data(entries ...string) *abi.Result {
	values := map[string]string{}
	for _, e := range entries {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	text, _ := json.Marshal(values)
	return apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":%s}`, text)
}

// succeed performs a result of a run that reached the desired state, and updates
// the store.
func (w *world) succeed(t Target, in *abi.Result) []Write {
	w.Helper()
	report := w.intents(t, in)
	released := w.releases(w.Release(w.Context(), t, false))
	w.seen(configMap, "c")
	return slices.Concat(report.Writes, released.Writes)
}

func (w *world) releases(report Report, failure *Failure) Report {
	w.Helper()
	if failure != nil {
		w.Fatalf("%+v", failure)
	}
	return report
}

// expectData checks the entries of ConfigMap c.
func (w *world) expectData(want ...string) {
	w.Helper()
	var values map[string]string
	if text := field(w.live(configMap, "c"), "data"); text != "" {
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			w.Fatal(err)
		}
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		got = append(got, name+"="+values[name])
	}
	if !slices.Equal(got, want) {
		w.Fatalf("data is %v, want %v", got, want)
	}
}

// managers returns the managers of ConfigMap c that apply fields, sorted.
func (w *world) managers() (all []string) {
	w.Helper()
	meta, err := w.admin.metadata(w.Context(), configMap, w.key(configMap, "c"))
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range meta.ManagedFields {
		if e.Operation == metav1.ManagedFieldsOperationApply {
			all = append(all, e.Manager)
		}
	}
	slices.Sort(all)
	return all
}

func TestTwoPrimariesKeepTheirFieldsOfOneObject(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	for range 2 {
		w.succeed(p[0], data("one=1", "same=x"))
		w.succeed(p[1], data("two=2", "same=x"))
	}
	w.expectData("one=1", "same=x", "two=2")
	if got := w.managers(); len(got) != 2 || !strings.HasPrefix(got[0], "thole/demo/main/") {
		t.Errorf("managers %q", got)
	}
	w.succeed(p[1], data("two=3"))
	w.expectData("one=1", "same=x", "two=3")
}

func TestSharersWriteNothingAfterARestart(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	w.succeed(p[0], data("one=1"))
	w.succeed(p[1], data("two=2"))
	w.start()
	if got := w.FindShared(p[0].Controller); len(got) != 2 {
		t.Errorf("found %v", got)
	}
	w.wire.take()
	for range 2 {
		if n := len(w.succeed(p[0], data("one=1"))) + len(w.succeed(p[1], data("two=2"))); n != 0 {
			t.Errorf("%d writes", n)
		}
	}
	for _, r := range w.wire.take() {
		if r.method != http.MethodGet {
			t.Errorf("sent %s", r)
		}
	}
}

func TestTheThirtyThirdSharerIsRefused(t *testing.T) {
	w := newCluster(t)
	var p []Target
	for i := range maxSharers + 1 {
		p = append(p, w.sharers(fmt.Sprintf("p%d", i))...)
	}
	last := p[maxSharers]
	var stale *object.Object
	for i, target := range p[:maxSharers] {
		w.succeed(target, data(fmt.Sprintf("k%d=1", i)))
		if i == 0 {
			stale = w.seen(configMap, "c")
		}
	}
	before := w.live(configMap, "c").ResourceVersion
	for _, have := range []*object.Object{w.live(configMap, "c"), stale} {
		w.store.put(have)
		_, failure := w.PerformIntents(t.Context(), last, data("last=1"))
		if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonTooManySharers ||
			failure.Ref.Name != "c" || !strings.Contains(failure.Message, "32") {
			t.Fatalf("got %+v", failure)
		}
	}
	if got := w.live(configMap, "c").ResourceVersion; got != before {
		t.Error("the object was changed")
	}
	// Those that share it go on, and another may follow when one has gone.
	w.succeed(p[0], data("k0=2"))
	w.succeed(p[1], &abi.Result{})
	w.succeed(last, data("last=1"))
	if got := w.live(configMap, "c"); sharers(got.Annotations) != maxSharers {
		t.Errorf("%d sharers", sharers(got.Annotations))
	}
}

// Others that come between the read and the write are counted, too.
func TestJoiningIsOfTheVersionThatWasRead(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.store.put(w.create(configMap, `{"metadata":{"name":"c"}}`))
	meanwhile := func(patch string) {
		w.wire.before = func(request) {
			w.wire.before = func(request) { w.edit(configMap, "c", "", patch) }
		}
	}
	others := map[string]string{}
	for i := range maxSharers {
		others[w.sharedAnnotation(p.Controller, object.Key{Namespace: "x", Name: fmt.Sprint(i)})] = "d x/" + fmt.Sprint(i)
	}
	text, _ := json.Marshal(others)
	meanwhile(fmt.Sprintf(`{"metadata":{"annotations":%s}}`, text))
	if _, failure := w.PerformIntents(t.Context(), p, data("one=1")); failure == nil || failure.Reason != reasonTooManySharers {
		t.Fatalf("got %+v", failure)
	}
	w.edit(configMap, "c", "", `{"metadata":{"annotations":null}}`)
	meanwhile(`{"data":{"x":"1"}}`)
	w.succeed(p, data("one=1"))
	w.expectData("one=1", "x=1")
}

func TestAFieldConflictNamesTheOtherPrimary(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	w.succeed(p[0], data("k=1"))
	_, failure := w.PerformIntents(t.Context(), p[1], data("k=2"))
	if failure == nil || failure.Reason != reasonFieldConflict || failure.Conflict || !strings.Contains(failure.Message, "(the primary "+w.ns+"/one): .data.k") {
		t.Fatalf("got %+v", failure)
	}
	w.expectData("k=1")
	w.succeed(p[0], &abi.Result{}) // nobody else shares it, it stays
	w.expectData("k=1")
}

// A guest may return the shared object as it has read it. The host's annotations
// in it are those of all sharers.
func TestAnnotationsOfOtherSharersAreNotApplied(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	w.succeed(p[0], data("one=1"))
	w.succeed(p[1], &abi.Result{Apply: []abi.Apply{{Object: w.live(configMap, "c").Raw}}})
	w.succeed(p[0], data("one=1", "more=1")) // has another digest
	w.succeed(p[0], data("one=1"))
	w.expectData("one=1")
}

func TestNamesOfSharersFitTheirLimits(t *testing.T) {
	long := strings.Repeat("p", 63)
	p := &Performer{Config: Config{Planner: Planner{Plugin: long}}}
	seen := map[string]bool{}
	for _, name := range []string{strings.Repeat("c", 63), strings.Repeat("c", 62) + "d", "c"} {
		for _, primary := range []object.Key{{Name: "a"}, {Namespace: "a", Name: "a"}, {Namespace: "a", Name: strings.Repeat("x", 253)}} {
			c := &abi.Controller{Name: name}
			manager, annotation := p.sharedManager(c, primary), p.sharedAnnotation(c, primary)
			domain, rest, _ := strings.Cut(annotation, "/")
			if len(manager) > maxManager || len(domain) > 253 || len(rest) > 63 || seen[manager] || seen[annotation] {
				t.Errorf("%s %s", manager, annotation)
			}
			seen[manager], seen[annotation] = true, true
			if n := (note{"d", primary.String(), true}); readNote(n.String()) != n || n.key() != primary {
				t.Errorf("%q is read as %+v", n, readNote(n.String()))
			}
			if !abi.ReservedAnnotation(annotation) || sharers(map[string]string{annotation: "", AppliedAnnotation: "", p.formerAnnotation(c): ""}) != 1 {
				t.Errorf("%s is not counted once", annotation)
			}
		}
	}
	for _, foreign := range []string{"example.dev/applied", "thole.dev/applies", "xthole.dev/applied", "applied"} {
		if abi.ReservedAnnotation(foreign) {
			t.Errorf("%s is taken for the host's", foreign)
		}
	}
}

func TestForgedAnnotationsFindNoPrimary(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {})
	target.Controller = controller(nil, list(configMap))
	annotation := w.sharedAnnotation(target.Controller, target.Object.Key())
	for i, value := range []string{"", "x", "d default/other", "d default/../w", "d default/w/x created"} {
		w.store.put(parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"c%d","annotations":{%q:%q}}}`, i, annotation, value)))
	}
	if got := w.FindShared(target.Controller); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	w.store.put(parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"c","annotations":{%q:"d default/w"}}}`, annotation)))
	if got := w.FindShared(target.Controller); !slices.Equal(got, []object.Key{target.Object.Key()}) {
		t.Errorf("found %v", got)
	}
}

// A reply that is lost may belong to a write that took place.
func TestAnApplyWithoutAReplyIsReleased(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.store.put(w.create(configMap, `{"metadata":{"name":"c"}}`))
	w.wire.loses = func(q request) bool { return q.method == http.MethodPatch }
	if _, failure := w.PerformIntents(t.Context(), p, data("one=1")); failure == nil {
		t.Fatal("no failure")
	}
	w.wire.loses = nil
	w.expectData("one=1")
	w.succeed(p, &abi.Result{})
	w.expectData()
}

func TestReleasedFieldsAreAppliedAgainWhileTheCacheIsBehind(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.create(configMap, `{"metadata":{"name":"c"},"data":{"theirs":"1"}}`)
	in := data("one=1", "theirs=1")
	w.succeed(p, in)
	stale := w.live(configMap, "c")
	w.succeed(p, &abi.Result{})
	w.store.put(stale)
	w.intents(p, in)
	w.expectData("one=1", "theirs=1")

	w.seen(configMap, "c")
	w.releases(w.Release(t.Context(), p, true)) // the removal of the finalizer fails then
	w.intents(p, in)
	w.expectData("one=1", "theirs=1")
}

func TestAPrimaryThatGoesIsNotWrittenForItsOwnFields(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	p.Controller.Writes = []abi.Kind{widget.Kind}
	w.intents(p, apply(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"one","labels":{"x":"1"}}}`))
	w.wire.take()
	w.releases(w.Release(t.Context(), p, true))
	w.expectSent()
}

// Primaries that share an object do not make each other fail, whether the object exists and whether
// the cache has seen what the others have written.
func TestPrimariesThatShareAnObjectWriteOneAfterTheOther(t *testing.T) {
	for name, lease := range map[string]Lease{"alone": nil, "with a Lease": &testLease{refuse: new(atomic.Bool)}} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, func(c *Config) { c.Lease = lease })
			if w.live(configMap, "c") != nil {
				w.remove(configMap, "c")
			}
			var names []string
			for i := range 24 {
				names = append(names, fmt.Sprint("s", i))
			}
			primaries := w.sharers(names...)
			for _, value := range []string{"1", "2"} {
				var all sync.WaitGroup
				for i, p := range primaries {
					all.Go(func() {
						if _, failure := w.PerformIntents(t.Context(), p, data(names[i]+"="+value)); failure != nil {
							t.Errorf("%s: %v", names[i], failure)
						}
					})
				}
				all.Wait()
				w.seen(configMap, "c")
			}
			if have := w.live(configMap, "c"); sharers(have.Annotations) != 24 || strings.Count(field(have, "data"), `:"2"`) != 24 {
				t.Errorf("the object is %s", have.Raw)
			}
		})
	}
}

// TestAShareWithoutRoomForItsAnnotation is remembered until the host ends: a primary whose annotation
// does not fit the object applies and releases its fields like others.
func TestAShareWithoutRoomForItsAnnotation(t *testing.T) {
	const limit = 256 << 10
	filled := func(n int) string { return strings.Repeat("a", n) }
	expectTold := func(w *world, want int) {
		t.Helper()
		told := 0
		for _, e := range w.recorder.events {
			if strings.Contains(e, reasonNotAnnotated) && strings.Contains(e, "is not released") {
				told++
			}
		}
		if told != want {
			t.Errorf("it was told %d times, want %d: %q", told, want, w.recorder.events)
		}
	}
	expectAnnotations := func(w *world, want int) {
		t.Helper()
		if have := w.live(configMap, "c"); have == nil || sharers(have.Annotations) != want {
			t.Errorf("want %d annotations of sharers: %v", want, have)
		}
	}

	t.Run("somebody else's object", func(t *testing.T) {
		w := newCluster(t)
		all := w.sharers("a", "b")
		w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","annotations":{"mine":%q}},"data":{"x":"0"}}`, filled(limit-100)))
		w.seen(configMap, "c")
		for i, primary := range all {
			w.succeed(primary, data(fmt.Sprintf("k%d=1", i)))
		}
		w.expectData("k0=1", "k1=1", "x=0")
		expectAnnotations(w, 0)
		expectTold(w, 2)
		w.wire.take()
		w.succeed(all[0], data("k0=1"))
		w.expectSent()
		w.succeed(all[0], data("k0=2"))
		w.expectData("k0=2", "k1=1", "x=0")
		w.succeed(all[0], &abi.Result{})
		w.expectData("k1=1", "x=0")

		w.start() // without what is remembered
		w.succeed(all[1], data("k1=1"))
		w.wire.take()
		w.succeed(all[1], data("k1=1"))
		w.expectSent()
		w.succeed(all[1], &abi.Result{})
		w.expectData("x=0")

		w.succeed(all[1], data("k1=1"))
		w.edit(configMap, "c", "", `{"metadata":{"annotations":{"mine":null}}}`)
		w.seen(configMap, "c")
		w.succeed(all[1], data("k1=2"))
		expectAnnotations(w, 1)
	})

	// What the plugin makes is the plugin's to delete.
	full := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","annotations":{"mine":%q}},"data":{"k":"1"}}`, filled(limit-100))
	t.Run("an object that the primary creates", func(t *testing.T) {
		w := newCluster(t)
		primary := w.sharers("a")[0]
		w.succeed(primary, full)
		expectAnnotations(w, 0)
		w.succeed(primary, &abi.Result{})
		w.expectData("k=1")
	})
	t.Run("an object that is only created", func(t *testing.T) {
		w := newCluster(t)
		primary := w.sharers("a")[0]
		w.succeed(primary, creating(full))
		expectAnnotations(w, 0)
		for range 2 {
			w.edit(configMap, "c", "", `{"data":{"x":"2"}}`)
			w.seen(configMap, "c")
			w.succeed(primary, creating(full))
			w.start()
		}
		_, failure := w.PerformIntents(t.Context(), w.sharers("b")[0], creating(full))
		if failure == nil || failure.Reason != reasonAlreadyExists {
			t.Errorf("another primary's object: %+v", failure)
		}
		w.expectData("k=1", "x=2")
	})
}
