package cache

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/host/object"
)

// index holds the objects of one kind by namespace and name. It is not safe for
// concurrent use.
type index struct {
	namespaces map[string]*namespaceIndex
	objects    int
	bytes      int // of their JSON
}

// namespaceIndex holds the objects of one namespace.
type namespaceIndex struct {
	byName map[string]*object.Object
	// sorted has the objects ordered by name. It is nil before the first list,
	// and kept up to date from then on.
	sorted []*object.Object
}

func newIndex() *index {
	return &index{namespaces: map[string]*namespaceIndex{}}
}

func (x *index) get(key object.Key) *object.Object {
	s := x.namespaces[key.Namespace]
	if s == nil {
		return nil
	}
	return s.byName[key.Name]
}

// put adds or replaces an object and returns the previous one, or nil.
func (x *index) put(o *object.Object) (before *object.Object) {
	s := x.namespaces[o.Namespace]
	if s == nil {
		s = &namespaceIndex{byName: map[string]*object.Object{}}
		// The key must not alias the bytes of this object.
		x.namespaces[strings.Clone(o.Namespace)] = s
	}
	before = s.put(o)
	if before != nil {
		x.count(before, -1)
	}
	x.count(o, 1)
	return before
}

// remove removes an object and returns it, or nil if there was none.
func (x *index) remove(key object.Key) *object.Object {
	s := x.namespaces[key.Namespace]
	if s == nil || s.byName[key.Name] == nil {
		return nil
	}
	o := s.byName[key.Name]
	s.remove(o)
	x.count(o, -1)
	if len(s.byName) == 0 {
		delete(x.namespaces, key.Namespace)
	}
	return o
}

func (x *index) count(o *object.Object, n int) {
	x.objects += n
	x.bytes += n * len(o.Raw)
}

// list returns the objects of a namespace ordered by name, or those of all
// namespaces ordered by namespace and name if it is "". The caller owns the
// slice.
func (x *index) list(namespace string) []*object.Object {
	if namespace != "" {
		if s := x.namespaces[namespace]; s != nil {
			return slices.Clone(s.sortedByName())
		}
		return nil
	}
	out := make([]*object.Object, 0, x.objects)
	for _, name := range slices.Sorted(maps.Keys(x.namespaces)) {
		out = append(out, x.namespaces[name].sortedByName()...)
	}
	return out
}

// isSorted reports whether list only reads, so that a read lock suffices.
func (x *index) isSorted(namespace string) bool {
	if namespace != "" {
		s := x.namespaces[namespace]
		return s == nil || s.sorted != nil
	}
	for _, s := range x.namespaces {
		if s.sorted == nil {
			return false
		}
	}
	return true
}

func (s *namespaceIndex) put(o *object.Object) (before *object.Object) {
	before = s.byName[o.Name]
	delete(s.byName, o.Name) // the old key aliases the bytes of the previous object
	s.byName[o.Name] = o
	if s.sorted == nil {
		return before
	}
	if i, ok := s.search(o.Name); ok {
		s.sorted[i] = o
	} else {
		s.sorted = slices.Insert(s.sorted, i, o)
	}
	return before
}

func (s *namespaceIndex) remove(o *object.Object) {
	delete(s.byName, o.Name)
	if i, ok := s.search(o.Name); ok {
		s.sorted = slices.Delete(s.sorted, i, i+1)
	}
}

func (s *namespaceIndex) search(name string) (int, bool) {
	return slices.BinarySearchFunc(s.sorted, name, func(o *object.Object, name string) int {
		return strings.Compare(o.Name, name)
	})
}

func (s *namespaceIndex) sortedByName() []*object.Object {
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Values(s.byName), byKey)
	}
	return s.sorted
}

func byKey(a, b *object.Object) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func compareKey(o *object.Object, key object.Key) int {
	return cmp.Or(strings.Compare(o.Namespace, key.Namespace), strings.Compare(o.Name, key.Name))
}
