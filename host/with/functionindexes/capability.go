package functionindexes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:          contract.Name,
		Check:         contract.Check,
		CheckManifest: contract.CheckManifest,
		Exports:       []with.Export{{Name: contract.Export, Meaning: "gives keys to an object", Imports: []string{}}},
		Imports: []with.Import{{
			Name: contract.Import, Meaning: "finds objects by keys that the plugin gives", MaxMessage: abi.MaxCall,
		}},
		Title:    "Indexes",
		Describe: describe,
		New: func(env runner.Environment) runner.Capability {
			failures := env.Metrics.Counter("thole_index_failures_total",
				"Calls of the function of an index that have failed: the object keeps the keys that it has.", "plugin", "index")
			return runner.Capability{Plugin: func(name string) runner.PluginPart {
				return (&plugin{Environment: env, name: name, failures: failures}).part()
			}}
		},
	}
}

// plugin has the indexes of one plugin.
type plugin struct {
	runner.Environment
	name     string
	failures *prometheus.CounterVec

	mu      sync.Mutex
	indexes map[contract.Index]*index // of the running revision; is replaced, never changed
}

func (p *plugin) part() runner.PluginPart {
	return runner.PluginPart{
		Prepare: func(_ context.Context, rev *runner.Revision) (runner.Use, error) {
			return func(with runner.Running) any { p.use(rev, with); return nil }, nil
		},
		Controller: func(runner.Handle) runner.ControllerPart {
			return runner.ControllerPart{Hooks: dispatch.Hooks{
				Imports: map[string]func(context.Context, *dispatch.ImportCall) ([]byte, int64){contract.Import: p.get},
				Resolve: p.resolve,
			}}
		},
		Granted: func() {
			for _, x := range p.running() {
				x.refresh()
			}
		},
		Stop: func() { p.replace(nil) },
	}
}

// running returns the indexes of the running revision.
func (p *plugin) running() map[contract.Index]*index {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.indexes
}

// use starts the indexes of a revision in the place of those before.
func (p *plugin) use(rev *runner.Revision, with runner.Running) {
	before, started := p.running(), map[contract.Index]*index{}
	for _, x := range contract.OfManifest(rev.Manifest) {
		s, err := start(p.configOf(rev, x, with), before[x])
		if err != nil { // the host is about to stop
			p.Logger.Error("the index does not start", "plugin", p.name, "index", x.Name, "error", err)
			continue
		}
		started[x] = s
	}
	p.replace(started)
}

// replace sets the indexes, and stops those that are in no other's place.
func (p *plugin) replace(indexes map[contract.Index]*index) {
	p.mu.Lock()
	before := p.indexes
	p.indexes = indexes
	p.mu.Unlock()
	for of, x := range before {
		if indexes[of] == nil {
			x.stop()
		}
	}
}

func (p *plugin) configOf(rev *runner.Revision, x contract.Index, with runner.Running) config {
	log := with.Logger(p.Logger.Named("index").With("plugin", p.name, "index", x.Name))
	failures := p.failures.WithLabelValues(p.name, x.Name)
	return config{
		plugin: p.name, name: x.Name, guest: rev.Guest, config: rev.Policy.Config,
		objects: with.Informers[x.Kind], access: with.Access, logger: log,
		failed: func(o *object.Object, err error) {
			failures.Inc()
			log.Warn("the function of the index has failed for an object, which keeps the keys that it has",
				"object", o.Key().String(), "error", err)
			with.Recorder.Event(o, abi.EventWarning, "IndexFailed", "the index "+x.Name+" of the plugin "+p.name+
				" cannot give keys to this object, which keeps those that it has: "+err.Error())
		},
	}
}

// indexOf returns the index of that name.
func indexOf(c *abi.Controller, name string) (x contract.Index, ok bool) {
	all := contract.Of(c)
	i := slices.IndexFunc(all, func(x contract.Index) bool { return x.Name == name })
	if i < 0 {
		return x, false
	}
	return all[i], true
}

// resolve finds primaries by an index, which may be of more than these.
func (p *plugin) resolve(rev *dispatch.Revision, name, key string) (list cache.Reading, ok bool) {
	x, ok := indexOf(&rev.Controller, name)
	return having(p.name, x, key), ok && x.Kind == rev.Controller.For.Kind
}

// get answers the import: a list of what the index has, as one of any kind.
func (p *plugin) get(ctx context.Context, call *dispatch.ImportCall) (reply []byte, code int64) {
	message, err := contract.DecodeCall(call.Message)
	if err != nil {
		return call.Invalid(err)
	}
	x, ok := indexOf(&call.Revision.Controller, message.Index)
	if !ok {
		call.Warn("denied: the controller has no index of that name in "+contract.Name, "index", message.Index)
		return nil, abi.CodeDenied
	}
	found, code := call.ListDerived(ctx, message.Namespace, having(p.name, x, message.Key))
	if code != 0 {
		return nil, code
	}
	answer, size := contract.Reply{}, 0
	for _, o := range found.Items {
		item, err := lookup(o, message.Key)
		if err != nil {
			call.Warn("the index cannot be read", "error", err)
			return nil, abi.CodeUnavailable
		}
		if size += len(item.Namespace) + len(item.Name) + len(item.Value); size > call.MaxReply {
			return nil, abi.CodeTooLarge
		}
		answer.Items = append(answer.Items, item)
	}
	return contract.EncodeReply(&answer), 0
}

// describe describes indexes such as "by-site of v1 Pod, by a function".
func describe(c *abi.Controller) string {
	var texts []string
	for _, x := range contract.Of(c) {
		texts = append(texts, fmt.Sprintf("%s of %s, by a function", x.Name, x.Kind))
	}
	return strings.Join(texts, "; ")
}
