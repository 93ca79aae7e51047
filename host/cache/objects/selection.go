package objects

import (
	"iter"
	"time"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// Query selects objects.
type Query struct {
	Namespace  string          // "" for all namespaces
	Selector   labels.Selector // nil for everything
	Fields     fieldpath.Selector
	Controller string     // the UID of the controller; "" for any
	After      object.Key // only what comes after it; the zero value for everything
	By         string     // the plugin that lists
	// Look is called with what was looked at since its last call: one for an object, and
	// one more for each requirement it was compared with, or for each 256 bytes that
	// were read for it. It may panic, and be nil.
	Look func(cost int)
}

// Matches reports whether the query selects an object.
func (q *Query) Matches(o *object.Object) bool {
	return (q.Namespace == "" || o.Namespace == q.Namespace) && (q.Controller == "" || o.ControllerUID() == q.Controller) &&
		(q.Selector == nil || q.Selector.Matches(labels.Set(o.Labels))) && (len(q.Fields) == 0 || q.Fields.Matches(o.Raw))
}

// List yields the objects that a query selects, ordered by namespace and name. The
// error is [ErrExpired].
func (n *Snapshot) List(q Query) (iter.Seq[*object.Object], error) {
	shared := n.state.Load()
	if shared == nil {
		return nil, ErrExpired
	}
	return func(yield func(*object.Object) bool) {
		seen := &lookedAt{report: q.Look}
		shared.candidates(q, seen)(func(e *Entry) bool {
			o := seen.read(e)
			seen.add(q.cost(o))
			return !q.Matches(o) || yield(o)
		})
		seen.end()
	}, nil
}

// Unindexed returns the attributes of which the query requires a value, and that have
// no index in the snapshot. now is the time of the use of those that have one.
func (n *Snapshot) Unindexed(q Query, now time.Time) (missing []Attribute) {
	shared := n.state.Load()
	if shared == nil {
		return nil
	}
	for of := range required(q) {
		if x := shared.indexes[of.name()]; x != nil {
			x.isUsed(q.By, now)
		} else {
			missing = append(missing, of)
		}
	}
	return missing
}

// candidates are the objects of an index that have one of some values, among which are
// those of a query.
type candidates struct {
	index  *index
	values []string
	query  *Query
}

// candidates yields what a query has to look at, in order.
func (s *state) candidates(q Query, seen *lookedAt) iter.Seq[*Entry] {
	var all []candidates
	for of, values := range required(q) {
		if x := s.indexes[of.name()]; x != nil {
			all = append(all, candidates{x, values, &q})
		}
	}
	if len(all) == 0 { // else an index has nothing that the namespace has not
		return s.inNamespace(q)
	}
	return fewest(all, seen).ordered(seen)
}

// ordered yields the candidates in the order of their keys. Of each value it looks at a
// few objects at a time: a page looks at about what it has, and not at all that follows.
func (c candidates) ordered(seen *lookedAt) iter.Seq[*Entry] {
	first := at(c.query.First())
	if len(c.values) == 1 {
		return c.of(c.values[0], first)
	}
	return func(yield func(*Entry) bool) {
		next := btree.NewG(degree, run.before)
		for _, value := range c.values {
			if r := (run{value: value, length: 1, last: first}); c.advance(&r, seen) {
				next.ReplaceOrInsert(r)
			}
		}
		var last *Entry
		for r, ok := next.DeleteMin(); ok; r, ok = next.DeleteMin() {
			if e := r.entries[0]; e != last { // one object may have several values
				if last = e; !yield(e) {
					return
				}
			}
			if c.advance(&r, seen) {
				next.ReplaceOrInsert(r)
			}
		}
	}
}

// run is what is looked at of the candidates with one value.
type run struct {
	value   string
	entries []*Entry // the next ones
	last    *Entry   // of those that were looked at
	length  int      // how many to look at next
}

const maxRun = 32

// before orders runs by their next entries, and those with the same entry by value.
func (r run) before(other run) bool {
	a, b := r.entries[0], other.entries[0]
	return before(a, b) || a.key == b.key && r.value < other.value
}

// advance goes to the next entry of a run. It reports whether there is one.
func (c candidates) advance(r *run, seen *lookedAt) bool {
	if len(r.entries) > 1 {
		r.entries = r.entries[1:]
		return true
	}
	seen.add(1)
	r.entries = make([]*Entry, 0, r.length)
	for e := range c.of(r.value, r.last) {
		if e == r.last {
			continue
		}
		seen.add(1)
		if r.entries = append(r.entries, e); len(r.entries) == r.length {
			break
		}
	}
	if len(r.entries) == 0 {
		return false
	}
	r.last, r.length = r.entries[len(r.entries)-1], min(2*r.length, maxRun)
	return true
}

// required yields the attributes of which a query requires one of some values.
func required(q Query) iter.Seq2[Attribute, []string] {
	return func(yield func(Attribute, []string) bool) {
		if q.Controller != "" && !yield(Attribute{path: controllerPath}, []string{q.Controller}) {
			return
		}
		for _, r := range q.Fields { // an object without the field has the value ""
			if !r.Not && r.Value != "" && !yield(Attribute{path: r.Path.String(), field: r.Path}, append([]string{r.Value}, overflow...)) {
				return
			}
		}
		if q.Selector == nil {
			return
		}
		requirements, _ := q.Selector.Requirements()
		for _, r := range requirements {
			switch r.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				if !yield(Attribute{Label: r.Key()}, r.ValuesUnsorted()) {
					return
				}
			default:
			}
		}
	}
}

// fewest returns the candidates of which there are the fewest, or nearly. It looks
// at no more than a few times as many, and not at very many: a list that is read in
// pages compares for each of them.
func fewest(all []candidates, seen *lookedAt) candidates {
	for limit := 16; len(all) > 1 && limit <= 1024; limit *= 4 {
		for _, c := range all {
			if !c.exceed(limit, seen) {
				return c
			}
		}
	}
	return all[0]
}

func (c candidates) exceed(limit int, seen *lookedAt) bool {
	first := at(c.query.First())
	for _, value := range c.values {
		seen.add(1)
		for range c.of(value, first) {
			seen.add(1)
			if limit--; limit < 0 {
				return true
			}
		}
	}
	return false
}

// inNamespace yields the objects of the namespace of a query, or all.
func (s *state) inNamespace(q Query) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		s.all.AscendGreaterOrEqual(at(q.First()), func(e *Entry) bool {
			if q.Namespace != "" && e.key.Namespace != q.Namespace {
				return false
			}
			return q.isAfter(e) || yield(e)
		})
	}
}

// First returns the key at which the objects of a query begin. An object that has the
// key After is not one of them.
func (q *Query) First() object.Key {
	if q.Namespace > q.After.Namespace {
		return object.Key{Namespace: q.Namespace}
	}
	return q.After
}

func (q *Query) isAfter(e *Entry) bool { return e.key == q.After }

// of yields the candidates with a value, from the key of an entry on.
func (c candidates) of(value string, from *Entry) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		c.index.tree.AscendGreaterOrEqual(labelled{value, from}, func(l labelled) bool {
			if l.value != value || c.query.Namespace != "" && l.key.Namespace != c.query.Namespace {
				return false
			}
			return c.query.isAfter(l.Entry) || yield(l.Entry)
		})
	}
}
