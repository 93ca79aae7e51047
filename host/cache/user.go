package cache

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// Informer shows one user the objects of a scope: nothing else of what the informers
// behind it have for others. It must not be used after Release, when they may stop at any
// time.
type Informer struct {
	scope    scope.Scope
	parts    []part // one for all namespaces, or one for each of those of the scope, in order
	released atomic.Bool
}

// part is what one informer has of a scope.
type part struct {
	*informer
	// rest is the scope without what is certain of every object of the informer.
	rest     scope.Scope
	filtered bool // rest leaves out some of them
}

func (i *Informer) add(shared *informer, s scope.Scope) {
	rest := s.Without(shared.scope)
	i.parts = append(i.parts, part{shared, rest, rest.Namespaces != nil || rest.Selects()})
}

// Narrow returns the same informer for a narrower scope. It is used until the informer is
// released.
func (i *Informer) Narrow(s scope.Scope) *Informer {
	narrow := &Informer{scope: s}
	for _, p := range i.parts {
		inPart := s.Within(p.scope.Namespaces).Within(p.rest.Namespaces)
		if inPart.Namespaces == nil || len(inPart.Namespaces) > 0 {
			narrow.add(p.informer, inPart)
		}
	}
	narrow.released.Store(true)
	return narrow
}

// Scope returns what the informer shows.
func (i *Informer) Scope() scope.Scope { return i.scope }

// Release ends the use. Further calls do nothing. Handlers stay until they are
// removed or the informer stops.
func (i *Informer) Release() {
	if i.released.CompareAndSwap(false, true) {
		i.stopPolling()
		for _, p := range i.parts {
			p.cache.release(p.informer)
		}
	}
}

// IsServedAs reports whether the objects come from the same informers as those of
// another user.
func (i *Informer) IsServedAs(other *Informer) bool {
	return other != nil && slices.EqualFunc(i.parts, other.parts, func(a, b part) bool { return a.informer == b.informer })
}

// Kind returns the kind of the objects.
func (i *Informer) Kind() abi.Kind { return i.scope.Kind }

// Resource returns how the kind is served.
func (i *Informer) Resource() object.Resource { return *i.parts[0].resource.Load() }

// Namespaced reports whether the objects of the kind live in namespaces.
func (i *Informer) Namespaced() bool { return i.parts[0].Namespaced() }

// HasSynced reports whether all objects were read once.
func (i *Informer) HasSynced() bool {
	return !slices.ContainsFunc(i.parts, func(p part) bool { return !p.HasSynced() })
}

