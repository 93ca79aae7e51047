package cache

import (
	"context"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// Derived is an informer of objects that the host makes of others: the API server has none of
// them. Runs read them as they read any kind, with edges. Its methods, but for Informer, must
// be called by one goroutine.
type Derived struct {
	shared *informer
	shown  *Informer
}

// DerivedKind returns the kind of the objects that are made of those of another kind under a name. It is none that a
// manifest could name.
func DerivedKind(of abi.Kind, name string) abi.Kind {
	of.Kind += "/" + name
	return of
}

// SourceOf returns the kind of the objects of which those of a kind are made. It is the kind itself if they are not
// derived.
func SourceOf(kind abi.Kind) (of abi.Kind, derived bool) {
	of = kind
	of.Kind, _, derived = strings.Cut(kind.Kind, "/")
	return of, derived
}

// Derive is [Cache.Derive] for objects that are made of those of the informer.
func (i *Informer) Derive(name string) (*Derived, error) {
	return i.parts[0].informer.cache.Derive(DerivedKind(i.Kind(), name), i.Namespaced())
}

// Derive starts an informer of a kind that no API server has, in the place of another one of the kind. Reads of it
// fail with [ErrNotSynced] until [Derived.Complete] is called. The caller must call Stop.
func (c *Cache) Derive(kind abi.Kind, namespaced bool) (*Derived, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, ErrStopped
	}
	i := c.makeInformer(object.Resource{Kind: kind, Namespaced: namespaced}, scope.Scope{Kind: kind})
	i.users = 1
	shown := &Informer{scope: i.scope}
	shown.add(i, i.scope)
	shown.released.Store(true) // it is stopped by Stop alone
	c.informers[i.selected], c.derived[kind] = i, shown
	i.running.Go(func() { i.store.feed.run(i.ctx) })
	i.running.Go(func() { i.store.packUnread(i.ctx) })
	return &Derived{i, shown}, nil
}

// Derived returns the informer of a derived kind, nil if there is none.
func (c *Cache) Derived(kind abi.Kind) *Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.derived[kind]
}

// Informer returns what users read.
func (d *Derived) Informer() *Informer { return d.shown }

// Put adds or replaces an object. It is no change if the resourceVersion is the same.
func (d *Derived) Put(o *object.Object) { _ = d.shared.store.Update(o) } // is always nil

// Remove removes an object, if there is one of that name.
func (d *Derived) Remove(key object.Key) {
	o := &object.Object{}
	o.Namespace, o.Name = key.Namespace, key.Name
	_ = d.shared.store.Delete(o) // is always nil
}

// Complete states that every object has been put, so that reads begin to see them.
func (d *Derived) Complete() { d.shared.store.complete() }

// Stop ends the informer. Runs that read it keep what they have read.
func (d *Derived) Stop() {
	c := d.shared.cache
	c.mu.Lock()
	if c.informers[d.shared.selected] == d.shared {
		delete(c.informers, d.shared.selected)
		delete(c.derived, d.shown.Kind())
	}
	c.mu.Unlock()
	d.shared.stop()
}

// makeInformer returns an informer that is not started, and sends no requests.
func (c *Cache) makeInformer(resource object.Resource, s scope.Scope) *informer {
	i := &informer{cache: c, scope: s, selected: selectedBy(s), store: newStore(), edges: c.edges.Kind(resource.Kind)}
	i.store.restored = i.restored
	i.store.missed = func(o Owner) { c.hooks.Wake(o, Event{}, false) }
	i.store.subscribe(&handler{event: i.changed, synced: i.edges.Synced})
	i.health = newHealth(c.config.Logger.With("kind", s.String()), c.hooks.OutageEnded)
	i.resource.Store(&resource)
	i.ctx, i.cancel = context.WithCancel(c.ctx)
	return i
}
