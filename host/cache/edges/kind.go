package edges

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Kind has the edges to the objects that one informer follows.
type Kind struct {
	index *Index
	kind  abi.Kind

	mu       sync.Mutex // held for a bounded time
	readers  map[uint64]readers
	shapes   []*shape // the first is nil
	rests    map[uint64]*rest
	byParent map[uint64][]*rest
	made     map[*plugin]made
	unsynced map[*reader]struct{} // read the kind before it had synced
}

// made is how much of what is limited a plugin has made.
type made struct{ shapes, rests int }

// Kind returns the edges of a kind for one informer.
func (x *Index) Kind(kind abi.Kind) *Kind {
	return &Kind{
		index: x, kind: kind, readers: map[uint64]readers{}, shapes: make([]*shape, 1),
		rests: map[uint64]*rest{}, byParent: map[uint64][]*rest{}, made: map[*plugin]made{},
		unsynced: map[*reader]struct{}{},
	}
}

// count adds to what a plugin has made.
func (k *Kind) count(p *plugin, shapes, rests int) {
	m := k.made[p]
	m.shapes, m.rests = m.shapes+shapes, m.rests+rests
	if k.made[p] = m; m == (made{}) {
		delete(k.made, p)
	}
}

// add adds a reader to a target, and returns what is counted for it. The kind is
// locked.
func (k *Kind) add(r *reader, t *target) int64 {
	set := k.readers[t.id]
	if set.empty() {
		if t.shape != 0 {
			k.shapes[t.shape].edges++
		}
		if t.rest != nil {
			k.addRest(t.rest)
		}
	}
	set.add(r)
	k.readers[t.id] = set
	return t.bytes()
}

func (k *Kind) addRest(r *rest) {
	k.rests[r.id] = r
	k.byParent[r.parent] = append(k.byParent[r.parent], r)
	k.count(r.plugin, 0, 1)
}

// remove removes a reader from an edge, and returns what was counted for it. The
// kind is locked.
func (k *Kind) remove(r *reader, e *edge) int64 {
	t := target{edge: *e, rest: k.rests[e.id]}
	set := k.readers[e.id]
	set.remove(r)
	if !set.empty() {
		k.readers[e.id] = set
		return t.bytes()
	}
	delete(k.readers, e.id)
	if t.rest != nil {
		k.removeRest(t.rest)
	}
	if t.shape != 0 {
		k.shapes[t.shape].edges--
		k.removeShape(t.shape)
	}
	return t.bytes()
}

func (k *Kind) removeRest(r *rest) {
	delete(k.rests, r.id)
	k.byParent[r.parent] = slices.DeleteFunc(k.byParent[r.parent], func(other *rest) bool { return other == r })
	if len(k.byParent[r.parent]) == 0 {
		delete(k.byParent, r.parent)
	}
	k.count(r.plugin, 0, -1)
}

// removeShape removes a shape unless it has edges.
func (k *Kind) removeShape(number uint8) {
	if s := k.shapes[number]; s != nil && s.edges == 0 {
		k.shapes[number] = nil
		k.count(s.plugin, -1, 0)
	}
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

// Changed wakes the owners that depend on an object, before or after the change.
func (k *Kind) Changed(c Change) {
	k.mu.Lock()
	if len(k.readers) == 0 {
		k.mu.Unlock()
		return
	}
	found := k.dependents(c)
	k.mu.Unlock()
	for _, r := range found {
		k.index.config.Wake(r.owner(), c, false)
	}
}

// dependents returns the readers that depend on an object. Very many are left to
// the crowds.
func (k *Kind) dependents(c Change) (found []*reader) {
	var ids []uint64
	for _, o := range []*object.Object{c.Old, c.Updated} {
		if o != nil {
			ids = k.appendIDs(ids, o)
		}
	}
	slices.Sort(ids)
	several := false
	for _, id := range slices.Compact(ids) {
		set := k.readers[id]
		if set.empty() {
			continue
		}
		if set.isCrowd() {
			k.index.crowds.add(k, id, c)
			continue
		}
		several = several || len(found) > 0
		found = set.appendTo(found)
	}
	if several {
		found = distinct(found)
	}
	return found
}

// distinct removes all but the first of each reader.
func distinct(all []*reader) []*reader {
	seen := make(map[*reader]struct{}, len(all))
	return slices.DeleteFunc(all, func(r *reader) bool {
		_, twice := seen[r]
		seen[r] = struct{}{}
		return twice
	})
}

// appendIDs appends the identities of everything that an object is, or is a part of.
func (k *Kind) appendIDs(ids []uint64, o *object.Object) []uint64 {
	ids = append(ids, k.hash('o', o.Namespace, o.Name))
	for _, namespace := range slices.Compact([]string{o.Namespace, ""}) {
		ids = k.appendLists(ids, k.everythingID(namespace), o)
		for n, s := range k.shapes {
			if s != nil && s.fits(o) {
				ids = k.appendLists(ids, k.shapeID(uint8(n), namespace, func(i int) string { return o.Labels[s.labels[i]] }), o)
			}
		}
	}
	return ids
}

// appendLists appends a list, and those whose rest selects the object.
func (k *Kind) appendLists(ids []uint64, parent uint64, o *object.Object) []uint64 {
	ids = append(ids, parent)
	for _, r := range k.byParent[parent] {
		if r.selector.Matches(labels.Set(o.Labels)) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// fits reports whether the object has all labels of the shape.
func (s *shape) fits(o *object.Object) bool {
	for _, name := range s.labels {
		if _, ok := o.Labels[name]; !ok {
			return false
		}
	}
	return true
}
