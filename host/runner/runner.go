package runner

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

// Revision is a loaded revision of a plugin.
type Revision = catalog.Revision[*sandbox.Guest]

// Config configures a [Runner].
type Config struct {
	Cluster *rest.Config
	Cache   *cache.Cache
	Metrics *telemetry.Metrics
	Events  events.Observer
	// Recorder returns what sends a plugin's Kubernetes Events on objects.
	// dropped must be called for each one that is not sent.
	Recorder     func(dropped func()) effect.Recorder
	Logger       hclog.Logger
	Version      string        // of the host
	Namespace    string        // that the host is restricted to; "": none
	Resync       time.Duration // how often every object is reconciled without a reason
	HostIdentity bool          // plugins may act with the rights of the host
	Access       *access.Reviewer
	Leaders      Leaders        // nil: there is one replica
	ReviewEvery  time.Duration  // how often the rights of a plugin are looked at; default 1 min
	Ceiling      config.Ceiling // of the policies
	// Capabilities are those of the host, in the order in which they are called.
	Capabilities []Capability
	// Sections are those of the capabilities in policies.
	Sections []config.Section
	// AllowRequested runs a plugin whose policy allows nothing as if the policy allowed what
	// the manifest asks for.
	AllowRequested bool
}

// Runner runs the plugins of one host. It implements [catalog.Runner].
type Runner struct {
	Config
	pluginLogs *telemetry.PluginLogs
	objectsOf  func(abi.Kind) iter.Seq[*object.Object] // Cache.Objects, except in tests

	mu          sync.Mutex
	plugins     map[string]*plugin
	controllers map[string]*controller // by plugin/controller
	early       map[string]*early      // by plugin
	waitsFor    map[string]string      // what the start of a revision waits for, by plugin
	requested   map[string]string      // the policy that was logged as what the manifest asks for, by plugin
}

var _ catalog.Runner[*sandbox.Guest] = (*Runner)(nil)

// New returns a runner that runs nothing yet. It subscribes to the cache.
func New(config Config) *Runner {
	config.ReviewEvery = cmp.Or(config.ReviewEvery, defaultReviewEvery)
	r := &Runner{Config: config, pluginLogs: telemetry.NewPluginLogs(config.Logger), plugins: map[string]*plugin{}, controllers: map[string]*controller{}, early: map[string]*early{}, waitsFor: map[string]string{}, requested: map[string]string{}}
	r.objectsOf = config.Cache.Objects
	config.Cache.Subscribe(cache.Hooks{
		Wake: r.observeRead, Limited: r.limitReads, IndexLimited: r.limitIndexes, OutageEnded: r.outageEnded, Restored: r.restored,
	})
	return r
}

// plugin is what the revisions of a plugin share. The catalog starts and stops a
// plugin from one goroutine, which alone uses controllers.
type plugin struct {
	informers   informers
	ownWrites   cache.OwnWrites // that its informers do not show yet
	written     written
	lead        Lead // nil: there is one replica
	effects     atomic.Pointer[effect.Performer]
	recorder    effect.Recorder
	log         *telemetry.PluginLog
	breaker     atomic.Pointer[dispatch.Breaker]            // of the running revision
	comparison  atomic.Pointer[dispatch.RevisionComparison] // of the running revision; nil: it is not on probation
	openings    atomic.Uint64                               // of all its breakers
	review      atomic.Pointer[rightsReview]                // of the running revision; nil: it acts as the host
	parts       []PluginPart                                // of the capabilities
	controllers map[string]*controller                      // by name
}

// namespacesOf returns the namespaces in which a plugin may follow objects, nil for all. That
// of the host is one of those of the policy.
func (r *Runner) namespacesOf(rev *Revision) []string {
	if r.Namespace != "" {
		return []string{r.Namespace}
	}
	return rev.Policy.Namespaces
}

