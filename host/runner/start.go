package runner

import (
	"context"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file starts a revision: it prepares all that the revision needs beside the one that runs, and then replaces
// that one.

// start is an attempt to start a revision. Each step fills in what the steps after it need.
type start struct {
	*Runner
	rev         *Revision
	lead        Lead // nil: there is one replica
	constrained bool // see [access.Reviewer.Impersonates]
	resources   map[abi.Kind]object.Resource
	follows     *scope.Plugin // what the policy leaves of what the manifest follows
	plugin      *plugin       // that runs, or a new one
	isNew       bool
	informers   map[abi.Kind]*cache.Informer // have synced
	written     map[abi.Kind]*cache.Informer
	performer   *effect.Performer // nil: that of the running revision acts for this one, too
	use         []Use             // of the parts of the plugin
}

// Start implements [catalog.Runner].
func (r *Runner) Start(ctx context.Context, rev *Revision, claim func() error) error {
	s := &start{Runner: r, rev: rev}
	defer r.setWaitsFor(rev.Plugin, "")
	for _, step := range []func(context.Context) error{
		s.checkKinds,    // first: no policy and no right helps a manifest that cannot be followed
		s.checkAccount,  // before its rights, which are those of an account that exists
		s.findLead,      // before the guest may be called, which only the replica that leads does
		s.checkPolicy,   // may replace the policy of the revision; nothing of the cluster was followed for it before
		s.announce,      // before informers: the API server may need the guest to list objects
		s.findPlugin,    // whose informers and records the next steps use
		s.acquireAll,    // blocks until they have synced
		s.checkFollowed, // by how the kinds are served, which is known now
		s.checkFields,
		s.planStatus,
		s.labelChildren, // lists all objects: whatever else is missing was found before
		s.acquireWritten,
		s.prepareParts,
		s.makePerformer,
		func(context.Context) error { return claim() }, // last: nothing can fail any more
	} {
		if err := step(ctx); err != nil {
			s.discard()
			return err
		}
		r.setWaitsFor(rev.Plugin, "")
	}
	s.replace()
	return nil
}

// checkKinds refuses a manifest that no policy could let run.
func (s *start) checkKinds(context.Context) error {
	if _, err := scope.OfManifest(s.rev.Manifest, s.namespacesOf(s.rev)); err != nil {
		return kindError{err}
	}
	return nil
}

func (s *start) checkAccount(ctx context.Context) (err error) {
	s.constrained, err = s.checkIdentity(ctx, s.rev)
	return err
}

func (s *start) findLead(context.Context) (err error) {
	s.lead, err = s.join(s.rev)
	return err
}

// checkPolicy sets the policy that the revision is to run with, and what that lets it follow.
func (s *start) checkPolicy(ctx context.Context) error {
	rev, resources, err := s.checkRights(ctx, s.rev)
	if err != nil {
		return err
	}
	s.rev, s.resources = rev, resources
	if s.follows, err = scope.OfManifest(rev.Policy.Allow.Narrow(rev.Manifest), s.namespacesOf(rev)); err != nil {
		return kindError{err}
	}
	return nil
}

func (s *start) announce(context.Context) error {
	s.Runner.announce(s.rev, s.lead, s.resources)
	return nil
}

func (s *start) findPlugin(context.Context) error {
	if s.plugin = s.running(s.rev.Plugin); s.plugin != nil {
		return nil
	}
	metrics := s.Metrics.Plugin(s.rev.Plugin)
	s.isNew, s.plugin = true, &plugin{
		log:      s.pluginLogs.Open(s.rev.Plugin, func() { metrics.Limited(sandbox.LimitLog) }),
		recorder: s.Recorder(func() { metrics.Limited("events") }),
	}
	return nil
}

func (s *start) acquireAll(ctx context.Context) (err error) {
	s.informers, err = acquireInformers(ctx, s.Cache, s.follows, &s.plugin.informers, func(what string) { s.setWaitsFor(s.rev.Plugin, what) })
	return err
}

func (s *start) checkFollowed(context.Context) error {
	if err := checkNamespaces(s.rev.Manifest, s.informers); err != nil {
		return err
	}
	return checkVerbs(s.rev.Manifest, s.Sections, s.informers)
}

func (s *start) acquireWritten(ctx context.Context) (err error) {
	s.written, err = acquireWritten(ctx, s.Cache, s.follows)
	return err
}

func (s *start) prepareParts(ctx context.Context) (err error) {
	if s.isNew {
		s.plugin.parts = s.newParts(s.rev.Plugin)
	}
	s.use, err = prepareParts(ctx, s.plugin.parts, s.rev)
	return err
}

// makePerformer makes a performer, unless that of the running revision acts as this one would.
func (s *start) makePerformer(context.Context) (err error) {
	if s.isNew || !actsAs(s.plugin.effects.Load(), s.rev) || s.plugin.lead != s.lead {
		s.performer, err = s.newPerformer(s.rev, s.lead, s.plugin)
	}
	return err
}

// discard gives up what the steps have prepared.
func (s *start) discard() {
	s.endLabelling(s.rev.Plugin)
	release(s.informers)
	release(s.written)
	if s.isNew {
		s.plugin.log.Close()
	}
}

// replace makes the revision the running one. What the revision before it has recorded of the cluster, and left of the
// limits, is kept. Controllers that cannot go on with it end while the informers are still there that their runs use.
func (s *start) replace() {
	p, before, prunedBefore := s.plugin, s.plugin.declared(), s.plugin.prunedKinds()
	if s.performer != nil {
		s.performer.Inherit(p.effects.Load())
		p.effects.Store(s.performer)
	}
	if s.isNew {
		s.mu.Lock()
		s.plugins[s.rev.Plugin] = p
		s.mu.Unlock()
	}
	p.breaker.Store(s.newBreaker(s.rev, p))
	p.comparison.Store(newComparison(s.rev))
	swappable := s.stopOthers()
	p.lead = s.lead
	may := s.accessOf(s.rev, s.resources, p)
	kept := keptFor(s.use, Running{Logger: p.log.Logger, Informers: s.informers, Access: may, Recorder: p.recorder})
	p.informers.replace(s.informers)
	p.written.replace(s.written)
	late := p.written.late()
	for kind := range s.informers {
		p.effects.Load().ForgetSchema(kind) // new code may come with a new schema
	}
	s.Events.Observe(events.PluginStarted{Revision: s.rev.Revision, Manifest: s.rev.Manifest})
	p.controllers = map[string]*controller{}
	for i, m := range s.rev.Manifest.Controllers {
		p.controllers[m.Name] = s.startOrSwap(m, s.follows.Controllers[i], may, kept, swappable[m.Name])
	}
	s.startReview(p, s.rev, s.constrained, s.resources)
	p.findSharedLater(late)
	s.reportLeftoverFinalizers(s.rev.Plugin, before, p.declared())
	s.reportUnpruned(s.rev.Plugin, prunedBefore, p.prunedKinds())
}

// stopOthers stops the controllers that cannot be swapped to the revision, and returns the others.
func (s *start) stopOthers() (kept map[string]*controller) {
	kept = map[string]*controller{}
	for _, m := range s.rev.Manifest.Controllers {
		if c := s.plugin.controllers[m.Name]; c != nil && c.canSwapTo(m) && s.plugin.lead == s.lead {
			kept[m.Name] = c
		}
	}
	var stopped []*controller
	for name, c := range s.plugin.controllers {
		if kept[name] == nil {
			stopped = append(stopped, c)
		}
	}
	s.stop(stopped)
	return kept
}

// startOrSwap starts a controller of the revision, or swaps a running one to it.
func (s *start) startOrSwap(m abi.Controller, follows scope.Controller, may dispatch.Access, kept []any, running *controller) *controller {
	p, policy := s.plugin, s.rev.Policy
	next := &dispatch.Revision{
		Number: s.rev.Number, Digest: s.rev.Digest, Guest: s.rev.Guest, Effects: p.effects.Load(), Access: may,
		Breaker: p.breaker.Load(), Comparison: p.comparison.Load(),
		Controller: m, Scopes: follows,
		MemoVersion: memoVersion(s.rev), Account: policy.Account().String(), Config: policy.Config,
		Reads: policy.Allow.ReadsOf(&m), MaxIntents: policy.Limits.Intents,
		Kept: kept,
	}
	var before *dispatch.Revision
	if running == nil {
		running = s.startController(s.rev.Plugin, next, p, workers(m, policy))
	} else {
		before = running.Revision()
		running.follow(next, &p.informers)
		running.setWorkers(workers(m, policy))
		running.Swap(next, running.keys(every))
	}
	running.findShared(p)
	running.swapped(before, next)
	return running
}
