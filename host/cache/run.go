package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Run is one reconcile's view of the cache. What it reads is registered as an
// edge of its owner before it is read. It is used by one goroutine, and an
// owner has one open run at a time; it ends with Commit or Abandon.
//
// Whatever object a run has read stays as it was for the rest of the run, be
// it read alone or in a list. What it has not read yet is as new as the cache.
type Run struct {
	edges  *edges
	reader *reader
	seen   map[edge]struct{}
	views  map[abi.Kind]*view
	ended  bool
}

// errEnded is a mistake of the caller.
var errEnded = errors.New("the run has ended")

// Begin opens a run of an owner.
func (c *Cache) Begin(o Owner) *Run {
	return &Run{
		edges:  c.edges,
		reader: c.edges.begin(o),
		seen:   map[edge]struct{}{},
		views:  map[abi.Kind]*view{},
	}
}

// Get reads an object; false if it is not there. The error is [ErrNotSynced]
// when the informer of the kind was not ready, in which case the owner is
// woken when it is, or one of those of [Cache.Acquire]. Whether the owner may
// read the object is the caller's question.
func (r *Run) Get(ctx context.Context, kind abi.Kind, key object.Key) (*object.Object, bool, error) {
	v, err := r.read(ctx, kind, func(k *kindEdges) edge {
		key.Namespace = k.informer.scope(key.Namespace)
		return edge{kind: k, key: key}
	})
	if err != nil {
		return nil, false, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	o := v.get(key)
	return o, o != nil, nil
}

// List reads the objects of a namespace, of all namespaces if it is "", that
// match the selector, all if it is nil, ordered by namespace and name. The
// slice is shared: it must not be changed. Errors are those of Get.
func (r *Run) List(ctx context.Context, kind abi.Kind, namespace string, sel labels.Selector) ([]*object.Object, error) {
	if sel == nil {
		sel = labels.Everything()
	}
	v, err := r.read(ctx, kind, func(k *kindEdges) edge {
		namespace = k.informer.scope(namespace)
		return edge{kind: k, list: k.listFor(namespace, sel)}
	})
	if err != nil {
		return nil, fmt.Errorf("list %s in %q: %w", kind, namespace, err)
	}
	return v.list(namespace, sel), nil
}

// read registers an edge and returns what the run sees of the kind.
func (r *Run) read(ctx context.Context, kind abi.Kind, target func(*kindEdges) edge) (*view, error) {
	if r.ended {
		return nil, errEnded
	}
	informer, at, err := r.edges.register(ctx, r.reader, kind, target)
	if err != nil {
		return nil, err
	}
	r.seen[at] = struct{}{}
	if !informer.HasSynced() && !r.edges.await(r.reader, informer) {
		return nil, ErrNotSynced
	}
	if r.views[kind] == nil {
		r.views[kind] = &view{informer: informer, single: map[object.Key]*object.Object{}}
	}
	return r.views[kind], nil
}

// Commit ends a run that returned a result: what it read replaces what the
// owner depended on before.
func (r *Run) Commit() {
	if !r.ended {
		r.edges.keep(r.reader, r.seen)
		r.Abandon()
	}
}

// Abandon ends a run that did not return: the owner depends on what it read
// and on what it depended on before. After Commit it does nothing.
func (r *Run) Abandon() {
	if !r.ended {
		r.ended = true
		r.edges.end(r.reader)
	}
}

// view is what a run has seen of a kind.
type view struct {
	informer *Informer
	single   map[object.Key]*object.Object // nil for one that was not there
	lists    []listing
}

// listing is a list that a run has seen.
type listing struct {
	namespace string
	selector  labels.Selector
	items     []*object.Object // by namespace and name
}

func (v *view) get(key object.Key) *object.Object {
	if o, ok := v.seen(key); ok {
		return o
	}
	o, _ := v.informer.Get(key)
	v.single[key] = o
	return o
}

// seen returns the object as the run has read it, nil if it was not there.
func (v *view) seen(key object.Key) (*object.Object, bool) {
	if o, ok := v.single[key]; ok {
		return o, true
	}
	for _, l := range v.lists {
		if o := l.find(key); o != nil {
			return o, true
		}
		if l.selector.Empty() && inNamespace(key.Namespace, l.namespace) {
			return nil, true
		}
	}
	return nil, false
}

func (l listing) find(key object.Key) *object.Object {
	i, ok := slices.BinarySearchFunc(l.items, key, compareKey)
	if !ok {
		return nil
	}
	return l.items[i]
}

func (v *view) list(namespace string, sel labels.Selector) []*object.Object {
	for _, l := range v.lists {
		if l.namespace == namespace && l.selector.String() == sel.String() {
			return l.items
		}
	}
	l := listing{namespace: namespace, selector: sel, items: v.informer.List(namespace, sel)}
	if len(v.single) > 0 || len(v.lists) > 0 {
		l.items = v.asSeen(l)
	}
	v.lists = append(v.lists, l)
	return l.items
}

// asSeen puts the objects that the run has read before into a newer list, as
// they were then.
func (v *view) asSeen(l listing) []*object.Object {
	var items []*object.Object
	for _, o := range l.items {
		if _, before := v.seen(o.Key()); !before {
			items = append(items, o)
		}
	}
	take := func(o *object.Object) {
		if first, _ := v.seen(o.Key()); first == o && inNamespace(o.Namespace, l.namespace) && l.selector.Matches(labels.Set(o.Labels)) {
			items = append(items, o)
		}
	}
	for _, o := range v.single {
		if o != nil {
			take(o)
		}
	}
	for _, before := range v.lists {
		for _, o := range before.items {
			take(o)
		}
	}
	slices.SortFunc(items, byKey)
	return slices.Compact(items)
}

// inNamespace says whether a list of a namespace has objects of another.
func inNamespace(namespace, listed string) bool { return listed == "" || namespace == listed }
