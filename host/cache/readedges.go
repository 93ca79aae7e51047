package cache

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Owner is a key of a controller. It owns the edges to what it has read.
type Owner struct {
	Controller string // unique in the host, such as "plugin/controller"
	Key        object.Key
}

const (
	// An owner with maxEdges edges, or with maxEdgeBytes of names and selectors
	// in them, depends on the whole kind of whatever else it reads.
	maxEdges     = 10_000
	maxEdgeBytes = 1 << 20
	// A namespace of a kind has at most maxSelectors selectors that cannot be
	// indexed by a label. Further ones count as selecting everything there.
	maxSelectors = 200
)

// edges is the index from objects and lists to the owners that have read them.
//
// An edge is registered before the value is read, under the lock under which
// events look up edges. A change is therefore contained in the value or leads
// to a call of Wake, or both.
type edges struct {
	cache *Cache

	mu      sync.Mutex // not held while an informer is acquired, nor during Wake
	readers map[Owner]*reader
	kinds   map[abi.Kind]*kindEdges
}

// reader is an owner with its edges.
type reader struct {
	owner     Owner
	edges     []edge
	bytes     int  // of the names and selectors in edges
	runs      int  // number of open runs
	forgotten bool // by Forget: open runs register no more edges
}

// edge is an object, or a list if list is set, on which an owner depends.
type edge struct {
	kind *kindEdges
	key  object.Key
	list *listEdge
}

func newEdges(c *Cache) *edges {
	return &edges{cache: c, readers: map[Owner]*reader{}, kinds: map[abi.Kind]*kindEdges{}}
}

// register adds an edge, which target makes, and returns it. It acquires the
// informer for the first edge of a kind. While the informer has not synced, it
// returns false, and the sync will wake the owner.
func (e *edges) register(ctx context.Context, r *reader, kind abi.Kind, target func(*kindEdges) edge) (at edge, synced bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[kind]
	if k == nil {
		if k, err = e.acquire(ctx, kind); err != nil {
			return at, false, err
		}
	}
	at, synced = target(k), k.informer.HasSynced()
	if r.forgotten {
		e.releaseUnused(k)
		return at, synced, nil
	}
	if !synced {
		k.unsynced[r] = struct{}{}
	}
	if !at.has(r) {
		at = e.add(r, at)
	}
	return at, synced, nil
}

// add adds an edge, or that to the whole kind if the owner has too many.
func (e *edges) add(r *reader, at edge) edge {
	if len(r.edges) >= maxEdges || r.bytes+at.size() > maxEdgeBytes {
		at = edge{kind: at.kind, list: at.kind.listFor("", labels.Everything())}
	}
	// The strings alias the message of a guest, which may be much longer.
	at.key = object.Key{Namespace: strings.Clone(at.key.Namespace), Name: strings.Clone(at.key.Name)}
	if at.add(r) {
		r.edges = append(r.edges, at)
		r.bytes += at.size()
	}
	return at
}

// acquire adds a handler for the events of a kind. It unlocks e.mu meanwhile.
func (e *edges) acquire(ctx context.Context, kind abi.Kind) (*kindEdges, error) {
	e.mu.Unlock()
	informer, err := e.cache.Acquire(ctx, kind)
	e.mu.Lock()
	if err != nil {
		return nil, err
	}
	if k := e.kinds[kind]; k != nil { // acquired by another goroutine meanwhile
		informer.Release()
		return k, nil
	}
	k := newKindEdges(informer)
	k.remove = informer.subscribe(&handler{
		event:       func(event Event) { e.changed(k, event) },
		synced:      func() { e.synced(k) },
		changesOnly: true,
	})
	e.kinds[kind] = k
	return k, nil
}

// changed calls Wake for the owners that depend on an object, before or after
// the change. Objects of an initial list are left out, because the owners that
// could not read them wait for the sync.
func (e *edges) changed(k *kindEdges, event Event) {
	if event.Initial {
		return
	}
	e.mu.Lock()
	dependents := k.dependents(event)
	e.mu.Unlock()
	e.wake(dependents, event)
}

// synced calls Wake for the owners whose reads failed with ErrNotSynced.
func (e *edges) synced(k *kindEdges) {
	e.mu.Lock()
	unsynced := k.unsynced
	k.unsynced = nil
	e.mu.Unlock()
	e.wake(unsynced, Event{})
}

func (e *edges) wake(readers map[*reader]struct{}, event Event) {
	for r := range readers {
		e.cache.config.Wake(r.owner, event)
	}
}

// begin opens a run. The reader of an owner is kept while a run is open.
func (e *edges) begin(o Owner) *reader {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.readers[o]
	if r == nil {
		r = &reader{owner: o}
		e.readers[o] = r
	}
	r.runs++
	return r
}

// end closes a run. The reader is removed if the owner depends on nothing.
func (e *edges) end(r *reader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.runs--
	if r.runs == 0 && !r.forgotten && len(r.edges) == 0 {
		delete(e.readers, r.owner)
	}
}

// retain removes every edge of an owner that is not in the set.
func (e *edges) retain(r *reader, set map[edge]struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var unsynced []*kindEdges // of edges that are removed
	r.edges = slices.DeleteFunc(r.edges, func(at edge) bool {
		_, keep := set[at]
		if !keep {
			if _, waits := at.kind.unsynced[r]; waits {
				unsynced = append(unsynced, at.kind)
			}
			e.drop(r, at)
		}
		return !keep
	})
	for _, k := range unsynced {
		r.forgetSync(k)
	}
}

// forgetSync makes the owner not wait for the sync of a kind that it does not depend
// on any more.
func (r *reader) forgetSync(k *kindEdges) {
	if !slices.ContainsFunc(r.edges, func(at edge) bool { return at.kind == k }) {
		delete(k.unsynced, r)
	}
}

func (e *edges) drop(r *reader, at edge) {
	at.remove(r)
	r.bytes -= at.size()
	e.releaseUnused(at.kind)
}

// releaseUnused releases the informer of a kind without edges. The informer
// keeps running for some time, so that an open run can still read.
func (e *edges) releaseUnused(k *kindEdges) {
	if k.empty() {
		delete(e.kinds, k.informer.Kind())
		k.remove()
		k.informer.Release()
	}
}

func (e *edges) forget(r *reader) {
	r.forgotten = true
	for _, at := range r.edges {
		delete(at.kind.unsynced, r)
		e.drop(r, at)
	}
	r.edges = nil
	delete(e.readers, r.owner)
}

// Forget removes the edges of a key that does not exist any more. A run of the
// key that is still open leaves no edges.
func (c *Cache) Forget(o Owner) {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	if r := c.edges.readers[o]; r != nil {
		c.edges.forget(r)
	}
}

// ForgetController removes the edges of all keys of a controller.
func (c *Cache) ForgetController(name string) {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	for owner, r := range c.edges.readers {
		if owner.Controller == name {
			c.edges.forget(r)
		}
	}
}
