package cache

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/object"
)

// model is a store beside a plain map with the same objects, and a map that is
// updated by the events of the store.
type model struct {
	store   *store
	version int
	objects map[object.Key]*object.Object // that the store must have
	applied map[object.Key]*object.Object // according to the events
}

func (m *model) make(t *rapid.T) *object.Object {
	m.version++
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	raw := fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":"%d"}}`,
		pick("namespace", "a", "b"), pick("name", "x", "y", "z"), pick("uid", "u", "v"), m.version)
	o, err := object.Parse([]byte(raw), widget)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (m *model) put(t *rapid.T) {
	o := m.make(t)
	m.objects[o.Key()] = o
	if err := m.store.Update(o); err != nil {
		t.Fatal(err)
	}
}

func (m *model) remove(t *rapid.T) {
	o := m.make(t)
	delete(m.objects, o.Key())
	if err := m.store.Delete(o); err != nil {
		t.Fatal(err)
	}
}

func (m *model) replace(t *rapid.T) {
	next := map[object.Key]*object.Object{}
	for key, o := range m.objects {
		if rapid.Bool().Draw(t, "stays") {
			next[key] = o
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "new") {
		o := m.make(t)
		next[o.Key()] = o
	}
	m.objects = next
	var list []any
	for _, o := range next {
		list = append(list, o)
	}
	if err := m.store.Replace(list, fmt.Sprint(m.version)); err != nil {
		t.Fatal(err)
	}
}

// apply applies the queued events, each of which must fit the ones before.
func (m *model) apply(t *rapid.T) {
	for _, b := range m.store.feed.take() {
		for _, c := range b.changes {
			e := c.event()
			key := e.Object().Key()
			if before := m.applied[key]; e.Old != before {
				t.Fatalf("event %s has another Old than the event before it", describe(e))
			}
			if e.Old != nil && e.New != nil && e.Old.UID != e.New.UID {
				t.Fatalf("event %s changes the uid", describe(e))
			}
			m.applied[key] = e.New
			if e.New == nil {
				delete(m.applied, key)
			}
		}
	}
}

func (m *model) check(t *rapid.T) {
	m.apply(t)
	sorted := slices.SortedFunc(maps.Values(m.objects), objects.Compare)
	if got, _ := m.store.list(objects.Query{}, time.Now()); !slices.Equal(got, sorted) {
		t.Fatalf("list: got %s, want %s", names(got), names(sorted))
	}
	if !maps.Equal(m.applied, m.objects) {
		t.Fatalf("the events add up to %d objects, there are %d", len(m.applied), len(m.objects))
	}
	size := 0
	for _, o := range sorted {
		size += len(o.Raw)
		if m.store.get(o.Key()) != o {
			t.Fatalf("get %s", o.Key())
		}
	}
	if n, bytes := m.store.size(); n != len(sorted) || bytes != size {
		t.Fatalf("size: got %d and %d, want %d and %d", n, bytes, len(sorted), size)
	}
}

// TestStoreAndItsEventsAgree compares the store with a plain map and with the sum
// of its events after random changes.
func TestStoreAndItsEventsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{store: newStore(), objects: map[object.Key]*object.Object{}, applied: map[object.Key]*object.Object{}}
		m.store.subscribe(&handler{event: func(Event) {}})
		t.Repeat(map[string]func(*rapid.T){
			"put":     m.put,
			"remove":  m.remove,
			"replace": m.replace,
			"list":    func(*rapid.T) { m.store.list(objects.Query{Namespace: "a"}, time.Now()) },
			"clear":   func(*rapid.T) { m.store.clear(); clear(m.objects) },
			"":        m.check,
		})
	})
}

func TestRelistKeepsUnchangedObjects(t *testing.T) {
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

// A server may put an older resourceVersion into the event of a deletion.
func TestAReachedVersionStaysReached(t *testing.T) {
	s := newStore()
	for _, version := range []string{"4", "7", "3"} {
		s.UpdateResourceVersion(version)
	}
	if ok, err := s.reached("7"); !ok || err != nil {
		t.Errorf("reached is %v, %v at %s", ok, err, s.version)
	}
}

func widgetOf(t *testing.T, name, version, spec string) *object.Object {
	t.Helper()
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":%q,"uid":"u","resourceVersion":%q},"spec":%q}`, name, version, spec), widget)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestLastOfTwoCopiesInAListWins(t *testing.T) {
	s := newStore()
	var list []any
	for i := range 40 {
		list = append(list, widgetOf(t, fmt.Sprint(i%5), fmt.Sprint(i+1), ""))
	}
	if err := s.Replace(list, "40"); err != nil {
		t.Fatal(err)
	}
	all, _ := s.list(objects.Query{}, time.Now())
	for i, o := range all {
		if want := fmt.Sprint(36 + i); o.ResourceVersion != want {
			t.Errorf("%s has resourceVersion %s, want %s", o.Name, o.ResourceVersion, want)
		}
	}
}

func TestObjectsWithoutResourceVersionsAreReplaced(t *testing.T) {
	s := newStore()
	last := widgetOf(t, "x", "", "2")
	if err := errors.Join(s.Replace([]any{widgetOf(t, "x", "", "1")}, ""), s.Update(last)); err != nil {
		t.Fatal(err)
	}
	if got := s.get(last.Key()); got != last {
		t.Errorf("the store has %s", got.Raw)
	}
}
