package objects

import (
	"iter"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/thole-dev/thole/host/object"
)

// degree is that of all trees: a node has up to 63 elements.
const degree = 32

// tree has entries in the order of their keys.
type tree = btree.BTreeG[*Entry]

// Set is the objects of one kind. It is not safe for concurrent use.
type Set struct {
	all     *tree
	indexes map[string]*index // by the name of the attribute
	builds  map[string]*Build // indexes that are being built, by the plugin that does
	refused map[refusal]time.Time
	room    int // for indexes, in entries: maxEntries, except in tests
	// replacing is set from BeginReplace to EndReplace.
	replacing bool
	bytes     int
	saved     int    // bytes of memory by packing, when the last sweep has ended
	codec     *codec // nil until a sweep has made it
	judged    int    // the number of objects when it was made
	changes   uint64
	latest    *Snapshot // taken since the last change; nil if none was
	open      snapshots
}

// New returns an empty set.
func New() *Set {
	return &Set{all: btree.NewG(degree, before), indexes: map[string]*index{}, builds: map[string]*Build{}, refused: map[refusal]time.Time{}, room: maxEntries}
}

// Compare compares two objects by namespace and name.
func Compare(a, b *object.Object) int {
	return a.Key().Compare(b.Key())
}

func before(a, b *Entry) bool { return a.key.Compare(b.key) < 0 }

// at returns an entry with a key, by which trees are searched.
func at(key object.Key) *Entry { return &Entry{key: key} }

// probes are entries for [at], which each read would allocate.
var probes = sync.Pool{New: func() any { return &Entry{} }}

// find returns the entry with a key, nil if there is none.
func find(in *tree, key object.Key) *Entry {
	probe := probes.Get().(*Entry)
	probe.key = key
	e, _ := in.Get(probe)
	probe.key = object.Key{}
	probes.Put(probe)
	return e
}

// Len returns the number of objects.
func (s *Set) Len() int { return s.all.Len() }

// Bytes returns the bytes of JSON of all objects.
func (s *Set) Bytes() int { return s.bytes }

// Find returns the entry of an object, nil if there is none.
func (s *Set) Find(key object.Key) *Entry { return find(s.all, key) }

// Memory returns about what the objects and the indexes take, in bytes.
func (s *Set) Memory() (objects, indexes uint64) {
	return uint64(max(0, s.bytes+s.Len()*objectBytes-s.saved)), uint64(s.entries() * entryBytes)
}

// What a thing takes, in bytes (BenchmarkHeapPerObject).
const (
	entryBytes  = 40   // an entry of an index: three words, in nodes that are partly filled
	objectBytes = 1250 // an object, beside its JSON
	packedBytes = 310  // a packed object, beside its data
)

// All yields all entries, ordered by namespace and name, which must not change
// meanwhile.
func (s *Set) All(yield func(*Entry) bool) { s.all.Ascend(yield) }

// Entries yields the present entries, ordered by namespace and name, whatever changes later.
func (s *Set) Entries() iter.Seq[*Entry] {
	all := s.all.Clone()
	return func(yield func(*Entry) bool) { all.Ascend(yield) }
}

// Put adds or replaces an object, and returns its entry.
func (s *Set) Put(o *object.Object) *Entry {
	e := newEntry(o)
	old, _ := s.all.ReplaceOrInsert(e)
	s.changed(old, e)
	return e
}

// Remove removes an object.
func (s *Set) Remove(key object.Key) {
	if old, ok := s.all.Delete(at(key)); ok {
		s.changed(old, nil)
	}
}

// BeginReplace returns a set with the same objects, which the caller changes without the
// lock of this one, however long that takes, and gives to EndReplace. Until then nobody may
// change this one, and no index is made.
func (s *Set) BeginReplace() *Set {
	s.replacing = true
	clear(s.builds) // they would miss what changes
	shared, next := s.share(), New()
	next.all, next.indexes, next.room, next.bytes, next.saved = shared.all, shared.indexes, s.room, s.bytes, s.saved
	return next
}

// EndReplace makes the set have what the next one has.
func (s *Set) EndReplace(next *Set) {
	s.replacing = false
	if next.changes == 0 {
		return
	}
	s.all, s.indexes, s.bytes = next.all, next.indexes, next.bytes
	s.saved = min(s.saved, next.saved) // until a sweep ends
	s.changes += next.changes
	s.latest = nil
	s.open.replace(next.open.replaced)
}

// changed does what follows from the change of an object. Either may be nil.
func (s *Set) changed(old, updated *Entry) {
	s.changes++
	s.latest = nil
	if updated != nil {
		s.bytes += updated.size()
	}
	if old != nil {
		s.bytes -= old.size()
		s.saved -= min(s.saved, old.saved())
		s.open.replace(old.size() + objectOverhead)
	}
	for _, x := range s.indexes {
		x.change(old, updated)
	}
	s.trim()
	for _, b := range s.builds {
		b.add(change{old, updated})
	}
}

// objectOverhead is about what a replaced object takes beside its JSON while snapshots
// have it: its parsed metadata, and the nodes of the trees that were copied.
const objectOverhead = 6 << 10
