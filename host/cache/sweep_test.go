package cache

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// packedStore has n objects, all packed, and their events delivered.
func packedStore(t testing.TB, n int) *store {
	t.Helper()
	s := newStore()
	var list []any
	for i := range n {
		list = append(list, halfRandom(i))
	}
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
	s.subscribe(&handler{event: func(Event) {}, changesOnly: true})
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
	events := s.feed.take()[0].events
	if len(events) != 2 || events[0].Old == nil || string(events[0].Old.Raw) != string(halfRandom(7).Raw) || events[1].New != moved {
		t.Errorf("events %v", events)
	}
}

func TestAHandlerThatIsAddedReceivesPackedObjects(t *testing.T) {
	const count = 500
	s := packedStore(t, count)
	got := map[object.Key]bool{}
	s.subscribe(&handler{event: func(e Event) {
		if !e.Initial || e.Old != nil || e.New == nil {
			t.Errorf("event %s", describe(e))
		}
		got[e.New.Key()] = true
	}})
	before := s.packedMemory()
	for _, b := range s.feed.take() {
		b.deliver()
	}
	s.sweep(t.Context())
	if len(got) != count || s.packedMemory() > before {
		t.Errorf("%d of %d objects, which take %d bytes, before %d", len(got), count, s.packedMemory(), before)
	}
}

func TestAnEventOfAPackedObjectHasItsOldState(t *testing.T) {
	s := packedStore(t, 500)
	s.subscribe(&handler{event: func(Event) {}, changesOnly: true})
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
		if e := s.feed.take()[0].events[0]; e.Old == nil || string(e.Old.Raw) != string(old.Raw) || e.Old.Labels["tier"] != old.Labels["tier"] {
			t.Errorf("event %s", describe(e))
		}
	}
	if s.get(object.Key{Namespace: "team-0", Name: fmt.Sprintf("widget-%05d", 0)}) != nil {
		t.Error("the object that was deleted is still there")
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
	packedStore(t, 20_000)
	if forced() == before {
		t.Error("the garbage of 20,000 objects is not collected")
	}
}

// A resync asks for all keys every few minutes.
func TestKeysReadNoObject(t *testing.T) {
	s := newStore()
	for i := range 500 {
		if err := s.Add(halfRandom(i)); err != nil {
			t.Fatal(err)
		}
	}
	parsed := s.packedMemory()
	for range 8 {
		keys := s.keys()
		if len(keys) != 500 || !slices.IsSortedFunc(keys, object.Key.Compare) || keys[0] != halfRandom(0).Key() {
			t.Fatalf("got %v", keys)
		}
		s.sweep(t.Context())
	}
	if s.packedMemory() > parsed*2/3 {
		t.Error("objects are not packed")
	}
}