// WaitForSync blocks until HasSynced. It fails when ctx is done, and as soon as
// a request of the informer fails, with the error of the API server. The
// informer retries nevertheless, so that a later call may succeed.
func (i *Informer) WaitForSync(ctx context.Context) error {
	for _, p := range i.parts {
		if err := p.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// WaitFor blocks until the informer has shown a resourceVersion of a namespace, "" for all of
// them, for which it asks now and then. It fails when ctx is done.
func (i *Informer) WaitFor(ctx context.Context, namespace, version string) error {
	for n := range i.parts {
		p := &i.parts[n]
		position := p.positionOf(version)
		for namespace == "" || p == i.in(namespace) {
			if reached, err := p.store.reached(position); reached || err != nil {
				break // one that cannot be compared says nothing
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for resourceVersion %s of %s: %w", version, i.scope, context.Cause(ctx))
			case <-p.cache.config.Clock.After(waitForInterval):
			}
		}
	}
	return nil
}

const waitForInterval = 20 * time.Millisecond

// Err returns why the informer cannot watch at the moment, or nil.
func (i *Informer) Err() error {
	for _, p := range i.parts {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether objects of a namespace are shown, if they are selected.
func (i *Informer) Has(namespace string) bool { return i.in(namespace) != nil }

// in returns the part with the objects of a namespace, nil if there is none. For a
// cluster-scoped kind the namespace is ignored.
func (i *Informer) in(namespace string) *part {
	namespace = i.parts[0].namespace(namespace)
	for n := range i.parts {
		if p := &i.parts[n]; p.scope.HasNamespace(namespace) && p.rest.HasNamespace(namespace) {
			return p
		}
	}
	return nil
}

// namespace returns the namespace, or "" if the kind is cluster-scoped.
func (i *informer) namespace(namespace string) string {
	if i.Namespaced() {
		return namespace
	}
	return ""
}

// onlyNamespace returns the namespace if all that is shown is of one, else "".
func (p *part) onlyNamespace() string {
	if len(p.rest.Namespaces) == 1 && p.Namespaced() {
		return p.rest.Namespaces[0]
	}
	return ""
}

// shows returns what is shown of an object that may be nil: nothing of one that is not in
// the scope.
func (p *part) shows(o *object.Object) *object.Object {
	switch {
	case o == nil, p.filtered && !p.rest.Has(o):
		return nil
	case p.rest.MetadataOnly:
		return o.Metadata()
	}
	return o
}

// Get returns an object from the store.
func (i *Informer) Get(key object.Key) (*object.Object, bool) {
	p := i.in(key.Namespace)
	if p == nil {
		return nil, false
	}
	o := p.shows(p.store.get(key))
	return o, o != nil
}

// List returns the objects of a namespace that match the selector, ordered by
// namespace and name. "" stands for all namespaces, and a nil selector matches
// everything. For a cluster-scoped kind the namespace is ignored.
func (i *Informer) List(namespace string, sel labels.Selector) []*object.Object {
	return i.list(Owner{}, objects.Query{Namespace: i.parts[0].namespace(namespace), Selector: sel})
}

// All yields all objects, ordered by namespace and name. It reads one after the other.
func (i *Informer) All(yield func(*object.Object) bool) {
	for n := range i.parts {
		p := &i.parts[n]
		for o := range p.store.each {
			if o = p.shows(o); o != nil && !yield(o) {
				return
			}
		}
	}
}

// Keys returns the wanted keys of objects, ordered by namespace and name. Unlike List, it
// reads an object only if its key is wanted and does not tell whether it is shown: objects
// may be packed.
func (i *Informer) Keys(wanted func(object.Key) bool) (all []object.Key) {
	for n := range i.parts {
		p := &i.parts[n]
		all = append(all, p.store.keys(func(e *objects.Entry) bool {
			return wanted(e.Key()) && p.has(e)
		})...)
	}
	return all
}

// BytesBy returns about how many bytes the field managers have written whose names begin
// with a prefix: of all objects of the informers behind this one, with the writes of own
// that they do not show yet. No object is read for it.
func (i *Informer) BytesBy(prefix string, own *OwnWrites) (size int) {
	for n := range i.parts {
		size += i.parts[n].store.bytesBy(prefix)
	}
	if pending := own.ofKind(i.Kind()); pending != nil {
		pending.Ascend(func(e *ownWrite) bool {
			if p := i.in(e.key.Namespace); p != nil && !e.isPassed(p.informer) {
				size += bytesBy(e.object, prefix) - bytesBy(p.store.get(e.key), prefix)
			}
			return true
		})
	}
	return size
}

// bytesBy is [object.Object.BytesBy] of an object that may be nil.
func bytesBy(o *object.Object, prefix string) int {
	if o == nil {
		return 0
	}
	return o.BytesBy(prefix)
}

// has reports whether an object is shown. It reads one only if a selector decides.
func (p *part) has(e *objects.Entry) bool {
	return p.rest.HasNamespace(e.Key().Namespace) && (!p.rest.Selects() || p.rest.Has(e.Object()))
}

// ListBy returns the objects of a namespace with a value of a field, as List does, for an
// owner. A label or field that is asked for often is indexed.
func (i *Informer) ListBy(o Owner, namespace string, field fieldpath.Path, value string) []*object.Object {
	return i.list(o, objects.Query{Namespace: i.parts[0].namespace(namespace), Fields: fieldpath.Selector{{Path: field, Value: value}}})
}

// OwnedBy returns the objects of a namespace whose controller has that UID, as List does, for an owner.
func (i *Informer) OwnedBy(o Owner, namespace, uid string) []*object.Object {
	return i.list(o, objects.Query{Namespace: i.parts[0].namespace(namespace), Controller: uid})
}

func (i *Informer) list(owner Owner, q objects.Query) (all []*object.Object) {
	q.By = owner.Plugin()
	for n := range i.parts {
		p := &i.parts[n]
		found, limited := p.store.list(q, p.cache.config.Clock.Now())
		p.listed(owner, limited)
		for _, o := range found {
			if o = p.shows(o); o != nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// AddHandler calls existing with the key of each object that is shown, and then changed with
// each change, for each namespace one call at a time. An object that is no longer in
// the scope counts as deleted. They must not block, because a slow handler delays the other
// handlers of the informer. A call that has begun may still run when remove returns.
//
// existing may be nil. Unlike changes, objects that exist are not read, unless a selector
// decides whether they are shown: they may be packed. Those of the first list come as
// changes.
func (i *Informer) AddHandler(existing func(object.Key), changed func(Event)) (remove func()) {
	var removers []func()
	for n := range i.parts {
		p := &i.parts[n]
		h := &handler{event: func(e Event) {
			e.Old, e.New = p.seen(e.Old), p.seen(e.New)
			if e.Old != nil || e.New != nil {
				changed(e)
			}
		}}
		if existing != nil {
			h.existing = func(e *objects.Entry) {
				if p.has(e) {
					existing(e.Key())
				}
			}
		}
		removers = append(removers, p.subscribe(h))
	}
	return func() {
		for _, remove := range removers {
			remove()
		}
	}
}

// AddChangeHandler is AddHandler for changes alone, without those of the first list.
func (i *Informer) AddChangeHandler(h func(old, updated *object.Object)) (remove func()) {
	return i.AddHandler(nil, func(e Event) {
		if !e.Initial {
			h(e.Old, e.New)
		}
	})
}

// seen is shows without a copy of the metadata.
func (p *part) seen(o *object.Object) *object.Object {
	if o == nil || p.filtered && !p.rest.Has(o) {
		return nil
	}
	return o
}

// Live reads an object from the API server, whether or not it is in the scope. The error
// is an [apierrors.APIStatus], NotFound if there is no such object.
func (i *Informer) Live(ctx context.Context, key object.Key) (*object.Object, error) {
	p := i.in(key.Namespace)
	if p == nil {
		return nil, fmt.Errorf("get %s %s: %w", i.Kind(), key, ErrNotFollowed)
	}
	return p.Live(ctx, key)
}
