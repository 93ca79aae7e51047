package cache

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/host/object"
)

// store is what a reflector fills: the index, how far it has come, and who
// waits for what. Its methods with an upper-case name are those that the
// reflector calls, from one goroutine; the others are for everyone.
type store struct {
	feed *feed

	mu      sync.RWMutex
	index   *index
	version string        // of the last change or bookmark that index has
	synced  chan struct{} // closed with the first list
	waiting []*waiter
}

// waiter waits until the store has reached a resourceVersion.
type waiter struct {
	version string
	reached chan struct{}
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
	s.feed.push(changes(s.index.put(o), o, false)...)
	return nil
}

// changes are the events that tell that before became after.
func changes(before, after *object.Object, initial bool) []Event {
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
			added = append(added, changes(s.index.put(o), o, first)...)
		}
	}
	s.feed.push(s.removeExcept(fresh)...)
	s.feed.push(added...)
	s.reach(version)
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

// clear removes every object because the kind is gone. To those who wait for
// the first list it is one: there are no objects.
func (s *store) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.push(s.removeExcept(nil)...)
	if !s.hasSynced() {
		close(s.synced)
		s.feed.synced()
	}
}

// release gives the memory back after the informer has stopped; no events.
func (s *store) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = newIndex()
}

// Resync implements cache.ReflectorStore; the reflector is not asked for any.
func (s *store) Resync() error { return nil }

// UpdateResourceVersion implements cache.ResourceVersionUpdater: the reflector
// calls it after each change and bookmark, but not for the events of an
// initial list, which come in any order.
func (s *store) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reach(version)
}

// reach notes how far the store has come and wakes those who waited for it.
func (s *store) reach(version string) {
	s.version = version
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		ok, err := atLeast(version, w.version)
		if ok || err != nil {
			close(w.reached)
		}
		return ok || err != nil
	})
}

// atLeast says whether version have is version want or a later one.
func atLeast(have, want string) (bool, error) {
	if have == want || want == "" {
		return true, nil
	}
	if have == "" { // nothing was read yet
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

// await returns a waiter, nil if the version is reached already. The caller
// ends with abandon.
func (s *store) await(version string) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok, err := atLeast(s.version, version); ok || err != nil {
		return nil, err
	}
	w := &waiter{version: version, reached: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	return w, nil
}

func (s *store) abandon(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *waiter) bool { return other == w })
}

// subscribe adds a handler, which first gets an event for all that is there.
func (s *store) subscribe(h *handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.add(h, s.initialFor(h), s.hasSynced())
}

func (s *store) initialFor(h *handler) []Event {
	if h.changes {
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

// list takes the selector to a snapshot: no lock is held while it matches.
func (s *store) list(namespace string, sel labels.Selector) []*object.Object {
	all := s.snapshot(namespace)
	if sel == nil || sel.Empty() {
		return all
	}
	return slices.DeleteFunc(all, func(o *object.Object) bool { return !sel.Matches(labels.Set(o.Labels)) })
}

func (s *store) snapshot(namespace string) []*object.Object {
	s.mu.RLock()
	if s.index.listReady(namespace) {
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
