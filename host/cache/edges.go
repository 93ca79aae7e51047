package cache

import (
	"context"
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

// Cause is the reason for a call of [Config.Wake]: a change of something that
// the owner has read. Event is zero if the informer of the kind has synced after
// a read of the owner has failed with [ErrNotSynced].
type Cause struct {
	Kind  abi.Kind
	Key   object.Key
	Event Event
}

const (
	// An owner with maxEdges edges, or with maxEdgeBytes of names and selectors
	// in them, depends on the whole kind of whatever else it reads.
	maxEdges     = 10_000
	maxEdgeBytes = 1 << 20
	// A kind has at most maxSelectors selectors that cannot be indexed by a
	// label. Further ones count as selecting everything.
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
	bytes     int                   // of the names and selectors in edges
	pending   map[abi.Kind]struct{} // kinds that had not synced when they were read
	runs      int                   // number of open runs
	forgotten bool                  // by Forget: open runs register no more edges
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

// register adds an edge and returns it with the informer of its kind, which it
// acquires for the first edge of a kind. target makes the edge.
func (e *edges) register(ctx context.Context, r *reader, kind abi.Kind, target func(*kindEdges) edge) (*Informer, edge, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[kind]
	if k == nil {
		var err error
		if k, err = e.acquire(ctx, kind); err != nil {
			return nil, edge{}, err
		}
	}
	at := target(k)
	if r.forgotten {
		e.releaseUnused(k)
		return k.informer, at, nil
	}
	if at.has(r) {
		return k.informer, at, nil
	}
	if len(r.edges) >= maxEdges || r.bytes+at.size() > maxEdgeBytes {
		at = edge{kind: k, list: k.listFor("", labels.Everything())}
	}
	if at = at.detach(); at.add(r) {
		r.edges = append(r.edges, at)
		r.bytes += at.size()
	}
	return k.informer, at, nil
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
		synced:      func() { e.synced(kind) },
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
	key := event.Object().Key()
	e.mu.Lock()
	owners := k.dependents(key, event)
	e.mu.Unlock()
	for _, owner := range owners {
		e.cache.config.Wake(owner, Cause{Kind: k.informer.Kind(), Key: key, Event: event})
	}
}

// synced calls Wake for the owners whose reads failed with ErrNotSynced.
func (e *edges) synced(kind abi.Kind) {
	var owners []Owner
	e.mu.Lock()
	for owner, r := range e.readers {
		if _, ok := r.pending[kind]; ok {
			delete(r.pending, kind)
			owners = append(owners, owner)
		}
	}
	e.mu.Unlock()
	for _, owner := range owners {
		e.cache.config.Wake(owner, Cause{Kind: kind})
	}
}

// awaitSync records that Wake is to be called for an owner when a kind has
// synced, and reports whether it has by now. It looks after it has recorded the
// owner, because synced may have run in between.
func (e *edges) awaitSync(r *reader, informer *Informer) (synced bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.pending == nil {
		r.pending = map[abi.Kind]struct{}{}
	}
	r.pending[informer.Kind()] = struct{}{}
	if informer.HasSynced() || r.forgotten {
		delete(r.pending, informer.Kind())
	}
	return informer.HasSynced()
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
	if r.runs == 0 && !r.forgotten && len(r.edges) == 0 && len(r.pending) == 0 {
		delete(e.readers, r.owner)
	}
}

// retain removes every edge of an owner that is not in the set.
func (e *edges) retain(r *reader, set map[edge]struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := r.edges[:0]
	for _, at := range r.edges {
		if _, ok := set[at]; ok {
			kept = append(kept, at)
			continue
		}
		e.drop(r, at)
	}
	clear(r.edges[len(kept):])
	r.edges = kept
	if len(kept) == 0 {
		r.edges = nil
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
	r.pending = nil
	for _, at := range r.edges {
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

// Edges returns the number of edges of a kind.
func (c *Cache) Edges(kind abi.Kind) int {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	if k := c.edges.kinds[kind]; k != nil {
		return k.count
	}
	return 0
}
