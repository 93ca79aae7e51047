package edges

import (
	"slices"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// Run is what one run of a key reads. It is used by one goroutine, a key has at
// most one open run at a time, and it must be ended by Commit or Abandon.
//
// An edge is to be added before the value is read. A change leads to a call of
// [Config.Wake] from then on, also during the run.
type Run struct {
	index     *Index
	reader    *reader          // nil after the end
	positions map[identity]int // in reader.edges; nil while there are few
}

// Begin opens a run of a key, whose strings are kept: they must not be part of the
// text of an object.
func (x *Index) Begin(o Owner) *Run {
	c := x.controller(o.Controller)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgotten {
		return &Run{index: x, reader: &reader{controller: c, key: o.Key, forgotten: true}}
	}
	r := c.readers[o.Key]
	if r == nil {
		r = &reader{controller: c, key: o.Key}
		c.readers[r.key] = r
		x.readers.Add(1)
	}
	for i := range r.edges {
		r.edges[i].seen = false
	}
	return &Run{index: x, reader: r}
}

// Get adds an edge to fields of an object, which are kept.
func (r *Run) Get(k *Kind, key object.Key, fields fieldpath.Set) {
	r.add(k, key.Namespace, func(p *plugin) target { return k.withPart(p, k.object(key), fields) })
}

// List adds an edge to fields of the objects of a list of a namespace, or of all if it
// is "". The fields are kept.
func (r *Run) List(k *Kind, namespace string, sel Selection, fields fieldpath.Set) {
	r.add(k, namespace, func(p *plugin) target { return k.withPart(p, k.list(p, namespace, sel), fields) })
}

// WaitForSync reports whether the kind has synced. If not, the owner is woken when
// it has.
func (r *Run) WaitForSync(k *Kind, synced func() bool) bool {
	c := r.reader.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	return synced() || !r.reader.forgotten && !k.addUnsynced(r.reader, synced)
}

// add adds the edge to what is read in a namespace.
func (r *Run) add(k *Kind, namespace string, read func(*plugin) target) {
	owner := r.reader.owner()
	limited, missed := r.addLocked(k, namespace, read)
	if limited {
		r.index.config.Limited(owner, k.kind)
	}
	if missed {
		r.index.config.Wake(owner, Change{}, true)
	}
}

// addLocked reports whether the reader has too many edges, which one replaces then, and
// whether it was to be woken in bulk with the readers of one that was replaced.
func (r *Run) addLocked(k *Kind, namespace string, read func(*plugin) target) (limited, missed bool) {
	c := r.reader.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.reader.forgotten || r.isCovered(k, namespace) {
		return false, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := read(c.plugin)
	if i := r.find(k, t.id); i >= 0 {
		r.reader.edges[i].seen = true
		return false, false
	}
	if !r.hasRoom(t) {
		k.removeUnused(&t)
		return true, r.coarsen(k, namespace)
	}
	r.hold(t)
	return false, false
}

// isCovered reports whether this run depends on a whole namespace, or on all.
func (r *Run) isCovered(k *Kind, namespace string) bool {
	for _, all := range []string{namespace, ""} {
		if i := r.find(k, k.everythingID(all)); i >= 0 && r.reader.edges[i].seen {
			return true
		}
	}
	return false
}

// hasRoom reports whether the reader may have one more edge. The first one to a kind
// takes no more than what would stand for it.
func (r *Run) hasRoom(t target) bool {
	if len(r.reader.edges) < maxEdges && r.index.hasRoom(r.reader.controller, t.bytes()) {
		return true
	}
	return t.rest == nil && !r.reader.dependsOn(t.kind)
}

// hold adds an edge that the reader does not have. The kind is locked.
func (r *Run) hold(t target) {
	e := t.edge
	e.seen = true
	r.index.count(r.reader.controller, e.kind.add(r.reader, &t))
	r.reader.edges = append(r.reader.edges, e)
	if r.positions != nil {
		r.positions[e.identity()] = len(r.reader.edges) - 1
	}
}

const fewEdges = 16

// find returns the position of an edge, -1 if the reader does not have it.
func (r *Run) find(k *Kind, id uint64) int {
	if len(r.reader.edges) <= fewEdges {
		return slices.IndexFunc(r.reader.edges, func(e edge) bool { return e.kind == k && e.id == id })
	}
	if r.positions == nil {
		r.positions = make(map[identity]int, len(r.reader.edges))
		for i := range r.reader.edges {
			r.positions[r.reader.edges[i].identity()] = i
		}
	}
	if i, ok := r.positions[identity{k, id}]; ok {
		return i
	}
	return -1
}

// coarsen replaces all edges of the reader to a kind by one, to a namespace if none
// leads elsewhere, else to the whole kind. It reports whether the readers of one of them are
// to be woken, which the reader then leaves. The kind is locked.
func (r *Run) coarsen(k *Kind, namespace string) (pending bool) {
	reader := r.reader
	t := k.everything(namespace)
	for _, e := range reader.edges {
		if e.kind == k && e.namespace != t.namespace {
			t = k.everything("")
		}
	}
	t.committed = slices.ContainsFunc(reader.edges, func(e edge) bool { return e.kind == k && e.committed })
	r.index.filter(reader, func(e *edge) bool { return e.kind == k }, func(e *edge) int64 {
		_, waits := k.pending[e.id]
		pending = pending || waits
		return k.remove(reader, e)
	})
	r.positions = nil
	r.hold(t)
	return pending
}

// Commit ends a run that has returned a result. The edges to what it has read
// replace the edges of earlier runs.
func (r *Run) Commit() {
	r.end(func(e *edge) bool {
		e.committed = e.seen
		return e.seen
	})
}

// Abandon ends a run that has not returned a result. The edges of the last run that
// did stay beside its own. After Commit it does nothing.
func (r *Run) Abandon() {
	r.end(func(e *edge) bool { return e.seen || e.committed })
}

func (r *Run) end(keep func(*edge) bool) {
	reader := r.reader
	if reader == nil {
		return
	}
	r.reader, r.positions = nil, nil
	c := reader.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if reader.forgotten {
		return
	}
	r.index.drop(reader, func(e *edge) bool { return !keep(e) })
	if len(reader.edges) == 0 {
		r.index.forget(reader)
	}
}
