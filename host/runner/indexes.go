package runner

import (
	"context"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/index"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// indexes are those of the running revision whose keys the plugin gives, by their kind.
type indexes struct {
	mu     sync.RWMutex
	byKind map[abi.Kind]*index.Index
}

// get returns what an index has, nil if there is none of that kind.
func (all *indexes) get(kind abi.Kind) *cache.Informer {
	all.mu.RLock()
	defer all.mu.RUnlock()
	if x := all.byKind[kind]; x != nil {
		return x.Informer()
	}
	return nil
}

// replace sets the indexes and stops those that are in no other's place.
func (all *indexes) replace(byKind map[abi.Kind]*index.Index) {
	all.mu.Lock()
	before := all.byKind
	all.byKind = byKind
	all.mu.Unlock()
	for kind, x := range before {
		if byKind[kind] == nil {
			x.Stop()
		}
	}
}

// refresh makes the indexes call their functions for all objects.
func (all *indexes) refresh() {
	all.mu.RLock()
	defer all.mu.RUnlock()
	for _, x := range all.byKind {
		x.Refresh()
	}
}

// startIndexes starts the indexes of a revision in the place of those before. It must be
// called before the informers are released that those before use.
func (r *Runner) startIndexes(rev *Revision, p *plugin, byKind map[abi.Kind]*cache.Informer, may dispatch.Access) {
	started := map[abi.Kind]*index.Index{}
	for _, x := range rev.Manifest.IndexesByKeys() {
		kind := index.Kind(rev.Plugin, x.Name)
		config := r.indexConfig(rev, p, x, byKind[x.Kind], may)
		if s, err := index.Start(r.Cache, config, p.indexes.byKind[kind]); err == nil {
			started[kind] = s
		} else {
			r.Logger.Error("the index does not start", "plugin", rev.Plugin, "index", x.Name, "error", err) // the host is about to stop
		}
	}
	p.indexes.replace(started)
}

func (r *Runner) indexConfig(rev *Revision, p *plugin, x abi.Index, objects *cache.Informer, may dispatch.Access) index.Config {
	log := p.log.Logger(r.Logger.Named("index").With("plugin", rev.Plugin, "index", x.Name))
	failures := r.Metrics.IndexFailures(rev.Plugin, x.Name)
	return index.Config{
		Plugin: rev.Plugin, Name: x.Name, Guest: rev.Guest, Config: rev.Policy.Config, Objects: objects, Logger: log,
		Allowed: allowedToIndex(may),
		Failed: func(o *object.Object, err error) {
			failures.Inc()
			log.Warn("the function of the index has failed for an object, which keeps the keys that it has", "object", o.Key().String(), "error", err)
			p.recorder.Event(o, abi.EventWarning, "IndexFailed",
				"the index "+x.Name+" of the plugin "+rev.Plugin+" cannot give keys to this object, which keeps those that it has: "+err.Error())
		},
	}
}

// allowedToIndex returns [index.Config].Allowed for what an account may do, nil for the host.
// What an account may list it may read in an index.
func allowedToIndex(may dispatch.Access) func(context.Context, *object.Object) (bool, error) {
	if may == nil {
		return nil
	}
	return func(ctx context.Context, o *object.Object) (denied bool, err error) {
		err = may.May(ctx, rights.List, o.Kind, object.Key{Namespace: o.Namespace})
		return access.Denied(err), err
	}
}
