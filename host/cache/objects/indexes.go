package objects

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/thole-dev/thole/host/object"
)

// This file keeps the indexes by label.
//
// An index is made when a list asks for the label, by that list, without a lock:
// from a snapshot, and from the changes since, which the set collects meanwhile.

const (
	// maxIndexes is how many labels of a kind are indexed. Lists by others look at
	// every object of their namespace.
	maxIndexes = 8
	// keepFor is how long after its last use an index is kept when others are
	// asked for.
	keepFor = time.Minute
	// worthIndexing is the number of objects below which no index is made.
	worthIndexing = 256
)

// labelled is an object in an index.
type labelled struct {
	value string
	*object.Object
}

func (a labelled) before(b labelled) bool {
	if c := cmp.Compare(a.value, b.value); c != 0 {
		return c < 0
	}
	return before(a.Object, b.Object)
}

// index has the objects with a label in the order of its value, namespace and name.
type index struct {
	label string
	tree  *btree.BTreeG[labelled]
	used  *atomic.Int64 // when it was used last, in nanoseconds; shared with its clones
}

func newIndex(label string) *index {
	return &index{label: label, tree: btree.NewG(degree, labelled.before), used: &atomic.Int64{}}
}

func (x *index) clone() *index { return &index{x.label, x.tree.Clone(), x.used} }

// change replaces an object. Either may be nil.
func (x *index) change(old, updated *object.Object) {
	was, had := x.of(old)
	is, has := x.of(updated)
	if had && !(has && was.value == is.value) {
		x.tree.Delete(was)
	}
	if has {
		x.tree.ReplaceOrInsert(is)
	}
}

func (x *index) of(o *object.Object) (labelled, bool) {
	if o == nil {
		return labelled{}, false
	}
	value, ok := o.Labels[x.label]
	return labelled{value, o}, ok
}

// change is one of a set. Either object may be nil.
type change struct{ old, updated *object.Object }

// Build is an index that is being built.
type Build struct {
	label    string
	snapshot *Snapshot
	index    *index
	changes  []change // of the set since the snapshot
}

// BeginIndex begins to index a label, or returns nil if it is indexed already,
// or must not be. The caller calls [Build.Run] and [Set.EndIndex].
func (s *Set) BeginIndex(label string, now time.Time) *Build {
	if s.indexes[label] != nil || s.builds[label] != nil || s.Len() < worthIndexing || !s.hasRoom(now) {
		return nil
	}
	b := &Build{label: strings.Clone(label), snapshot: s.Open()}
	s.builds[b.label] = b
	return b
}

// hasRoom drops the index that was not used for the longest time, if there are as
// many as there may be.
func (s *Set) hasRoom(now time.Time) bool {
	if len(s.indexes)+len(s.builds) < maxIndexes {
		return true
	}
	var oldest *index
	for _, x := range s.indexes {
		if oldest == nil || x.used.Load() < oldest.used.Load() {
			oldest = x
		}
	}
	if oldest == nil || now.Sub(time.Unix(0, oldest.used.Load())) < keepFor {
		return false
	}
	delete(s.indexes, oldest.label)
	s.latest = nil
	return true
}

// Run builds the index. look is called with the number of objects looked at since
// its last call; it may panic.
func (b *Build) Run(look func(objects int)) {
	shared := b.snapshot.state.Load()
	if shared == nil {
		return
	}
	x := newIndex(b.label)
	var found []labelled
	seen := lookedAt{report: look}
	shared.all.Ascend(func(o *object.Object) bool {
		seen.one()
		if entry, ok := x.of(o); ok {
			found = append(found, entry)
		}
		return true
	})
	slices.SortStableFunc(found, func(a, b labelled) int { return cmp.Compare(a.value, b.value) })
	for _, entry := range found {
		seen.one()
		x.tree.ReplaceOrInsert(entry)
	}
	seen.end()
	b.index = x
}

// EndIndex ends what [Set.BeginIndex] has begun, also when [Build.Run] has not
// ended.
func (s *Set) EndIndex(b *Build, now time.Time) {
	delete(s.builds, b.label)
	s.Close(b.snapshot)
	if b.index == nil {
		return
	}
	for _, c := range b.changes {
		b.index.change(c.old, c.updated)
	}
	b.index.used.Store(now.UnixNano())
	s.indexes[b.label] = b.index
	s.latest = nil
}

// lookedAt counts objects, and reports them some at a time.
type lookedAt struct {
	objects int
	report  func(objects int)
}

const reportEvery = 256

func (l *lookedAt) one() {
	if l.objects++; l.objects == reportEvery {
		l.end()
	}
}

func (l *lookedAt) end() {
	if l.report != nil && l.objects > 0 {
		n := l.objects
		l.objects = 0
		l.report(n)
	}
}
