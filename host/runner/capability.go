package runner

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/telemetry"
)

// Environment is what a host gives its capabilities.
type Environment struct {
	Cluster *rest.Config
	Clients *kube.Clients      // without a limit of requests: their users have bounds of their own
	Metrics *telemetry.Metrics // for series of their own
	Events  events.Observer
	Logger  hclog.Logger
	Version string // of the host
	// Pod is that of the host, with its uid; nil outside of a pod.
	Pod *corev1.ObjectReference
	// Section is what the configuration has in the field of the capability; nil if there is no such field.
	Section config.HostSection
	DryRun  bool // nothing that the host writes may be stored
	// CacheDir is where capabilities may keep files, in folders of their own; "" if there is none.
	CacheDir  string
	MaxModule int64 // bytes of a module at the most
}

// Host is what a host has for its capabilities once all its stages were made. Its functions may be called concurrently.
type Host struct {
	Directory Directory
	// Reconsider makes a plugin look again at what [catalog.Replicas] has of it, and Restart stops a plugin and starts
	// its revision again. They do not block.
	Reconsider func(plugin string)
	Restart    func(plugin, reason string)
	Handlers   map[string]http.Handler // of all capabilities, see [Capability].Serve
	// Awaits reports whether there is a plugin that is about to run on this replica, and for which runs returns
	// false, or it is not known yet which plugins there are.
	Awaits func(runs func(plugin string) bool) bool
	// Plugins returns the states of all plugins, by name, as /plugins has them, and LastRuns how the latest run of each
	// object has ended, by the controllers that run, each named plugin/controller. They take the locks of the stages:
	// functions that may be called with locks held must not call them.
	Plugins  func() []PluginStatus
	LastRuns func() map[string][]dispatch.LastRun
}

// Directory is what there is of the plugins in the directory of the host, whether they run or not. Its functions may be
// called concurrently.
type Directory interface {
	// Updated reports whether the directory was read. Before that it may have any plugin.
	Updated() bool
	// Statuses returns the states of the plugins, by name, and Status that of one; known is false if there is none.
	Statuses() []catalog.Status
	Status(plugin string) (status catalog.Status, known bool)
	// Policy returns the policy of a plugin; known is false if it could not be read.
	Policy(plugin string) (policy config.Policy, known bool)
	// Leads reports whether this replica leads a plugin, and OthersLead whether another one does, or may.
	Leads(plugin string) bool
	OthersLead(plugin string) bool
}

// Capability is what a capability does with the plugins of a host. The runner calls those of several
// capabilities in the order of the host's list. A nil function of this type and of the types below is not
// called.
type Capability struct {
	Name string // is set by the list of the host
	// Start is called once, when all stages of the host were made and before any plugin is loaded or request served: what
	// listens does so when it returns.
	// With its error the host does not start. What it returns is called while the host runs, unless it is nil, until
	// ctx is done or another part of the host fails: plugins run until it has returned. With its error the host ends.
	Start func(ctx context.Context, host Host) (run func(ctx context.Context) error, err error)
	// Ready returns why the host is not ready, for /readyz, nil if it is. It must not block.
	Ready func() error
	// Problem returns what is wrong with what the capability does for a plugin of the directory, which need not run, for
	// /plugins; "" if nothing is. It must be quick, and may be called with any plugin.
	Problem func(plugin string) string
	// Starting is called before each attempt to start a revision, by the goroutine of the catalog, and must not block.
	// Discarded is called before the guest of a revision is closed for which Starting was called last of its plugin,
	// by any goroutine.
	Starting  func(s *Starting)
	Discarded func(rev *Revision)
	// Leaders decides which replica leads which plugin; nil: this capability does not. Of the capabilities of a host one
	// alone may have it.
	Leaders Leaders
	// Plugin is called when a plugin starts that did not run. If the start fails, what it returns is not
	// used after Prepare.
	Plugin func(plugin string) PluginPart
	// Observe receives the events of the host, as the method of [events.Observer] does.
	Observe func(events.Event)
	// Serve are handlers of requests, by patterns of [http.ServeMux], for clients with a token, which a handler
	// checks itself. They are served with probes and metrics, over TLS or to this machine, and by capabilities that
	// serve over TLS, too: [Environment].Handlers.
	// They are called while the host runs, by a goroutine of each request, and may block.
	Serve map[string]http.Handler
	// Views are handlers of GET requests of a path, such as /view, and of those below it, for clients who may get the
	// path by their rights, as they may get /metrics. They are served with that alone. They are called
	// as those of Serve.
	Views map[string]http.Handler
	// Stop is called once, when no plugin runs any more or the host could not be made. Nothing is observed
	// after that. It may block until nothing is left to do.
	Stop func()
}