func (r *Runner) setWaitsFor(plugin, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if what == "" {
		delete(r.waitsFor, plugin)
		return
	}
	r.waitsFor[plugin] = what
}

// informersOf returns the informers of the running revision; none if nothing
// runs.
func (r *Runner) informersOf(plugin string) *informers {
	if p := r.running(plugin); p != nil {
		return &p.informers
	}
	return &informers{}
}

// Healthy implements [catalog.Runner].
func (r *Runner) Healthy(plugin string) bool {
	p := r.running(plugin)
	return p != nil && p.comparison.Load().Healthy()
}

// Stop implements [catalog.Runner].
func (r *Runner) Stop(plugin string, removed bool) {
	r.mu.Lock()
	p := r.plugins[plugin]
	delete(r.plugins, plugin)
	r.mu.Unlock()
	if p == nil {
		return
	}
	before, prunedBefore := p.declared(), p.prunedKinds()
	p.review.Load().end()
	r.stop(slices.Collect(maps.Values(p.controllers)))
	for _, part := range p.parts {
		if part.Stop != nil {
			part.Stop()
		}
	}
	if removed {
		r.reportLeftoverFinalizers(plugin, before, nil)
		r.reportUnpruned(plugin, prunedBefore, nil)
	}
	p.informers.replace(nil)
	p.written.replace(nil)
	p.log.Close()
}

// observeRead makes a key due after something changed that it has read. The cache
// calls it.
func (r *Runner) observeRead(owner cache.Owner, event cache.Event, bulk bool) {
	if c := r.controller(owner); c != nil {
		c.ObserveRead(owner.Key, event.Old, event.New, bulk)
	}
}

// limitReads tells that a key reads more of a kind than is remembered by itself. The
// cache calls it.
func (r *Runner) limitReads(owner cache.Owner, kind abi.Kind) {
	if c := r.controller(owner); c != nil {
		c.LimitReads(owner.Key, kind)
	}
}

// limitIndexes tells that a plugin has no room for an index that a list needs. The cache
// calls it.
func (r *Runner) limitIndexes(owner cache.Owner, kind abi.Kind) {
	if c := r.controller(owner); c != nil {
		c.LimitIndexes(kind)
	}
}

func (r *Runner) controller(owner cache.Owner) *controller {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.controllers[owner.Controller]
}

// outageEnded makes keys due soon that failed because of the API server, which is
// back. The cache calls it.
func (r *Runner) outageEnded() {
	r.mu.Lock()
	running := slices.Collect(maps.Values(r.controllers))
	r.mu.Unlock()
	for _, c := range running {
		c.OutageEnded()
	}
}

// restored handles that the API server has gone back to an earlier state of a
// kind. Every plugin that reads the kind forgets what it has written, and all its
// objects become due. The cache calls it.
func (r *Runner) restored(kind abi.Kind) {
	for _, c := range r.forgetWritten(kind) { // without the lock: there may be 100,000 keys
		c.Restored(c.keys(every))
	}
}

// forgetWritten makes every plugin that reads a kind forget what it has written. It returns
// the controllers of these plugins.
func (r *Runner) forgetWritten(kind abi.Kind) (reading []*controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.plugins {
		if p.uses(kind) {
			p.effects.Load().ForgetAll()
		}
	}
	for _, c := range r.controllers {
		if p := r.plugins[c.Plugin]; p != nil && p.uses(kind) {
			reading = append(reading, c)
		}
	}
	return reading
}

// uses reports whether the running revision follows or writes a kind.
func (p *plugin) uses(kind abi.Kind) bool {
	return p.informers.get(kind) != nil || p.written.informers.get(kind) != nil
}

// declared returns the controllers of the running revision, ordered by name.
func (p *plugin) declared() (all []abi.Controller) {
	for _, name := range slices.Sorted(maps.Keys(p.controllers)) {
		all = append(all, p.controllers[name].Revision().Controller)
	}
	return all
}
