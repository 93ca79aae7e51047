package cache

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/host/object"
)

// store is filled by a reflector, which calls the exported methods from one
// goroutine. The other methods are safe for concurrent use.
type store struct {
	feed *feed

	mu      sync.RWMutex
	index   *index
	version string        // resourceVersion of the last change or bookmark
	synced  chan struct{} // closed by the first list
	waiters []*waiter
}

// waiter waits until the store has reached a resourceVersion.
type waiter struct {
	version string
	reached chan struct{} // closed then
}

func newStore() *store {
	return &store{feed: newFeed(), index: newIndex(), synced: make(chan struct{})}
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	o, ok := obj.(*object.Object)
	if !ok {
		return fmt.Errorf("store object: unexpected %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.push(eventsOf(s.index.put(o), o, false)...)
	return nil
}

// eventsOf returns the events for the change of an object. An object that was
// created again has another UID.
func eventsOf(before, after *object.Object, initial bool) []Event {
	switch {
	case before == nil:
		return []Event{{New: after, Initial: initial}}
	case before.UID != after.UID:
		return []Event{{Old: before}, {New: after}}
	case before.ResourceVersion == after.ResourceVersion:
		return nil
	}
	return []Event{{Old: before, New: after}}
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	o, ok := obj.(*object.Object)
	if !ok {
		return fmt.Errorf("delete object: unexpected %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.index.remove(o.Key()); before != nil {
		s.feed.push(Event{Old: before})
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(objs []any, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.hasSynced()
	fresh := make(map[object.Key]struct{}, len(objs))
	var added []Event
	for _, obj := range objs {
		o, ok := obj.(*object.Object)
		if !ok {
			return fmt.Errorf("store list: unexpected %T", obj)
		}
		fresh[o.Key()] = struct{}{}
		if before := s.index.get(o.Key()); before == nil || before.ResourceVersion != o.ResourceVersion || before.UID != o.UID {
			added = append(added, eventsOf(s.index.put(o), o, first)...)
		}
	}
	s.feed.push(s.removeExcept(fresh)...)
	s.feed.push(added...)
	s.advance(version)
	if first {
		close(s.synced)
		s.feed.synced()
	}
	return nil
}

func (s *store) removeExcept(keep map[object.Key]struct{}) []Event {
	var removed []Event
	if s.index.objects == len(keep) {
		return nil
	}
	for _, o := range s.index.list("") {
		if _, ok := keep[o.Key()]; !ok {
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
	defer s.mu.Unlock()
	s.feed.push(s.removeExcept(nil)...)
	if !s.hasSynced() {
		close(s.synced)
		s.feed.synced()
	}
}

// release frees the objects of a stopped informer, without events.
func (s *store) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = newIndex()
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
	s.advance(version)
}

// advance records the resourceVersion that the store has reached.
func (s *store) advance(version string) {
	s.version = version
	s.waiters = slices.DeleteFunc(s.waiters, func(w *waiter) bool {
		ok, err := atLeast(version, w.version)
		if ok || err != nil {
			close(w.reached)
		}
		return ok || err != nil
	})
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

func (s *store) reached(version string) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return atLeast(s.version, version)
}

// addWaiter returns a waiter, nil if the version is reached already. The caller
// must call removeWaiter.
func (s *store) addWaiter(version string) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok, err := atLeast(s.version, version); ok || err != nil {
		return nil, err
	}
	w := &waiter{version: version, reached: make(chan struct{})}
	s.waiters = append(s.waiters, w)
	return w, nil
}

func (s *store) removeWaiter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters = slices.DeleteFunc(s.waiters, func(other *waiter) bool { return other == w })
}

// subscribe adds a handler, which first receives the initial events.
func (s *store) subscribe(h *handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.add(h, s.initialFor(h), s.hasSynced())
}

func (s *store) initialFor(h *handler) []Event {
	if h.changesOnly {
		return nil
	}
	initial := make([]Event, 0, s.index.objects)
	for _, o := range s.index.list("") {
		initial = append(initial, Event{New: o, Initial: true})
	}
	return initial
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
	all := s.snapshot(namespace)
	if sel == nil || sel.Empty() {
		return all
	}
	return slices.DeleteFunc(all, func(o *object.Object) bool { return !sel.Matches(labels.Set(o.Labels)) })
}

func (s *store) snapshot(namespace string) []*object.Object {
	s.mu.RLock()
	if s.index.isSorted(namespace) {
		defer s.mu.RUnlock()
		return s.index.list(namespace)
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.list(namespace)
}

func (s *store) size() (objects, bytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.objects, s.index.bytes
}
