package runner

import (
	"context"
	"sync/atomic"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// written has the informers of kinds that a plugin writes and of which it does not follow
// every object otherwise. They have metadata, by which a run finds without a request that
// nothing has to be written. Nothing waits for them: where they cannot be used, objects are
// read from the API server.
type written struct {
	informers
	own    cache.OwnWrites // that they do not show yet
	unused atomic.Bool     // own was full: they are not used until the plugin is started again
	remove []func()        // the handlers of findSharedLater
}

// acquireWritten acquires the informers of kinds that a plugin writes, as far as there can
// be any. It returns an error only if ctx has ended, since a kind may be missing for that.
func acquireWritten(ctx context.Context, c *cache.Cache, follows *scope.Plugin) (map[abi.Kind]*cache.Informer, error) {
	byKind := map[abi.Kind]*cache.Informer{}
	for _, s := range follows.Written {
		if informer, err := c.Acquire(ctx, s); err == nil {
			informer.PollEvery(follows.PollIntervals[s.Kind])
			byKind[s.Kind] = informer
		}
	}
	return byKind, context.Cause(ctx)
}

// replace sets the informers and releases those before.
func (w *written) replace(byKind map[abi.Kind]*cache.Informer) {
	for _, remove := range w.remove {
		remove()
	}
	w.remove = nil
	w.informers.replace(byKind)
	w.unused.Store(false)
}

// synced returns the informer of a kind, nil if there is none that has read anything.
func (w *written) synced(kind abi.Kind) *cache.Informer {
	if i := w.informers.get(kind); i != nil && i.HasSynced() && !w.unused.Load() {
		return i
	}
	return nil
}

// get returns the informer of a kind, nil if there is none that shows what others change.
func (w *written) get(kind abi.Kind) *cache.Informer {
	if i := w.synced(kind); i != nil && i.Err() == nil {
		return i
	}
	return nil
}

// limit ends the use of the informers if they are so late, or have failed for so long,
// that no more writes can be remembered: no run has to wait for them.
func (w *written) limit() {
	if w.own.Full() {
		w.unused.Store(true)
		w.own.Clear()
	}
}

// presence returns what an informer, nil for none, shows of an object.
func presence(i *cache.Informer, own *cache.OwnWrites, key object.Key) (*object.Object, effect.Presence) {
	if i == nil || !i.HasSynced() || !i.Has(key.Namespace) {
		return nil, effect.Unknown
	}
	switch o := own.Get(i, key); {
	case o != nil:
		return o, effect.Present
	case i.Scope().Selects():
		return nil, effect.Unselected
	}
	return nil, effect.Absent
}

// bytesBy returns about how many bytes field managers have written whose names begin with a
// prefix, of the kinds that the plugin follows or writes, and whether all of these were
// read. A kind that is read by two informers, one of which has all its objects, counts as
// the larger of both.
func (p *plugin) bytesBy(prefix string) (size int, all bool) {
	sizes := map[abi.Kind]int{}
	all = true
	add := func(kind abi.Kind, informer *cache.Informer, own *cache.OwnWrites) {
		all = all && informer.HasSynced()
		sizes[kind] = max(sizes[kind], informer.BytesBy(prefix, own))
	}
	for kind, informer := range p.informers.all() {
		add(kind, informer, &p.ownWrites)
	}
	for kind, informer := range p.written.all() {
		add(kind, informer, &p.written.own)
	}
	for _, n := range sizes {
		size += n
	}
	return size, all
}

// late returns the kinds that have not been listed yet.
func (w *written) late() (kinds []abi.Kind) {
	for kind, informer := range w.byKind {
		if !informer.HasSynced() {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// findSharedLater makes the primaries due that share objects of kinds that were not listed
// at the start, when these are: see [effect.Performer.FindShared].
func (p *plugin) findSharedLater(kinds []abi.Kind) {
	for _, kind := range kinds {
		informer := p.written.informers.get(kind)
		find := p.sharedFinder(kind)
		p.written.remove = append(p.written.remove, informer.AddHandler(
			func(key object.Key) { find(p.written.own.Get(informer, key)) }, // it has been listed in between
			func(e cache.Event) {
				if e.Initial {
					find(e.New)
				}
			},
		))
	}
}

// sharedFinder returns what makes the primaries due that share an object, nil for one that
// is gone.
func (p *plugin) sharedFinder(kind abi.Kind) func(*object.Object) {
	performer, running := p.effects.Load(), p.controllers
	return func(o *object.Object) {
		if o == nil {
			return
		}
		for _, c := range running {
			declared := c.Revision().Controller
			c.Resync(performer.FindSharedIn(&declared, kind, o))
		}
	}
}