// PluginPart is what a capability does with one plugin, of all its revisions. Its functions are called
// by the goroutine of the catalog, one after the other.
type PluginPart struct {
	name string // of the capability
	// Prepare is called with a revision that is to replace the running one, which runs until then. It may
	// block until ctx is done. The revision is refused with its error. If it does replace the other one,
	// use is called; if not, it is not.
	Prepare func(ctx context.Context, rev *Revision) (use Use, err error)
	// Controller is called before a controller of the plugin starts.
	Controller func(c Handle) ControllerPart
	// Shown returns what /plugins has of the plugin under the name of the capability, nil for nothing. It must
	// be quick.
	Shown func() any
	// Granted is called when the plugin may do more than before, by another goroutine. It must not block.
	Granted func()
	// Stop is called when the plugin has stopped, before what [Running] has is released. It must not block.
	Stop func()
}

// Use is called when a revision replaces the running one, before its controllers start, and must not block. What it
// returns is kept with the revision: the hooks get it in [dispatch.ImportCall], also for runs that end after the
// revision was replaced.
type Use func(with Running) (kept any)

// Running is what a revision that is about to run has for capabilities.
type Running struct {
	// Logger returns a logger whose lines count as the plugin's.
	Logger func(hclog.Logger) hclog.Logger
	// Informers are those of the kinds that the revision follows, which have synced. They are released after the next
	// revision has replaced it.
	Informers map[abi.Kind]*cache.Informer
	Access    dispatch.Access // what the service account of the plugin may do; nil: it acts as the host
	Recorder  effect.Recorder // sends Events on objects
}

// ControllerPart is what a capability does with one controller.
type ControllerPart struct {
	dispatch.Hooks
	// Swapped is called when the controller has started with a revision, before is nil then, and when it
	// runs another one. It must not block.
	Swapped func(before, next *dispatch.Revision)
	// Stop is called when the controller ends, before its runs are ended. It must have ended all that calls the
	// Handle when it returns, but for its Call.
	Stop func()
	// Ended is called when the runs of the controller have ended. Call of the Handle must not be called after that. It
	// must not block.
	Ended func()
}

// Handle is a controller, for capabilities. Its methods may be called concurrently, from when the controller
// has started.
type Handle interface {
	Caller
	// Kept returns what the capability keeps for a revision of the controller: what [Use] has returned.
	Kept(rev *dispatch.Revision) any
	// Keys returns the keys of the objects that the controller reconciles, in order.
	Keys() []object.Key
	// Shown returns an object of them as the informer shows it: the next event has it as the old object. Hooks that
	// are called with the lock of the controller held may call it.
	Shown(key object.Key) (*object.Object, bool)
	// Resource is how the API server serves them.
	Resource() object.Resource
	// ChangeState calls f with the state that the capability keeps for an object, if it keeps one, see
	// [dispatch.Hooks]. f must not block.
	ChangeState(o *object.Object, f func(state any))
	// Has reports whether there is an object of them.
	Has(key object.Key) bool
	// Resolve returns those that have a key of an index of them, or a value of its field, in no order: most of them
	// at the most. The error is why the index cannot be read now.
	Resolve(index, key string, most int) ([]object.Key, error)
	// Signal makes an object run and gives signals to its next run, as JSON. It reports whether there is the
	// object. This replica must lead the plugin.
	Signal(key object.Key, given ...[]byte) bool
	// CountBy counts them by the values of a field. That is fast with an index of the controller by the field.
	CountBy(field fieldpath.Path) objects.Counts
	// Leads reports whether the term has not ended in which this replica leads the plugin. Its Lease may be
	// about to be renewed late, so that this is not whether it may write.
	Leads() bool
	// MayWrite is Leads, and that the Lease is not late: no other replica leads the plugin.
	MayWrite() bool
	// Term returns a channel that is closed while this replica leads the plugin, and one that is closed when
	// that has ended. Of one replica, the term has no end.
	Term() (leading, ended <-chan struct{})
}

