package cache

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/object"
)

// store is filled by a reflector, which calls the exported methods and clear from one
// goroutine: nobody else changes the objects. It drops watch events with anything else
// than an [object.Object], and a list has nothing else, so that the type needs no check
// here. The other methods are safe for concurrent use.
type store struct {
	feed *feed

	mu      sync.RWMutex
	objects *objects.Set
	version string        // resourceVersion of the last change or bookmark
	synced  chan struct{} // closed by the first list
	// restores counts how often a list was of an earlier state than the store.
	// restored is called each time.
	restores uint64
	restored func(from, to string)
	ahead    ahead
	// missed is called for each owner that knows a state which a list went past.
	missed func(Owner)
	// polled is set if the store is filled by lists alone. What they have tells then whether
	// an object has changed: resourceVersions may be missing, not change with it, or have no order.
	polled bool
}

func newStore() *store {
	return &store{feed: newFeed(), objects: objects.New(), synced: make(chan struct{}), restored: func(string, string) {}, missed: func(Owner) {}}
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	o := obj.(*object.Object)
	s.find(o.Key()).Unpacked() // for indexes and the event: without the lock, because it may take some milliseconds
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.push(batch{changes: s.put(s.objects, nil, o, false)})
	return nil
}

// put stores an object and appends the changes of it. One that was created again has
// another UID. There is no change if the resourceVersion is the same, or all of the object.
func (s *store) put(in *objects.Set, changes []change, o *object.Object, initial bool) []change {
	stored := in.Find(o.Key())
	switch {
	case stored == nil:
	case s.polled && stored.HasUIDOf(o) && stored.HasTextOf(o):
		return changes
	case s.polled && (stored.IsVersionOf(o) || stored.HasUIDOf(o) && !stored.HasVersion()):
		o = withoutVersion(o) // also the next one: it would have the version of a state before
	case stored.IsVersionOf(o):
		if !stored.HasTextOf(o) { // of a server without resourceVersions
			in.Put(o)
		}
		return changes
	}
	updated := in.Put(o)
	if stored != nil && !stored.HasUIDOf(o) {
		return append(changes, change{old: stored}, change{updated: updated})
	}
	return append(changes, change{old: stored, updated: updated, initial: initial && stored == nil})
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	key := obj.(*object.Object).Key()
	before := s.find(key) // nobody else changes it
	before.Unpacked()     // as in Update
	s.mu.Lock()
	defer s.mu.Unlock()
	if before != nil {
		s.objects.Remove(key)
		s.feed.push(batch{changes: []change{{old: before}}})
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(objs []any, version string) error {
	slices.SortStableFunc(objs, func(a, b any) int { return objects.Compare(a.(*object.Object), b.(*object.Object)) })
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
	restored = !s.polled && s.isAhead(version, func(yield func(*object.Object) bool) {
		for _, o := range objs {
			if !yield(o.(*object.Object)) {
				return
			}
		}
	})
	s.replace(objs, restored, func() {
		from = s.version
		if restored {
			s.restores++
			missed = s.ahead.reset()
		} else {
			missed = s.ahead.skip(from, version)
		}
		s.version = version
	})
	return restored, from, missed
}

// replace replaces all objects by those of a list, which is in the order of
// [objects.Compare], and calls with while the store is locked. Without the lock it makes
// what the store then has: objects that are indexed are unpacked. lost marks the
// deletions as [Event.Lost].
func (s *store) replace(objs []any, lost bool, with func()) {
	first := !s.hasSynced()
	s.mu.Lock()
	next := s.objects.BeginReplace()
	s.mu.Unlock()
	changes := s.replaceAll(next, objs, first)
	for i := range changes {
		changes[i].lost = lost && changes[i].updated == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.EndReplace(next)
	with()
	if first { // before handlers can receive that the kind has synced
		close(s.synced)
	}
	s.feed.push(batch{changes: changes, synced: first})
}

func (s *store) replaceAll(in *objects.Set, objs []any, first bool) []change {
	changes := removeExcept(in, objs)
	for _, obj := range objs {
		changes = s.put(in, changes, obj.(*object.Object), first)
	}
	return changes
}

// removeExcept goes through the list and the objects, which have the same order, at
// the same time.
func removeExcept(in *objects.Set, objs []any) (removed []change) {
	for e := range in.All {
		order := func() int { return objs[0].(*object.Object).Key().Compare(e.Key()) }
		for len(objs) > 0 && order() < 0 {
			objs = objs[1:]
		}
		if len(objs) == 0 || order() > 0 {
			removed = append(removed, change{old: e})
		}
	}
	for _, c := range removed {
		in.Remove(c.old.Key())
	}
	return removed
}

// clear removes every object, because the kind is not served any more. It
// counts as a first list without objects.
func (s *store) clear() {
	var missed []Owner
	s.replace(nil, true, func() { missed = s.ahead.reset() })
	for _, o := range missed {
		s.missed(o)
	}
}

// complete ends the first list of objects that no reflector reads.
func (s *store) complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasSynced() {
		close(s.synced)
		s.feed.push(batch{synced: true})
	}
}

// release frees the objects of a stopped informer, without events.
func (s *store) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.ahead = objects.New(), ahead{}
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
	if h.existing != nil {
		initial.existing = s.objects.Entries()
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

func (s *store) get(key object.Key) *object.Object { return s.find(key).Object() }

func (s *store) find(key object.Key) *objects.Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.Find(key)
}

// position is how far a store has come.
type position struct {
	version  string // resourceVersion
	restores uint64
}

// snapshot is a state of the store. It is kept until [store.close].
type snapshot struct {
	*objects.Snapshot
	position
}

func (s *store) position() position {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return position{s.version, s.restores}
}

func (s *store) open() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return snapshot{s.objects.Open(), position{s.version, s.restores}}
}

func (s *store) close(n snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.Close(n.Snapshot)
}

// isAt reports whether nothing has changed since a snapshot.
func (s *store) isAt(n snapshot) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return n.IsOf(s.objects)
}

