package runner

import (
	"cmp"
	"context"
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
	"github.com/thole-dev/thole/host/cache/scope"
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
	Recorder func(dropped func()) effect.Recorder
	Logger   hclog.Logger
	// RollBack is called when a revision on probation fails for more objects than
	// the one before it.
	RollBack func(plugin string, revision int, reason string)

	Version      string        // of the host
	Namespace    string        // that the host is restricted to; "": none
	Resync       time.Duration // how often every object is reconciled without a reason
	HostIdentity bool          // plugins may act with the rights of the host
	Access       *access.Reviewer
	Leaders      Leaders       // nil: there is one replica
	ReviewEvery  time.Duration // how often the rights of a plugin are looked at; default 1 min
	Ceiling      config.Allow  // of the policies
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

// New returns a runner that runs nothing yet.
func New(config Config) *Runner {
	config.ReviewEvery = cmp.Or(config.ReviewEvery, defaultReviewEvery)
	r := &Runner{Config: config, pluginLogs: telemetry.NewPluginLogs(config.Logger), plugins: map[string]*plugin{}, controllers: map[string]*controller{}, early: map[string]*early{}, waitsFor: map[string]string{}, requested: map[string]string{}}
	r.objectsOf = config.Cache.Objects
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

// Start implements [catalog.Runner]. Once the informers of the revision have
// synced, nothing can fail any more, and the revision replaces the running one.
func (r *Runner) Start(ctx context.Context, rev *Revision, claim func() error) error {
	if _, err := scope.OfManifest(rev.Manifest, r.namespacesOf(rev)); err != nil {
		return kindError{err} // whatever its policy allows
	}
	constrained, err := r.checkIdentity(ctx, rev)
	if err != nil {
		return err
	}
	lead, err := r.join(rev)
	if err != nil {
		return err
	}
	rev, resources, err := r.checkRights(ctx, rev)
	if err != nil {
		return err
	}
	follows, err := scope.OfManifest(rev.Policy.Allow.Narrow(rev.Manifest), r.namespacesOf(rev))
	if err != nil {
		return kindError{err}
	}
	r.announce(rev, lead, resources)
	var written map[abi.Kind]*cache.Informer
	var p *plugin
	byKind, err := r.acquireInformers(ctx, rev, lead, follows)
	if err == nil {
		written, err = acquireWritten(ctx, r.Cache, follows)
	}
	var parts []PluginPart
	var use []Use
	if err == nil {
		parts = r.partsOf(rev.Plugin)
		use, err = prepareParts(ctx, parts, rev)
	}
	if err == nil {
		err = claim()
	}
	if err == nil {
		p, err = r.ensurePlugin(rev, lead, parts)
	}
	if err != nil {
		r.endLabelling(rev.Plugin)
		release(byKind)
		release(written)
		return err
	}
	p.breaker.Store(r.newBreaker(rev, p))
	p.comparison.Store(r.newComparison(rev))
	before, prunedBefore := p.declared(), p.prunedKinds()
	swappable := r.stopOthers(p, rev, lead)
	p.lead = lead
	may := r.accessOf(rev, resources, p)
	kept := keptFor(use, Running{Logger: p.log.Logger, Informers: byKind, Access: may, Recorder: p.recorder})
	p.informers.replace(byKind)
	p.written.replace(written)
	late := p.written.late()
	for kind := range byKind {
		p.effects.Load().ForgetSchema(kind) // new code may come with a new schema
	}
	r.Events.Observe(events.PluginStarted{Revision: rev.Revision, Manifest: rev.Manifest})
	p.controllers = map[string]*controller{}
	for i, m := range rev.Manifest.Controllers {
		p.controllers[m.Name] = r.startOrSwap(rev, m, follows.Controllers[i], may, p, kept, swappable[m.Name])
	}
	r.startReview(p, rev, constrained, resources)
	p.findSharedLater(late)
	r.reportLeftoverFinalizers(rev.Plugin, before, p.declared())
	r.reportUnpruned(rev.Plugin, prunedBefore, p.prunedKinds())
	return nil
}

// namespacesOf returns the namespaces in which a plugin may follow objects, nil for all. That
// of the host is one of those of the policy.
func (r *Runner) namespacesOf(rev *Revision) []string {
	if r.Namespace != "" {
		return []string{r.Namespace}
	}
	return rev.Policy.Namespaces
}

// acquireInformers acquires the informers of a revision. Meanwhile the status of the
// plugin has what is waited for.
func (r *Runner) acquireInformers(ctx context.Context, rev *Revision, lead Lead, follows *scope.Plugin) (map[abi.Kind]*cache.Informer, error) {
	defer r.setWaitsFor(rev.Plugin, "")
	byKind, err := acquireInformers(ctx, r.Cache, follows, r.informersOf(rev.Plugin),
		func(what string) { r.setWaitsFor(rev.Plugin, what) })
	if err != nil {
		return nil, err
	}
	err = checkNamespaces(rev.Manifest, byKind)
	if err == nil {
		err = checkVerbs(rev.Manifest, r.Sections, byKind)
	}
	if err == nil {
		err = r.checkFields(ctx, rev)
	}
	if err == nil {
		err = r.planStatus(ctx, rev)
	}
	if err == nil { // last: it lists all objects, and whatever else is missing leads to another attempt
		err = r.labelChildren(ctx, rev, lead, byKind)
	}
	if err != nil {
		release(byKind)
		return nil, err
	}
	return byKind, nil
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

// stopOthers stops the controllers that cannot be swapped to a revision, while
// the informers that their runs use are still there, and returns the others.
func (r *Runner) stopOthers(p *plugin, rev *Revision, lead Lead) (kept map[string]*controller) {
	kept = map[string]*controller{}
	for _, m := range rev.Manifest.Controllers {
		if c := p.controllers[m.Name]; c != nil && c.canSwapTo(m) && p.lead == lead {
			kept[m.Name] = c
		}
	}
	var stopped []*controller
	for name, c := range p.controllers {
		if kept[name] == nil {
			stopped = append(stopped, c)
		}
	}
	r.stop(stopped)
	return kept
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

// ObserveRead makes a key due after something changed that it has read. The cache
// calls it.
func (r *Runner) ObserveRead(owner cache.Owner, event cache.Event, crowd bool) {
	if c := r.controller(owner); c != nil {
		c.ObserveRead(owner.Key, event.Old, event.New, crowd)
	}
}

// LimitReads tells that a key reads more of a kind than is remembered by itself. The
// cache calls it.
func (r *Runner) LimitReads(owner cache.Owner, kind abi.Kind) {
	if c := r.controller(owner); c != nil {
		c.LimitReads(owner.Key, kind)
	}
}

// LimitIndexes tells that a plugin has no room for an index that a list needs. The cache
// calls it.
func (r *Runner) LimitIndexes(owner cache.Owner, kind abi.Kind) {
	if c := r.controller(owner); c != nil {
		c.LimitIndexes(kind)
	}
}

func (r *Runner) controller(owner cache.Owner) *controller {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.controllers[owner.Controller]
}

// OutageEnded makes keys due soon that failed because of the API server, which is
// back. The cache calls it.
func (r *Runner) OutageEnded() {
	r.mu.Lock()
	running := slices.Collect(maps.Values(r.controllers))
	r.mu.Unlock()
	for _, c := range running {
		c.OutageEnded()
	}
}

// Restored handles that the API server has gone back to an earlier state of a
// kind. Every plugin that reads the kind forgets what it has written, and all its
// objects become due. The cache calls it.
func (r *Runner) Restored(kind abi.Kind) {
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