// handle implements [Handle].
type handle struct {
	*controller
	lead Lead // nil: there is one replica
	part int  // the index of the capability
}

func (h handle) ChangeState(o *object.Object, f func(state any)) {
	h.Controller.ChangeState(h.part, o, f)
}

func (h handle) Kept(rev *dispatch.Revision) any { return rev.KeptBy(h.part) }

func (h handle) Keys() []object.Key { return h.keys(every) }

func (h handle) Shown(key object.Key) (*object.Object, bool) { return h.Cache.Shown(key) }

func (h handle) Resource() object.Resource { return h.primaries.Load().Resource() }

func (h handle) CountBy(field fieldpath.Path) objects.Counts {
	return h.primaries.Load().CountBy(cache.Owner{Controller: h.id}, field)
}

func (h handle) Leads() bool { return h.lead == nil || isClosed(h.lead.Leading()) }

func (h handle) MayWrite() bool { return h.lead == nil || h.lead.Leads() }

func (h handle) Term() (leading, ended <-chan struct{}) {
	if h.lead != nil {
		return h.lead.Term()
	}
	always := make(chan struct{})
	close(always)
	return always, nil
}

// newParts returns what the capabilities do with a plugin that did not run.
func (r *Runner) newParts(plugin string) (parts []PluginPart) {
	for _, c := range r.Capabilities {
		if c.Plugin != nil {
			part := c.Plugin(plugin)
			part.name = c.Name
			parts = append(parts, part)
		}
	}
	return parts
}

// prepareParts prepares a revision. The order is that of the parts.
func prepareParts(ctx context.Context, parts []PluginPart, rev *Revision) (use []Use, err error) {
	use = make([]Use, len(parts))
	for i, p := range parts {
		if p.Prepare == nil {
			continue
		}
		if use[i], err = p.Prepare(ctx, rev); err != nil {
			return nil, err
		}
	}
	return use, nil
}

// shown returns what the parts of a plugin show of it, by the names of their capabilities.
func shown(parts []PluginPart) (all map[string]any) {
	for _, p := range parts {
		if p.Shown == nil {
			continue
		}
		if value := p.Shown(); value != nil {
			if all == nil {
				all = map[string]any{}
			}
			all[p.name] = value
		}
	}
	return all
}

// keptFor returns what the capabilities keep for the revision that is about to run, in the order of the parts.
func keptFor(use []Use, with Running) (kept []any) {
	kept = make([]any, len(use))
	for i, f := range use {
		if f != nil {
			kept[i] = f(with)
		}
	}
	return kept
}

// controllerParts returns what the capabilities do with a controller that starts, and their hooks, in the order of
// the parts.
func controllerParts(parts []PluginPart, h handle) (all []ControllerPart, hooks []dispatch.Hooks) {
	all, hooks = make([]ControllerPart, len(parts)), make([]dispatch.Hooks, len(parts))
	for i, p := range parts {
		if h.part = i; p.Controller != nil {
			all[i] = p.Controller(h)
			hooks[i] = all[i].Hooks
			hooks[i].Name = p.name
		}
	}
	return all, hooks
}

// swapped tells the parts of a controller that it runs another revision.
func (c *controller) swapped(before, next *dispatch.Revision) {
	for _, p := range c.parts {
		if p.Swapped != nil {
			p.Swapped(before, next)
		}
	}
}

func (c *controller) endParts() {
	for _, p := range c.parts {
		if p.Ended != nil {
			p.Ended()
		}
	}
}

func (c *controller) stopParts() {
	for _, p := range c.parts {
		if p.Stop != nil {
			p.Stop()
		}
	}
}
