package edges

import (
	"slices"
	"sync"

	"github.com/thole-dev/thole/abi"
)

// Kind has the edges to the objects that one informer follows.
type Kind struct {
	index *Index
	kind  abi.Kind

	mu       sync.Mutex // held for a bounded time
	readers  readers
	shapes   []*shape // by number
	parts    []*part  // by number
	rests    map[uint64]*rest
	byParent map[uint64][]*rest
	made     map[*plugin]made
	unsynced map[*reader]struct{} // read the kind before it had synced
	pending  map[uint64]int       // how often the readers of an edge are to be woken in bulk
}

// made is how much of what is limited a plugin has made.
type made struct{ shapes, rests, parts int }

// Kind returns the edges of a kind for one informer.
func (x *Index) Kind(kind abi.Kind) *Kind {
	return &Kind{
		index: x, kind: kind, readers: newReaders(),
		rests: map[uint64]*rest{}, byParent: map[uint64][]*rest{}, made: map[*plugin]made{},
		unsynced: map[*reader]struct{}{}, pending: map[uint64]int{},
	}
}

// count adds to what a plugin has made, or with -1 takes away from it.
func (k *Kind) count(p *plugin, more made, sign int) {
	m := k.made[p]
	m = made{m.shapes + sign*more.shapes, m.rests + sign*more.rests, m.parts + sign*more.parts}
	if k.made[p] = m; m == (made{}) {
		delete(k.made, p)
	}
}

// add adds a reader to a target, and returns what is counted for it. The kind is
// locked.
func (k *Kind) add(r *reader, t *target) int64 {
	if k.readers.add(t.id, r) {
		k.use(t, 1)
	}
	return t.bytes()
}

// remove removes a reader from an edge, and returns what was counted for it. The
// kind is locked.
func (k *Kind) remove(r *reader, e *edge) int64 {
	t := target{edge: *e, rest: k.rests[k.wholeID(e)]}
	if k.readers.remove(e.id, r) {
		k.use(&t, -1)
		k.removeUnused(&t)
	}
	return t.bytes()
}

// wholeID returns the id that the edge would have if it led to whole objects.
func (k *Kind) wholeID(e *edge) uint64 {
	if e.part == 0 {
		return e.id
	}
	return e.id ^ k.parts[e.part].salt
}

// use counts the sets of readers that need what the target has.
func (k *Kind) use(t *target, sets int) {
	if t.shape != 0 {
		k.shapes[t.shape].use(t.id, sets)
	}
	if t.part != 0 {
		k.parts[t.part].edges += sets
	}
	if r := t.rest; r != nil {
		if r.edges == 0 {
			k.rests[r.id] = r
			k.byParent[r.parent] = append(k.byParent[r.parent], r)
			k.count(r.plugin, made{rests: 1}, 1)
		}
		r.edges += sets
	}
}

func (s *shape) use(id uint64, sets int) {
	s.edges += sets
	if s.path == "" {
		return
	}
	if sets > 0 {
		s.ids[id] = struct{}{}
	} else {
		delete(s.ids, id)
	}
}

// removeUnused removes what the target has and no edge needs.
func (k *Kind) removeUnused(t *target) {
	if s := at(k.shapes, t.shape); s != nil && s.edges == 0 {
		k.shapes[t.shape] = nil
		k.count(s.plugin, made{shapes: 1}, -1)
	}
	if p := at(k.parts, t.part); p != nil && p.edges == 0 {
		k.parts[t.part] = nil
		k.count(p.plugin, made{parts: 1}, -1)
	}
	if r := t.rest; r != nil && r.edges == 0 && k.rests[r.id] == r {
		k.removeRest(r)
	}
}

func at[T any](all []*T, number uint8) *T {
	if int(number) < len(all) {
		return all[number]
	}
	return nil
}

func (k *Kind) removeRest(r *rest) {
	delete(k.rests, r.id)
	k.byParent[r.parent] = slices.DeleteFunc(k.byParent[r.parent], func(other *rest) bool { return other == r })
	if len(k.byParent[r.parent]) == 0 {
		delete(k.byParent, r.parent)
	}
	k.count(r.plugin, made{rests: 1}, -1)
}

// addUnsynced makes the kind wake a reader when it has synced. It reports whether
// that is to come.
func (k *Kind) addUnsynced(r *reader, synced func() bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if synced() {
		return false
	}
	k.unsynced[r] = struct{}{}
	return true
}

// forgetUnsynced makes the sync wake a reader no more.
func (k *Kind) forgetUnsynced(r *reader) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.unsynced, r)
}

// Synced wakes the owners that read the kind before it had synced.
func (k *Kind) Synced() {
	k.mu.Lock()
	unsynced := k.unsynced
	k.unsynced = map[*reader]struct{}{}
	k.mu.Unlock()
	for r := range unsynced {
		k.index.config.Wake(r.owner(), Change{}, false)
	}
}
