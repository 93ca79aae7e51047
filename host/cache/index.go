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

// namespaceIndex holds the objects of one namespace twice: for reads of one, and
// for reads of all.
type namespaceIndex struct {
	byName map[string]*object.Object
	sorted []*object.Object // by name
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

// put adds or replaces an object. An object that comes after all others of its
// namespace is added in constant time.
func (x *index) put(o *object.Object) {
	s := x.namespaces[o.Namespace]
	if s == nil {
		s = &namespaceIndex{byName: map[string]*object.Object{}}
		// The key must not alias the bytes of this object.
		x.namespaces[strings.Clone(o.Namespace)] = s
	}
	i, replaces := s.search(o.Name)
	if replaces {
		x.count(s.sorted[i], -1)
		s.sorted[i] = o
		delete(s.byName, o.Name) // the old key aliases the bytes of the previous object
	} else {
		s.sorted = slices.Insert(s.sorted, i, o)
	}
	s.byName[o.Name] = o
	x.count(o, 1)
}

// remove removes an object and returns it, or nil if there was none.
func (x *index) remove(key object.Key) *object.Object {
	o := x.get(key)
	if o == nil {
		return nil
	}
	s := x.namespaces[key.Namespace]
	i, _ := s.search(key.Name)
	s.sorted = slices.Delete(s.sorted, i, i+1)
	delete(s.byName, key.Name)
	x.count(o, -1)
	if len(s.sorted) == 0 {
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
			return slices.Clone(s.sorted)
		}
		return nil
	}
	out := make([]*object.Object, 0, x.objects)
	for _, name := range slices.Sorted(maps.Keys(x.namespaces)) {
		out = append(out, x.namespaces[name].sorted...)
	}
	return out
}

func (s *namespaceIndex) search(name string) (int, bool) {
	return slices.BinarySearchFunc(s.sorted, name, func(o *object.Object, name string) int {
		return strings.Compare(o.Name, name)
	})
}

func byKey(a, b *object.Object) int { return compareKey(a, b.Key()) }

func compareKey(o *object.Object, key object.Key) int {
	return cmp.Or(strings.Compare(o.Namespace, key.Namespace), strings.Compare(o.Name, key.Name))
}
