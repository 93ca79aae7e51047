package objects

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// This file keeps the indexes by label and by field.
//
// An index is made when a list asks for it, by that list, without a lock: from a
// snapshot, and from the changes since, which the set collects meanwhile.

// Attribute is a label, a field, or the UID of the controller, of which objects have values.
type Attribute struct {
	Label string
	path  string // of a field, or controllerPath; "" for a label
	field fieldpath.Path
}

// controllerPath stands for the UID of the controller. No field has that path.
const controllerPath = ":controller"

// name identifies the attribute: no label has a colon.
func (a Attribute) name() string {
	if a.path != "" {
		return ":" + a.path
	}
	return a.Label
}

const (
	// An object with more values of a field, or larger ones, and an object that is larger
	// itself is a candidate for every list by a field.
	maxValues      = 8
	maxValueBytes  = 256
	maxObjectBytes = 64 << 10
)

// overflow is the value in an index of an object with too many values.
var overflow = []string{"\x00"}

// own makes the attribute keep nothing of the message of a guest.
func (a *Attribute) own() {
	a.Label, a.path = strings.Clone(a.Label), strings.Clone(a.path)
	if field, err := fieldpath.ParsePath(a.path); err == nil {
		a.field = field
	}
}

// values returns the values of an object for the index.
func (a Attribute) values(o *object.Object) []string {
	switch a.path {
	case "":
		if value, ok := o.Labels[a.Label]; ok {
			return []string{value}
		}
		return nil
	case controllerPath:
		if uid := o.ControllerUID(); uid != "" {
			return []string{uid}
		}
		return nil
	}
	if len(o.Raw) > maxObjectBytes {
		return overflow
	}
	values := a.field.Values(o.Raw)
	if len(values) > maxValues || slices.ContainsFunc(values, func(v string) bool { return len(v) > maxValueBytes }) {
		return overflow
	}
	return values
}

const (
	// maxIndexes is how many labels and fields of a kind are indexed. Lists by others look at
	// every object of their namespace.
	maxIndexes = 8
	// maxEntries is how many entries all indexes of a kind have together, 40 bytes each.
	maxEntries = 1 << 20
	// keepFor is how long an index is kept after its last use by the plugin that it is for.
	keepFor = time.Minute
	// maxBuildBytes is how much of what changes meanwhile is kept for an index that is
	// being built.
	maxBuildBytes = 4 << 20
	// worthIndexing is the number of objects below which no index is made.
	worthIndexing = 256
)

// labelled is an object in an index. The value does not alias the text of an object, which
// it would keep in memory.
type labelled struct {
	value string
	*Entry
}

func (a labelled) before(b labelled) bool {
	if c := cmp.Compare(a.value, b.value); c != 0 {
		return c < 0
	}
	return before(a.Entry, b.Entry)
}

// index has the objects with an attribute in the order of value, namespace and name.
type index struct {
	of   Attribute
	tree *btree.BTreeG[labelled]
	use  *atomic.Pointer[use] // shared with its clones
}

func newIndex(of Attribute) *index {
	return &index{of: of, tree: btree.NewG(degree, labelled.before), use: &atomic.Pointer[use]{}}
}

func (x *index) clone() *index { return &index{x.of, x.tree.Clone(), x.use} }

// change replaces an object. Either may be nil.
func (x *index) change(old, updated *Entry) {
	var is []string
	if updated != nil {
		is = x.of.values(updated.Unpacked())
	}
	if old != nil {
		for _, value := range x.of.values(old.Peek()) {
			if !slices.Contains(is, value) {
				x.tree.Delete(labelled{value, old})
			}
		}
	}
	for _, value := range is {
		x.tree.ReplaceOrInsert(labelled{x.own(value), updated})
	}
}

// own returns a copy of a value, which all objects with the value share.
func (x *index) own(value string) (own string) {
	x.tree.AscendGreaterOrEqual(labelled{value, at(object.Key{})}, func(l labelled) bool {
		own = l.value
		return false
	})
	if own != value {
		own = strings.Clone(value)
	}
	return own
}

// change is one of a set. Either entry may be nil.
type change struct{ old, updated *Entry }

// Build is an index that is being built.
type Build struct {
	of       Attribute
	by       string // the plugin
	snapshot *Snapshot
	index    *index
	changes  []change // of the set since the snapshot
	bytes    int      // of changes; too many end the build
}

// add adds a change of the set since the snapshot.
func (b *Build) add(c change) {
	for _, e := range []*Entry{c.old, c.updated} {
		if e != nil {
			b.bytes += e.size() + objectOverhead
		}
	}
	if b.changes = append(b.changes, c); b.bytes > maxBuildBytes {
		b.changes = nil
	}
}

