package edges

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/host/object"
)

// This file finds whom a change concerns.

// Changed wakes the owners that depend on an object, before or after the change. It is
// called by one goroutine for each kind.
func (k *Kind) Changed(c Change) {
	k.mu.Lock()
	empty, shapes, parts := k.readers.edges() == 0, slices.Clone(k.shapes), slices.Clone(k.parts)
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
	case s.path == controllerPath:
		if uid := o.ControllerUID(); uid != "" {
			return []string{uid}
		}
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
// the bulkWakes.
func (k *Kind) dependents(d difference) (found []*reader) {
	several := false
	for id := range k.affected(d) {
		if k.readers.isLong(id) {
			k.index.bulkWakes.add(k, id, d.Change)
			continue
		}
		before := len(found)
		found = k.readers.appendTo(found, id)
		several = several || before > 0 && len(found) > before
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
