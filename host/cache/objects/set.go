package objects

import (
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/thole-dev/thole/host/object"
)

// degree is that of all trees: a node has up to 63 elements.
const degree = 32

// tree has objects in the order of [Compare].
type tree = btree.BTreeG[*object.Object]

// Set is the objects of one kind. It is not safe for concurrent use.
type Set struct {
	all     *tree
	indexes map[string]*index    // by the name of the attribute
	builds  map[string]*Build    // indexes that are being built
	refused map[string]time.Time // attributes that were too large to index, and when
	bytes   int
	changes uint64
	latest  *Snapshot // taken since the last change; nil if none was
	open    snapshots
}

// New returns an empty set.
func New() *Set {
	return &Set{all: btree.NewG(degree, before), indexes: map[string]*index{}, builds: map[string]*Build{}, refused: map[string]time.Time{}}
}

// Compare compares two objects by namespace and name.
func Compare(a, b *object.Object) int {
	return a.Key().Compare(b.Key())
}

func before(a, b *object.Object) bool { return Compare(a, b) < 0 }

// at returns an object with a key, by which trees are searched.
func at(key object.Key) *object.Object {
	o := &object.Object{}
	o.Namespace, o.Name = key.Namespace, key.Name
	return o
}

// probes are objects for [at], which each read would allocate.
var probes = sync.Pool{New: func() any { return &object.Object{} }}

// get returns the object with a key, nil if there is none.
func get(in *tree, key object.Key) *object.Object {
	probe := probes.Get().(*object.Object)
	probe.Namespace, probe.Name = key.Namespace, key.Name
	o, _ := in.Get(probe)
	probe.Namespace, probe.Name = "", ""
	probes.Put(probe)
	return o
}

// Len returns the number of objects.
func (s *Set) Len() int { return s.all.Len() }

// Bytes returns the bytes of JSON of all objects.
func (s *Set) Bytes() int { return s.bytes }

// Get returns an object, nil if there is none.
func (s *Set) Get(key object.Key) *object.Object { return get(s.all, key) }

// Memory returns about what the objects and the indexes take, in bytes.
func (s *Set) Memory() (objects, indexes uint64) {
	return uint64(s.bytes + s.Len()*metadataBytes), uint64(s.entries() * entryBytes)
}

const (
	entryBytes    = 40      // of an index: three words, in nodes that are partly filled
	metadataBytes = 1 << 10 // of an object, beside its JSON (BenchmarkHeapPerObject)
)

// All yields all objects, ordered by namespace and name, which must not change
// meanwhile.
func (s *Set) All(yield func(*object.Object) bool) { s.all.Ascend(yield) }

// Put adds or replaces an object.
func (s *Set) Put(o *object.Object) {
	old, _ := s.all.ReplaceOrInsert(o)
	s.changed(old, o)
}

// Remove removes an object.
func (s *Set) Remove(key object.Key) {
	if old, ok := s.all.Delete(at(key)); ok {
		s.changed(old, nil)
	}
}

// changed does what follows from the change of an object. Either may be nil.
func (s *Set) changed(old, updated *object.Object) {
	s.changes++
	s.latest = nil
	if updated != nil {
		s.bytes += len(updated.Raw)
	}
	if old != nil {
		s.bytes -= len(old.Raw)
		s.open.replace(len(old.Raw) + objectOverhead)
	}
	for _, x := range s.indexes {
		x.change(old, updated)
	}
	for _, b := range s.builds {
		b.add(change{old, updated})
	}
}

// objectOverhead is about what a replaced object takes beside its JSON while snapshots
// have it: its parsed metadata, and the nodes of the trees that were copied.
const objectOverhead = 6 << 10
