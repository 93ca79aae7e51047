package cache

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
)

// packedStore has n objects, all packed, and their events delivered.
func packedStore(t testing.TB, n int) *store {
	t.Helper()
	var list []any
	for i := range n {
		list = append(list, halfRandom(i))
	}
	return packed(t, list)
}

// packed is a store with the objects, all of which are packed.
func packed(t testing.TB, list []any) *store {
	t.Helper()
	s := newStore()
	if err := s.Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	before, _ := s.memory()
	for range 8 {
		s.sweep(t.Context())
	}
	if after := s.packedMemory(); after > before*2/3 {
		t.Fatalf("%d bytes of %d", after, before)
	}
	return s
}

func (s *store) packedMemory() uint64 {
	objects, _ := s.memory()
	return objects
}

func TestUnreadObjectsArePackedWithinAMinute(t *testing.T) {
	packedStore(t, 500) // makes the encoder outside of the bubble, which all kinds share
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range 500 {
			if err := s.Add(halfRandom(i)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.packUnread(ctx)
		}()
		parsed := s.packedMemory()
		time.Sleep(40 * time.Second) // fake time
		if s.packedMemory() != parsed {
			t.Error("objects are packed before they were not read for a minute")
		}
		time.Sleep(30 * time.Second) // fake time
		if s.packedMemory() > parsed*2/3 {
			t.Error("objects are not packed after a minute")
		}
		cancel()
		<-ended
	})
}

// A list of objects that have not changed is compared with the packed ones, which it
// neither replaces nor unpacks.
func TestAListLeavesPackedObjectsAsTheyAre(t *testing.T) {
	const count = 500
	s := packedStore(t, count)
	s.subscribe(&handler{event: func(Event) {}})
	s.feed.take() // that the kind has synced
	list := make([]any, count)
	for i := range list {
		list[i] = halfRandom(i)
	}
	moved := widgetOf(t, halfRandom(7).Name, "2", "changed") // to another namespace
	list[7] = moved
	before := s.packedMemory()
	if err := s.Replace(list, "2"); err != nil {
		t.Fatal(err)
	}
	s.sweep(t.Context())
	if grown := s.packedMemory() - before; grown > 10_000 {
		t.Errorf("%d bytes more for one object", grown)
	}
	changes := s.feed.take()[0].changes
	if len(changes) != 2 {
		t.Fatalf("%d changes", len(changes))
	}
	if gone, made := changes[0].event(), changes[1].event(); gone.Old == nil || string(gone.Old.Raw) != string(halfRandom(7).Raw) || made.New != moved {
		t.Errorf("events %s, %s", describe(gone), describe(made))
	}
}

// A plugin that is swapped, or loaded, follows 100,000 objects of which it needs the keys.
func TestAHandlerThatIsAddedReadsNoPackedObject(t *testing.T) {
	const count = 500
	one := informer{store: packedStore(t, count)}
	one.resource.Store(&object.Resource{Kind: widget, Namespaced: true})
	for name, c := range map[string]struct {
		rest scope.Scope
		want int
	}{
		"everything":   {scope.All(widget), count},
		"a namespace":  {scope.Scope{Kind: widget, Namespaces: []string{"team-1"}}, count / 50},
		"by the label": {scope.Scope{Kind: widget, Labels: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "widget-00007"})}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := &Informer{scope: c.rest, parts: []part{{informer: &one, rest: c.rest, filtered: true}}}
			keys := map[object.Key]bool{}
			packed, before := one.store.packedMemory(), allocated()
			defer i.AddHandler(func(key object.Key) { keys[key] = true }, func(e Event) { t.Errorf("event %s", describe(e)) })()
			for _, b := range one.store.feed.take() {
				b.deliver()
			}
			if bytes := (allocated() - before) / count; len(keys) != c.want || bytes > 300 && !c.rest.Selects() {
				t.Errorf("%d keys; %d bytes are allocated for each object", len(keys), bytes)
			}
			if one.store.sweep(t.Context()); one.store.packedMemory() > packed {
				t.Errorf("the objects take %d bytes, before %d", one.store.packedMemory(), packed)
			}
		})
	}
}

