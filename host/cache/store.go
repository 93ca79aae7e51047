package cache

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/host/object"
)

// store is filled by a reflector, which calls the exported methods from one
// goroutine. It drops watch events with anything else than an [object.Object], and
// a list has nothing else, so that the type needs no check here. The other methods
// are safe for concurrent use.
type store struct {
	feed *feed

	mu      sync.RWMutex
	index   *index
	version string        // resourceVersion of the last change or bookmark
	synced  chan struct{} // closed by the first list
	// restores counts how often a list was of an earlier state than the store.
	// restored is called each time.
	restores uint64
	restored func(from, to string)
	ahead    ahead
	// missed is called for each owner that knows a state which a list went past.
	missed func(Owner)
}

func newStore() *store {
	return &store{feed: newFeed(), index: newIndex(), synced: make(chan struct{}), restored: func(string, string) {}, missed: func(Owner) {}}
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.push(batch{events: s.put(nil, obj.(*object.Object), false)})
	return nil
}

// put stores an object and appends the events of the change. One that was created
// again has another UID. There is no event if the resourceVersion is the same.
func (s *store) put(events []Event, o *object.Object, initial bool) []Event {
	before := s.index.get(o.Key())
	if before != nil && before.UID == o.UID && before.ResourceVersion == o.ResourceVersion {
		if !bytes.Equal(before.Raw, o.Raw) { // of a server without resourceVersions
			s.index.put(o)
		}
		return events
	}
	s.index.put(o)
	if before != nil && before.UID != o.UID {
		return append(events, Event{Old: before}, Event{New: o})
	}
	return append(events, Event{Old: before, New: o, Initial: initial && before == nil})
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.index.remove(obj.(*object.Object).Key()); before != nil {
		s.feed.push(batch{events: []Event{{Old: before}}})
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(objs []any, version string) error {
	slices.SortStableFunc(objs, func(a, b any) int { return byKey(a.(*object.Object), b.(*object.Object)) })
	restored, from, missed := s.replaceAt(objs, version)
	if restored {
		s.restored(from, version)
	}
	for _, o := range missed {
		s.missed(o)
	}
	return nil
}

// replaceAt replaces the store by a list, and reports whether that is of an
// earlier state than the store was, which had the version from. It returns the
// owners that know a state which the list goes past.
func (s *store) replaceAt(objs []any, version string) (restored bool, from string, missed []Owner) {
	restored = s.isAhead(version, func(yield func(*object.Object) bool) {
		for _, o := range objs {
			if !yield(o.(*object.Object)) {
				return
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.version
	if restored {
		s.restores++
		missed = s.ahead.reset()
	} else {
		missed = s.ahead.skip(from, version)
	}
	s.replace(objs)
	s.version = version
	return restored, from, missed
}

// replace replaces all objects by those of a list, which is in the order of byKey.
func (s *store) replace(objs []any) {
	first := !s.hasSynced()
	events := s.removeExcept(objs)
	for _, obj := range objs {
		events = s.put(events, obj.(*object.Object), first)
	}
	if first { // before handlers can receive that the kind has synced
		close(s.synced)
	}
	s.feed.push(batch{events: events, synced: first})
}

// removeExcept goes through the list and the index, which have the same order, at
// the same time.
func (s *store) removeExcept(objs []any) (removed []Event) {
	for _, o := range s.index.list("") {
		for len(objs) > 0 && byKey(objs[0].(*object.Object), o) < 0 {
			objs = objs[1:]
		}
		if len(objs) == 0 || byKey(objs[0].(*object.Object), o) > 0 {
			s.index.remove(o.Key())
			removed = append(removed, Event{Old: o})
		}
	}
	return removed
}

// clear removes every object, because the kind is not served any more. It
// counts as a first list without objects.
func (s *store) clear() {
	s.mu.Lock()
	s.replace(nil)
	missed := s.ahead.reset()
	s.mu.Unlock()
	for _, o := range missed {
		s.missed(o)
	}
}

// release frees the objects of a stopped informer, without events.
func (s *store) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.ahead = newIndex(), ahead{}
}

// Resync implements cache.ReflectorStore. The reflector does not call it without
// a resync period.
func (s *store) Resync() error { return nil }

// UpdateResourceVersion implements cache.ResourceVersionUpdater. The reflector
// calls it after each change and bookmark, but not for the events of an initial
// list, which arrive in any order.
func (s *store) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isBefore(version, s.version) { // as a server may send with a deletion
		s.version = version
	}
}

// reached reports whether the store contains every change up to a
// resourceVersion. The error is [ErrIncomparable].
func (s *store) reached(version string) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return atLeast(s.version, version)
}

// atLeast reports whether a resourceVersion is want or a later one.
func atLeast(have, want string) (bool, error) {
	if have == want || want == "" {
		return true, nil
	}
	if have == "" { // before the first list
		return false, nil
	}
	c, err := resourceversion.CompareResourceVersion(have, want)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrIncomparable, err)
	}
	return c >= 0, nil
}

// subscribe adds a handler, which first receives the initial events.
func (s *store) subscribe(h *handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	initial := batch{synced: s.hasSynced()}
	if !h.changesOnly {
		for _, o := range s.index.list("") {
			initial.events = append(initial.events, Event{New: o, Initial: true})
		}
	}
	s.feed.add(h, initial)
}

func (s *store) hasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

func (s *store) get(key object.Key) *object.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.get(key)
}

// list matches the selector without a lock.
func (s *store) list(namespace string, sel labels.Selector) []*object.Object {
	s.mu.RLock()
	all := s.index.list(namespace)
	s.mu.RUnlock()
	if sel == nil || sel.Empty() {
		return all
	}
	return slices.DeleteFunc(all, func(o *object.Object) bool { return !sel.Matches(labels.Set(o.Labels)) })
}

func (s *store) size() (objects, bytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.objects, s.index.bytes
}