// BeginIndex begins to index an attribute for a plugin, or returns nil if it is indexed
// already, or must not be. The caller calls [Build.Run] and [Set.EndIndex]. limited is set
// if the plugin has no room for it. It is set once in keepFor.
func (s *Set) BeginIndex(of Attribute, by string, now time.Time) (b *Build, limited bool) {
	if s.replacing || s.builds[by] != nil || s.indexes[of.name()] != nil || s.Len() < worthIndexing || now.Sub(s.refused[refusal{by, of.name()}]) < keepFor {
		return nil, false
	}
	of.own()
	if _, fits := s.toDrop(by, s.minCost(), now); !fits {
		s.refuse(of, by, now)
		return nil, true
	}
	b = &Build{of: of, by: by, snapshot: s.Open()}
	s.builds[by] = b
	return b, false
}

// Run builds the index. look is that of [Query].
func (b *Build) Run(look func(cost int)) {
	shared := b.snapshot.state.Load()
	if shared == nil {
		return
	}
	x := newIndex(b.of)
	var found []labelled
	seen := lookedAt{report: look}
	shared.all.Ascend(func(e *Entry) bool {
		o := seen.read(e)
		seen.add(1)
		if x.of.path != "" && x.of.path != controllerPath {
			seen.add(ReadingCost(o))
		}
		for _, value := range x.of.values(o) {
			found = append(found, labelled{strings.Clone(value), e})
		}
		return true
	})
	slices.SortStableFunc(found, func(a, b labelled) int { return cmp.Compare(a.value, b.value) })
	for _, l := range found {
		seen.add(1)
		x.tree.ReplaceOrInsert(labelled{x.own(l.value), l.Entry})
	}
	seen.end()
	b.index = x
}

// CatchUp applies the changes of the set since the snapshot, or since its last call. The
// lock of the set is held to take them, and not to apply them: they may have to be unpacked.
// The caller calls it after [Build.Run] until it returns false, which leaves few to EndIndex.
func (b *Build) CatchUp(lock sync.Locker) (more bool) {
	lock.Lock()
	changes := b.changes
	b.changes = nil
	lock.Unlock()
	if b.index == nil { // the snapshot had expired
		return false
	}
	b.apply(changes)
	return len(changes) > fewChanges
}

// fewChanges are applied in less time than anybody should wait for a lock.
const fewChanges = 16

func (b *Build) apply(changes []change) {
	for _, c := range changes {
		b.index.change(c.old, c.updated)
	}
}

// EndIndex ends what [Set.BeginIndex] has begun, also when [Build.Run] has not
// ended. limited is set if the plugin has no room for the index.
func (s *Set) EndIndex(b *Build, now time.Time) (limited bool) {
	s.Close(b.snapshot)
	if s.builds[b.by] != b { // the set was replaced
		return false
	}
	delete(s.builds, b.by)
	if b.index == nil || s.indexes[b.of.name()] != nil { // another plugin was faster
		return false
	}
	b.apply(b.changes)
	drop, fits := s.toDrop(b.by, s.cost(b.index), now)
	if b.bytes > maxBuildBytes || !fits {
		s.refuse(b.of, b.by, now)
		return !fits
	}
	s.drop(drop)
	b.index.use.Store(&use{b.by, now})
	s.indexes[b.of.name()] = b.index
	s.latest = nil
	return false
}

// lookedAt counts the cost of what is looked at, and reports it some at a time.
type lookedAt struct {
	cost   int
	report func(cost int)
}

const reportEvery = 256

func (l *lookedAt) add(cost int) {
	if l.cost += cost; l.cost >= reportEvery {
		l.end()
	}
}

func (l *lookedAt) end() {
	if l.report != nil && l.cost > 0 {
		cost := l.cost
		l.cost = 0
		l.report(cost)
	}
}

// read reads an object. One that is packed costs as much as to read a field of it some times.
func (l *lookedAt) read(e *Entry) *object.Object {
	o, wasPacked := e.read(false)
	if wasPacked {
		l.add(unpackingCost * ReadingCost(o))
	}
	return o
}

// unpackingCost is how much longer it takes to unpack an object than to read a field of it.
const unpackingCost = 4

// ReadingCost is what it costs to read a field of an object.
func ReadingCost(o *object.Object) int { return 1 + len(o.Raw)/bytesPerCost }

// bytesPerCost is how many bytes of JSON are read in the time that comparing an object
// with a requirement takes.
const bytesPerCost = 256

// cost is what it costs to compare the object with a query.
func (q *Query) cost(o *object.Object) int {
	cost := 1 + len(q.Fields)*ReadingCost(o)
	if q.Selector != nil {
		requirements, _ := q.Selector.Requirements()
		cost += len(requirements)
	}
	return cost
}