// The one that delivers the events of a kind would do nothing else for seconds.
func TestAHandlerOfChangesReadsNoPackedObject(t *testing.T) {
	const count = 500
	one := informer{store: packedStore(t, count)}
	i := &Informer{scope: scope.All(widget), parts: []part{{informer: &one}}}
	var changes []*object.Object
	deliver := func() {
		for _, b := range one.store.feed.take() {
			b.deliver()
		}
	}
	before := allocated()
	defer i.AddChangeHandler(func(old, updated *object.Object) { changes = append(changes, old, updated) })()
	deliver()
	if bytes := (allocated() - before) / count; bytes > 100 || changes != nil {
		t.Errorf("%d bytes are allocated for each object, %d changes", bytes, len(changes)/2)
	}
	made := widgetOf(t, "new", "2", "x")
	if err := one.store.Add(made); err != nil {
		t.Fatal(err)
	}
	if deliver(); !slices.Equal(changes, []*object.Object{nil, made}) {
		t.Errorf("got %v", changes)
	}
}

// Objects of the first list are no changes.
func TestAHandlerOfChangesIgnoresTheFirstList(t *testing.T) {
	one := informer{store: newStore()}
	i := &Informer{scope: scope.All(widget), parts: []part{{informer: &one}}}
	calls := 0
	defer i.AddChangeHandler(func(*object.Object, *object.Object) { calls++ })()
	for version := range 3 {
		if err := one.store.Replace([]any{widgetOf(t, "a", fmt.Sprint(1+version), "x")}, "3"); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range one.store.feed.take() {
		b.deliver()
	}
	if calls != 2 {
		t.Errorf("%d changes", calls)
	}
}

func TestAnEventOfAPackedObjectHasItsOldState(t *testing.T) {
	s := packedStore(t, 500)
	s.subscribe(&handler{event: func(Event) {}})
	s.feed.take() // that the kind has synced
	for i := range 2 {
		old := halfRandom(i)
		if i == 0 {
			if err := s.Delete(old); err != nil {
				t.Fatal(err)
			}
		} else if err := s.Update(parsed(sampleOf(i, "another", nil), widget)); err != nil {
			t.Fatal(err)
		}
		if e := s.feed.take()[0].changes[0].event(); e.Old == nil || string(e.Old.Raw) != string(old.Raw) || e.Old.Labels["tier"] != old.Labels["tier"] {
			t.Errorf("event %s", describe(e))
		}
	}
	if s.get(object.Key{Namespace: "team-0", Name: fmt.Sprintf("widget-%05d", 0)}) != nil {
		t.Error("the object that was deleted is still there")
	}
}

// To read a packed object may take some milliseconds, for which the others can be read.
func TestAPackedObjectThatChangesIsReadWithoutTheLock(t *testing.T) {
	for verb, change := range map[string]func(*store, any) error{"update": (*store).Update, "delete": (*store).Delete} {
		s := packedStore(t, 500)
		e := s.find(halfRandom(7).Key())
		s.mu.RLock()
		ended := make(chan error)
		go func() { ended <- change(s, halfRandom(7)) }()
		if !await.Poll(10*time.Second, func() bool {
			first := e.Object() // of a packed one, each is another one
			return first == e.Object()
		}) {
			t.Errorf("%s: it is read under the lock, or not at all", verb)
		}
		s.mu.RUnlock()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestMuchMemoryThatIsFreedIsReturned(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	before := forced()
	packedStore(t, 500)
	if forced() != before {
		t.Error("the garbage of 500 objects is collected")
	}
	large := make([]any, 1500)
	for i := range large {
		large[i] = parsed(sampleOf(i, fmt.Sprint(i), map[string]any{"data": strings.Repeat("x", returnAfter/1000)}), widget)
	}
	packed(t, large)
	if forced() == before {
		t.Error("the garbage of 1,500 large objects is not collected")
	}
}

// A resync asks for a part of the keys every half minute, for all of them in time.
func TestKeysReadNoMoreThanTheyMust(t *testing.T) {
	one := informer{store: packedStore(t, 500)}
	backend := scope.Scope{Kind: widget, Labels: labels.SelectorFromSet(labels.Set{"tier": "backend"})}
	for name, c := range map[string]struct {
		rest scope.Scope
		want int
	}{
		"all":               {scope.All(widget), 500},
		"of some namespace": {scope.Scope{Kind: widget, Namespaces: []string{"team-7"}}, 10},
		"selected":          {backend, 500},
		"selected by none":  {scope.Scope{Kind: widget, Labels: labels.SelectorFromSet(labels.Set{"tier": "none"})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			i := &Informer{scope: c.rest, parts: []part{{informer: &one, rest: c.rest, filtered: true}}}
			packed := one.store.packedMemory()
			seen := map[object.Key]int{}
			for slice := range 20 {
				keys := i.Keys(func(key object.Key) bool { return int(key.Name[len(key.Name)-1])%20 == slice })
				if !slices.IsSortedFunc(keys, object.Key.Compare) {
					t.Errorf("got %v", keys)
				}
				for _, key := range keys {
					seen[key]++
				}
				one.store.sweep(t.Context())
			}
			for key, n := range seen {
				if n != 1 || one.store.get(key) == nil || !c.rest.HasNamespace(key.Namespace) {
					t.Errorf("%s came %d times", key, n)
				}
			}
			if len(seen) != c.want || one.store.packedMemory() > packed {
				t.Errorf("%d keys; the objects take %d bytes, before %d", len(seen), one.store.packedMemory(), packed)
			}
		})
	}
}

// The store is locked while a list replaces it: objects that are gone or have changed are
// read one after the other, when their events are delivered.
func TestAListReadsNoPackedObject(t *testing.T) {
	const count = 2000
	var changed, again []any
	before := map[object.Key]string{}
	for i := range count {
		o := halfRandom(i)
		before[o.Key()] = string(o.Raw)
		changed = append(changed, parsed(bytes.Replace(o.Raw, []byte(`"resourceVersion":"1`), []byte(`"resourceVersion":"2`), 1), widget))
		again = append(again, parsed(sampleOf(i, "another", nil), widget))
	}
	for name, replace := range map[string]func(*store) error{
		"they are gone":          func(s *store) error { return s.Replace(nil, "2") },
		"they have changed":      func(s *store) error { return s.Replace(changed, "2") },
		"they were made again":   func(s *store) error { return s.Replace(again, "2") },
		"the kind is not served": func(s *store) error { s.clear(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := packedStore(t, count)
			received := 0
			s.subscribe(&handler{event: func(e Event) {
				if e.Old != nil {
					received++
					if string(e.Old.Raw) != before[e.Old.Key()] {
						t.Errorf("the old state is %s", e.Old.Raw)
					}
				}
			}})
			s.feed.take() // that the kind has synced
			start := allocated()
			if err := replace(s); err != nil {
				t.Fatal(err)
			}
			if bytes := (allocated() - start) / count; bytes > 1000 {
				t.Errorf("%d bytes are allocated for each object", bytes)
			}
			for _, b := range s.feed.take() {
				b.deliver()
			}
			if received != count {
				t.Errorf("%d of %d events have an old state", received, count)
			}
		})
	}
}

// allocated returns the bytes that were allocated since the start.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Whoever looks at every object has one of them in memory at a time.
func TestAllObjectsAreReadOneAfterTheOther(t *testing.T) {
	const count = 2000
	kept := &informer{scope: scope.All(widget), store: packedStore(t, count)}
	narrow := &informer{scope: scope.Scope{Kind: widget, Namespaces: []string{"team-0"}}, store: newStore()}
	if err := narrow.store.Replace([]any{halfRandom(0), widgetOf(t, "only here", "1", "x")}, "1"); err != nil {
		t.Fatal(err)
	}
	c := &Cache{informers: map[selected]*informer{{kind: widget}: kept, {kind: widget, namespace: "team-0"}: narrow}}
	for name, all := range map[string]struct {
		of    iter.Seq[*object.Object]
		count int
	}{
		"of the cache":    {c.Objects(widget), count + 1},
		"of a user":       {(&Informer{scope: kept.scope, parts: []part{{informer: kept}}}).All, count},
		"of another kind": {c.Objects(configMap), 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			for range all.of {
				break
			}
			if bytes := allocated() - before; bytes > 100_000 {
				t.Errorf("%d bytes are allocated for one object", bytes)
			}
			seen, n := map[object.Key]bool{}, 0
			for o := range all.of {
				c.synced(widget) // nobody waits for who reads
				seen[o.Key()] = true
				n++
			}
			if n != all.count || len(seen) != n {
				t.Errorf("%d objects, %d different ones", n, len(seen))
			}
		})
	}
}
