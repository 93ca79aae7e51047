package cache

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Owner is who reads: a key of a controller.
type Owner struct {
	Controller string // distinct within the host, such as "plugin/controller"
	Key        object.Key
}

// Cause is why an owner is woken: a change of something that it read. Event is
// zero when the informer of the kind has synced, for those who were told
// [ErrNotSynced].
type Cause struct {
	Kind  abi.Kind
	Key   object.Key
	Event Event
}

const (
	// An owner with more edges than maxEdges, or with names and selectors of
	// more than maxEdgeBytes, depends on whole kinds instead of what it reads
	// further.
	maxEdges     = 10_000
	maxEdgeBytes = 1 << 20
	// A kind with more selectors than maxSelectors that no label finds counts
	// further ones as "everything".
	maxSelectors = 200
)

// edges knows which owner depends on what.
//
// An edge is registered before the value is read, under the same lock under
// which events look for it; so a change is either in the value or wakes.
type edges struct {
	cache *Cache

	mu      sync.Mutex // held neither while an informer is acquired nor while Wake runs
	readers map[Owner]*reader
	kinds   map[abi.Kind]*kindEdges
}

// reader is an owner and what it depends on.
type reader struct {
	owner   Owner
	edges   []edge
	bytes   int                   // of their names and selectors
	pending map[abi.Kind]struct{} // kinds that had not synced when it read them
	runs    int                   // open ones
	forgot  bool                  // by Forget: an open run registers nothing more
}

// edge is what one owner depends on: an object or, if list is set, a list.
type edge struct {
	kind *kindEdges
	key  object.Key
	list *listEdge
}

func newEdges(c *Cache) *edges {
	return &edges{cache: c, readers: map[Owner]*reader{}, kinds: map[abi.Kind]*kindEdges{}}
}

// register adds an edge, starting the informer of its kind if need be, and
// returns the informer. target makes the edge once its kind is there.
func (e *edges) register(ctx context.Context, r *reader, kind abi.Kind, target func(*kindEdges) edge) (*Informer, edge, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[kind]
	if k == nil {
		var err error
		if k, err = e.follow(ctx, kind); err != nil {
			return nil, edge{}, err
		}
	}
	at := target(k)
	if r.forgot {
		e.leave(k)
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

// follow starts to listen to a kind. It gives the lock up meanwhile.
func (e *edges) follow(ctx context.Context, kind abi.Kind) (*kindEdges, error) {
	e.mu.Unlock()
	informer, err := e.cache.Acquire(ctx, kind)
	e.mu.Lock()
	if err != nil {
		return nil, err
	}
	if k := e.kinds[kind]; k != nil { // somebody else was faster
		informer.Release()
		return k, nil
	}
	k := newKindEdges(informer)
	k.remove = informer.subscribe(&handler{
		event:   func(event Event) { e.changed(k, event) },
		synced:  func() { e.synced(kind) },
		changes: true,
	})
	e.kinds[kind] = k
	return k, nil
}

// changed wakes who depends on an object as it was or as it is. Objects of an
// initial list wake nobody: who could not read them waits for the sync.
func (e *edges) changed(k *kindEdges, event Event) {
	if event.Initial {
		return
	}
	key := event.Object().Key()
	e.mu.Lock()
	woken := k.dependents(key, event)
	e.mu.Unlock()
	for _, owner := range woken {
		e.cache.config.Wake(owner, Cause{Kind: k.informer.Kind(), Key: key, Event: event})
	}
}

// synced wakes who was told that a kind has not synced.
func (e *edges) synced(kind abi.Kind) {
	var woken []Owner
	e.mu.Lock()
	for owner, r := range e.readers {
		if _, ok := r.pending[kind]; ok {
			delete(r.pending, kind)
			woken = append(woken, owner)
		}
	}
	e.mu.Unlock()
	for _, owner := range woken {
		e.cache.config.Wake(owner, Cause{Kind: kind})
	}
}

// await notes that an owner wants to be woken when a kind has synced, and says
// whether it has by now. The order matters: see synced.
func (e *edges) await(r *reader, informer *Informer) (synced bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.pending == nil {
		r.pending = map[abi.Kind]struct{}{}
	}
	r.pending[informer.Kind()] = struct{}{}
	if informer.HasSynced() || r.forgot {
		delete(r.pending, informer.Kind())
	}
	return informer.HasSynced()
}

// begin returns the state of an owner, which stays while a run is open.
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

// end closes a run. An owner that depends on nothing is not remembered.
func (e *edges) end(r *reader) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.runs--
	if r.runs == 0 && !r.forgot && len(r.edges) == 0 && len(r.pending) == 0 {
		delete(e.readers, r.owner)
	}
}

// keep drops every edge of an owner that is not in the set.
func (e *edges) keep(r *reader, set map[edge]struct{}) {
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
	e.leave(at.kind)
}

// leave stops listening to a kind if it has no edges. Its informer goes on
// for some time, so that a run which is open can still read.
func (e *edges) leave(k *kindEdges) {
	if k.empty() {
		delete(e.kinds, k.informer.Kind())
		k.remove()
		k.informer.Release()
	}
}

func (e *edges) forget(r *reader) {
	r.forgot = true
	r.pending = nil
	for _, at := range r.edges {
		e.drop(r, at)
	}
	r.edges = nil
	delete(e.readers, r.owner)
}

// Forget drops the edges of a key that is gone. A run of it that is still open
// leaves none behind.
func (c *Cache) Forget(o Owner) {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	if r := c.edges.readers[o]; r != nil {
		c.edges.forget(r)
	}
}

// ForgetController drops the edges of all keys of a controller.
func (c *Cache) ForgetController(name string) {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	for owner, r := range c.edges.readers {
		if owner.Controller == name {
			c.edges.forget(r)
		}
	}
}

// Edges returns the number of edges of a kind, for metrics.
func (c *Cache) Edges(kind abi.Kind) int {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	if k := c.edges.kinds[kind]; k != nil {
		return k.count
	}
	return 0
}
