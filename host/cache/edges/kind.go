package edges

import (
	"iter"
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
	shapes   []*shape // by number
	parts    []*part  // by number
	rests    map[uint64]*rest
	byParent map[uint64][]*rest
	made     map[*plugin]made
	unsynced map[*reader]struct{} // read the kind before it had synced
	pending  map[uint64]int       // how often the crowd of an edge is to be woken
}

// made is how much of what is limited a plugin has made.
type made struct{ shapes, rests, parts int }

// Kind returns the edges of a kind for one informer.
func (x *Index) Kind(kind abi.Kind) *Kind {
	return &Kind{
		index: x, kind: kind, readers: map[uint64]readers{},
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
	set := k.readers[t.id]
	if set.empty() {
		k.use(t, 1)
	}
	set.add(r)
	k.readers[t.id] = set
	return t.bytes()
}

// remove removes a reader from an edge, and returns what was counted for it. The
// kind is locked.
func (k *Kind) remove(r *reader, e *edge) int64 {
	t := target{edge: *e, rest: k.rests[k.wholeID(e)]}
	set := k.readers[e.id]
	set.remove(r)
	if !set.empty() {
		k.readers[e.id] = set
		return t.bytes()
	}
	delete(k.readers, e.id)
	k.use(&t, -1)
	k.removeUnused(&t)
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

// Changed wakes the owners that depend on an object, before or after the change. It is
// called by one goroutine for each kind.
func (k *Kind) Changed(c Change) {
	k.mu.Lock()
	empty, shapes, parts := len(k.readers) == 0, slices.Clone(k.shapes), slices.Clone(k.parts)
	k.mu.Unlock()
	if empty {
		return
	}
	d := newDifference(c, shapes, parts)
	k.mu.Lock()
	found := k.dependents(d)
	k.mu.Unlock()
	for _, r := range found {
		k.index.config.Wake(r.owner(), c, false)
	}
}

// difference is a change, with what takes time in proportion to the objects. That is
// read without a lock.
type difference struct {
	Change
	values    map[string][2][]string // of the fields of shapes, by path, before and after
	unchanged map[*part]bool
}

func newDifference(c Change, shapes []*shape, parts []*part) difference {
	d := difference{c, map[string][2][]string{}, map[*part]bool{}}
	for _, s := range shapes {
		if s == nil || s.path == "" {
			continue
		}
		if _, known := d.values[s.path]; !known {
			d.values[s.path] = [2][]string{s.valuesOf(c.Old), s.valuesOf(c.Updated)}
		}
	}
	for _, p := range parts {
		if p != nil && c.Old != nil && c.Updated != nil {
			d.unchanged[p] = p.fields.Same(c.Old.Raw, c.Updated.Raw)
		}
	}
	return d
}

const (
	// An object with more values of a field, or a larger one, counts as having every
	// value.
	maxValues      = 64
	maxObjectBytes = 64 << 10
)

// everyValue stands for more values than are looked at.
var everyValue = make([]string, maxValues+1)

func (s *shape) valuesOf(o *object.Object) []string {
	switch {
	case o == nil:
		return nil
	case len(o.Raw) > maxObjectBytes:
		return everyValue
	}
	return s.field.Values(o.Raw)
}

// valuesOf returns the values of the object before or after the change for the field of
// a shape. The readers of a shape that is newer than the change have read what came of it.
func (d *difference) valuesOf(s *shape, which int) []string {
	if s.path == "" {
		return noField
	}
	return d.values[s.path][which]
}

var noField = []string{""}

// dependents returns the readers that depend on an object. Very many are left to
// the crowds.
func (k *Kind) dependents(d difference) (found []*reader) {
	several := false
	for id := range k.affected(d) {
		set := k.readers[id]
		switch {
		case set.empty():
		case set.isCrowd():
			k.index.crowds.add(k, id, d.Change)
		default:
			several = several || len(found) > 0
			found = set.appendTo(found)
		}
	}
	if several {
		found = distinct(found)
	}
	return found
}

// affected yields the identities of what a change concerns: of whole objects, all that
// the object is or is a part of, before or after; of parts that are the same, only the
// lists that it has left or entered.
func (k *Kind) affected(d difference) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		all, moved := merge(k.ids(d, 0), k.ids(d, 1))
		for _, id := range all {
			if !yield(id) {
				return
			}
		}
		for id := range k.ofEveryValue(d) {
			if !yield(id) {
				return
			}
		}
		for _, p := range k.parts {
			if p == nil {
				continue
			}
			which := all
			if d.unchanged[p] {
				which = moved
			}
			for _, id := range which {
				if !yield(id ^ p.salt) {
					return
				}
			}
		}
	}
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

// ofEveryValue yields the lists by a field of which the object has too many values.
func (k *Kind) ofEveryValue(d difference) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, s := range k.shapes {
			if s == nil || len(d.valuesOf(s, 0)) <= maxValues && len(d.valuesOf(s, 1)) <= maxValues {
				continue
			}
			for id := range s.ids {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// merge returns what is in either of two lists, and what is in one of them alone.
func merge(before, after []uint64) (all, moved []uint64) {
	slices.Sort(before)
	slices.Sort(after)
	before, after = slices.Compact(before), slices.Compact(after)
	for len(before)+len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			all, moved, before = append(all, before[0]), append(moved, before[0]), before[1:]
		case len(before) == 0 || after[0] < before[0]:
			all, moved, after = append(all, after[0]), append(moved, after[0]), after[1:]
		default:
			all, before, after = append(all, before[0]), before[1:], after[1:]
		}
	}
	return all, moved
}

// ids returns the identities of everything that an object is, or is a part of, before
// the change (0) or after it (1).
func (k *Kind) ids(d difference, which int) (ids []uint64) {
	o := [2]*object.Object{d.Old, d.Updated}[which]
	if o == nil {
		return nil
	}
	ids = append(ids, k.hash('o', o.Namespace, o.Name))
	for _, namespace := range slices.Compact([]string{o.Namespace, ""}) {
		ids = k.appendLists(ids, k.everythingID(namespace), o)
		for n, s := range k.shapes {
			if s == nil || !s.fits(o) || len(d.valuesOf(s, which)) > maxValues {
				continue
			}
			for _, value := range d.valuesOf(s, which) {
				ids = k.appendLists(ids, k.shapeID(uint8(n), namespace, value, func(label string) string { return o.Labels[label] }), o)
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