// keys returns the keys of the wanted objects, without a lock.
func (s *store) keys(wanted func(*objects.Entry) bool) []object.Key {
	n := s.open()
	defer s.close(n)
	keys, err := n.Keys(wanted)
	if err != nil {
		return s.keys(wanted) // it has expired at once
	}
	return keys
}

// bytesBy returns the sum of [objects.Entry.BytesBy] of all objects.
func (s *store) bytesBy(prefix string) (size int) {
	n := s.open()
	defer s.close(n)
	_, err := n.Keys(func(e *objects.Entry) bool {
		size += e.BytesBy(prefix)
		return false
	})
	if err != nil {
		return s.bytesBy(prefix) // it has expired at once
	}
	return size
}

// each yields all objects, ordered by namespace and name, without a lock. It reads one
// after the other: all at once may take much more memory than they do in the store.
func (s *store) each(yield func(*object.Object) bool) {
	n := s.open()
	defer s.close(n)
	if all, err := n.List(objects.Query{}); err == nil {
		all(yield)
	} else {
		s.each(yield) // it has expired at once
	}
}

// list returns the objects that a query selects. It compares them without a lock. limited
// is that of indexAfter.
func (s *store) list(q objects.Query, now time.Time) (all []*object.Object, limited bool) {
	n := s.open()
	defer s.close(n)
	looked := 0
	q.Look = func(cost int) { looked += cost }
	found, err := n.List(q)
	if err != nil {
		return s.list(q, now) // it has expired at once
	}
	all = slices.Collect(found)
	return all, s.indexAfter(n, q, looked, len(all), now)
}

// indexAfter makes an index for a label or field of which a list requires a value, if it
// looked at much more than it has found. limited is set if the plugin has no room for it.
func (s *store) indexAfter(n snapshot, q objects.Query, looked, found int, now time.Time) (limited bool) {
	for _, of := range n.Unindexed(q, now) {
		if looked > 4*found+worthIndexing {
			return s.index(of, q, now)
		}
	}
	return false
}

// worthIndexing is how many objects a list may look at for each index it would need.
const worthIndexing = 1000

// index indexes a label or field, unless it is indexed or must not be.
func (s *store) index(of objects.Attribute, q objects.Query, now time.Time) (limited bool) {
	s.mu.Lock()
	b, limited := s.objects.BeginIndex(of, q.By, now)
	s.mu.Unlock()
	if b == nil {
		return limited
	}
	defer func() { // also if Look panics
		s.mu.Lock()
		defer s.mu.Unlock()
		limited = s.objects.EndIndex(b, now)
	}()
	b.Run(q.Look)
	for b.CatchUp(&s.mu) {
		continue
	}
	return limited
}

func (s *store) size() (objects, bytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.Len(), s.objects.Bytes()
}

// memory returns about what the objects and their indexes take, in bytes.
func (s *store) memory() (objects, indexes uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.Memory()
}
