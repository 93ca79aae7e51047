package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Run is the view that one reconcile has of the cache. Each read is registered
// as an edge of its owner. A run is used by one goroutine, an owner has at most
// one open run at a time, and it must be ended by Commit or Abandon.
//
// An object that a run has read, by itself or in a list, does not change for
// the rest of the run. Objects that it has not read are as new as the cache.
type Run struct {
	own    *OwnWrites
	edges  *edges
	reader *reader // nil after the end
	seen   map[edge]struct{}
	views  map[abi.Kind]*view
}

// errEnded is returned for a read after the end of the run.
var errEnded = errors.New("the run has ended")

// Begin opens a run for an owner. own are the writes of its plugin, which its
// reads contain.
func (c *Cache) Begin(o Owner, own *OwnWrites) *Run {
	return &Run{
		own:    own,
		edges:  c.edges,
		reader: c.edges.begin(o),
		seen:   map[edge]struct{}{},
		views:  map[abi.Kind]*view{},
	}
}

// Get reads an object. It returns false if there is no such object. The error is
// [ErrNotSynced] if the informer of the kind has not synced, or one of
// [Cache.Acquire]. The caller checks whether the owner may read the object.
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

// List reads the objects of a namespace that match the selector, ordered by
// namespace and name. "" stands for all namespaces, and a nil selector matches
// everything. The slice must not be modified. Errors are those of Get.
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

// read registers an edge and returns the view of its kind.
func (r *Run) read(ctx context.Context, kind abi.Kind, target func(*kindEdges) edge) (*view, error) {
	if r.reader == nil {
		return nil, errEnded
	}
	at, synced, err := r.edges.register(ctx, r.reader, kind, target)
	if err != nil {
		return nil, err
	}
	r.seen[at] = struct{}{}
	if !synced {
		return nil, ErrNotSynced
	}
	if r.views[kind] == nil {
		r.views[kind] = &view{owner: r.reader.owner, own: r.own, informer: at.kind.informer, objects: map[object.Key]*object.Object{}}
	}
	return r.views[kind], nil
}

// Commit ends a run that has returned a result. The edges to what it has read
// replace the edges of earlier runs.
func (r *Run) Commit() {
	if r.reader != nil {
		r.edges.retain(r.reader, r.seen)
		r.Abandon()
	}
}

// Abandon ends a run that has not returned a result. The edges of earlier runs
// stay beside its own. After Commit it does nothing. A run that has ended keeps
// nothing of what it has read in memory.
func (r *Run) Abandon() {
	if r.reader != nil {
		r.edges.end(r.reader)
		r.reader, r.seen, r.views = nil, nil, nil
	}
}

// view is what a run has read of one kind.
type view struct {
	owner    Owner
	own      *OwnWrites
	informer *Informer
	objects  map[object.Key]*object.Object // read by Get; nil if there was none
	lists    []listing
}

// listing is a list that a run has read.
type listing struct {
	namespace string
	selector  labels.Selector
	items     []*object.Object // ordered by namespace and name
}

func (v *view) get(key object.Key) *object.Object {
	if o, ok := v.seen(key); ok {
		return o
	}
	o, ahead := v.own.get(v.informer, key)
	v.objects[key] = o
	v.wakeIfSkipped(ahead)
	return o
}

// wakeIfSkipped is for a state that the run was given and the informer does not show.
func (v *view) wakeIfSkipped(version string) {
	if version != "" {
		v.informer.WakeIfSkipped(v.owner, version)
	}
}

// seen returns an object as the run has read it, nil if it has read that there
// is none. ok is false if the run has not read it.
func (v *view) seen(key object.Key) (o *object.Object, ok bool) {
	if o, ok := v.objects[key]; ok {
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
	items, ahead := v.own.list(v.informer, namespace, sel)
	v.wakeIfSkipped(ahead)
	l := listing{namespace: namespace, selector: sel, items: items}
	if len(v.objects) > 0 || len(v.lists) > 0 {
		l.items = v.withSeen(l)
	}
	v.lists = append(v.lists, l)
	return l.items
}

// withSeen returns the items of a list with the objects that the run has read
// before in the state in which it has read them.
func (v *view) withSeen(l listing) []*object.Object {
	items := slices.DeleteFunc(l.items, func(o *object.Object) bool {
		_, before := v.seen(o.Key())
		return before
	})
	before := slices.Collect(maps.Values(v.objects))
	for _, earlier := range v.lists {
		before = append(before, earlier.items...)
	}
	for _, o := range before {
		if o != nil && inNamespace(o.Namespace, l.namespace) && l.selector.Matches(labels.Set(o.Labels)) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, byKey)
	return slices.Compact(items)
}

// inNamespace reports whether a list of one namespace, or of all if it is "",
// has the objects of a namespace.
func inNamespace(namespace, listed string) bool { return listed == "" || namespace == listed }
