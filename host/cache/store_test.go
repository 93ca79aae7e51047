package cache

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/host/object"
)

// world is the plain model of a store, and what its events add up to.
type world struct {
	store   *store
	version int
	objects map[object.Key]*object.Object // what must be there
	told    map[object.Key]*object.Object // what a handler has heard of
}

func (w *world) make(t *rapid.T) *object.Object {
	w.version++
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	raw := fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":"%d"}}`,
		pick("namespace", "a", "b"), pick("name", "x", "y", "z"), pick("uid", "u", "v"), w.version)
	o, err := object.Parse([]byte(raw), widget)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (w *world) put(t *rapid.T) {
	o := w.make(t)
	w.objects[o.Key()] = o
	if err := w.store.Update(o); err != nil {
		t.Fatal(err)
	}
}

func (w *world) remove(t *rapid.T) {
	o := w.make(t)
	delete(w.objects, o.Key())
	if err := w.store.Delete(o); err != nil {
		t.Fatal(err)
	}
}

func (w *world) replace(t *rapid.T) {
	next := map[object.Key]*object.Object{}
	for key, o := range w.objects {
		if rapid.Bool().Draw(t, "stays") {
			next[key] = o
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "new") {
		o := w.make(t)
		next[o.Key()] = o
	}
	w.objects = next
	var list []any
	for _, o := range next {
		list = append(list, o)
	}
	if err := w.store.Replace(list, fmt.Sprint(w.version)); err != nil {
		t.Fatal(err)
	}
}

// hear applies the events that wait, each of which must fit what was heard
// before.
func (w *world) hear(t *rapid.T) {
	for _, b := range w.store.feed.take() {
		for _, e := range b.events {
			key := e.Object().Key()
			if before := w.told[key]; e.Old != before {
				t.Fatalf("event %s tells of another state before it", describe(e))
			}
			if e.Old != nil && e.New != nil && e.Old.UID != e.New.UID {
				t.Fatalf("event %s changes the uid", describe(e))
			}
			w.told[key] = e.New
			if e.New == nil {
				delete(w.told, key)
			}
		}
	}
}

func (w *world) check(t *rapid.T) {
	w.hear(t)
	sorted := slices.SortedFunc(maps.Values(w.objects), byKey)
	if got := w.store.list("", nil); !slices.Equal(got, sorted) {
		t.Fatalf("list: got %s, want %s", names(got), names(sorted))
	}
	if !maps.Equal(w.told, w.objects) {
		t.Fatalf("told %d objects, there are %d", len(w.told), len(w.objects))
	}
	size := 0
	for _, o := range sorted {
		size += len(o.Raw)
		if w.store.get(o.Key()) != o {
			t.Fatalf("get %s", o.Key())
		}
	}
	if n, bytes := w.store.size(); n != len(sorted) || bytes != size {
		t.Fatalf("size: got %d and %d, want %d and %d", n, bytes, len(sorted), size)
	}
}

// TestStoreHoldsAndTellsTheSame compares the store with a plain map, and with
// what its events add up to, over random changes.
func TestStoreHoldsAndTellsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{store: newStore(), objects: map[object.Key]*object.Object{}, told: map[object.Key]*object.Object{}}
		w.store.subscribe(&handler{event: func(Event) {}})
		t.Repeat(map[string]func(*rapid.T){
			"put":     w.put,
			"remove":  w.remove,
			"replace": w.replace,
			"list":    func(*rapid.T) { w.store.list("a", nil) },
			"clear":   func(*rapid.T) { w.store.clear(); clear(w.objects) },
			"":        w.check,
		})
	})
}

func TestUnchangedObjectsOfARelistAreNotKeptTwice(t *testing.T) {
	s := newStore()
	parse := func() *object.Object {
		o, err := object.Parse([]byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}`), widget)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	first := parse()
	for _, o := range []*object.Object{first, parse()} {
		if err := s.Replace([]any{o}, "1"); err != nil {
			t.Fatal(err)
		}
	}
	if s.get(first.Key()) != first {
		t.Error("the second copy replaced the first")
	}
}
