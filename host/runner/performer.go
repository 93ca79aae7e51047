package runner

import (
	"context"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
)

// This file makes the performer of a plugin, which acts for it.

func (r *Runner) newPerformer(rev *Revision, lead Lead, p *plugin) (*effect.Performer, error) {
	metrics, policy := r.Metrics.Plugin(rev.Plugin), rev.Policy
	return effect.New(effect.Config{
		Planner: effect.Planner{
			Plugin:     rev.Plugin,
			Store:      effectStore{r.Cache, rev.Plugin, &p.informers, &p.ownWrites, &p.written},
			Logger:     p.log.Logger(r.Logger.Named("effect").With("plugin", rev.Plugin)),
			Allow:      policy.Allow,
			Namespaces: policy.Namespaces,
			Managed:    rev.Manifest.Managed,
		},
		REST:        r.Cluster,
		Version:     r.Version,
		Digest:      rev.Digest,
		Account:     policy.Account(),
		MayGet:      r.mayGet(policy.Account()),
		Recorder:    p.recorder,
		QPS:         policy.Limits.LimitedWrites(),
		Burst:       policy.Limits.WriteBurst,
		ObserveWait: metrics.WriteWaited,

		StoredBytes:  int64(policy.Limits.StoredMiB) << 20,
		ChurnBytes:   int64(policy.Limits.ChurnMiB) << 20,
		CountBytes:   p.bytesBy,
		ObserveLimit: metrics.Limited,

		DryRun: policy.DryRun,

		AdoptsPrimaries: adoptsPrimaries(rev.Manifest),
		Lease:           lead,
	})
}

// actsAs reports whether a performer would act for a revision as one of its own.
func actsAs(p *effect.Performer, rev *Revision) bool {
	policy := rev.Policy
	return p.Account == policy.Account() && p.Digest == rev.Digest &&
		p.Allow.Equal(policy.Allow) && p.DryRun == policy.DryRun &&
		slices.Equal(p.Namespaces, policy.Namespaces) && p.Managed == rev.Manifest.Managed &&
		p.QPS == policy.Limits.LimitedWrites() && p.Burst == policy.Limits.WriteBurst &&
		p.StoredBytes == int64(policy.Limits.StoredMiB)<<20 && p.ChurnBytes == int64(policy.Limits.ChurnMiB)<<20
}

// labelChildren labels what the plugin owns, if it is about to be followed by that
// label, and waits until the informers show it.
func (s *start) labelChildren(ctx context.Context) error {
	if !s.rev.Manifest.Managed || s.isManaged(s.rev) {
		return nil
	}
	s.setWaitsFor(s.rev.Plugin, "the label "+abi.LabelManagedBy+" on the objects that it owns")
	performer, err := s.newPerformer(s.rev, s.lead, s.plugin)
	if err != nil {
		return err
	}
	performer.Namespaces = s.namespacesOf(s.rev)
	err = s.beginLabelling(ctx, s.rev)
	var labelled []effect.Labelled
	if err == nil {
		labelled, err = performer.LabelChildren(ctx, s.rev.Manifest.Controllers)
	}
	if err != nil {
		return acquireError(ctx, []error{err})
	}
	for _, l := range labelled {
		if err := s.informers[l.Kind].WaitFor(ctx, l.Namespace, l.Version); err != nil {
			return err
		}
	}
	return nil
}

// beginLabelling makes the running revision label what it applies, so that nothing is left
// out that it creates while its objects are listed, or until it has been replaced.
func (r *Runner) beginLabelling(ctx context.Context, rev *Revision) error {
	if p := r.running(rev.Plugin); p != nil && !rev.Policy.DryRun {
		return p.effects.Load().BeginLabelling(ctx)
	}
	return nil
}

// endLabelling ends it for a running revision that is not managed and stays.
func (r *Runner) endLabelling(plugin string) {
	if p := r.running(plugin); p != nil && !p.effects.Load().Managed {
		p.effects.Load().EndLabelling()
	}
}

// running returns a plugin of which a revision runs; nil if none does.
func (r *Runner) running(name string) *plugin {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugins[name]
}

// adoptsPrimaries reports whether a controller owns a kind that a controller of the plugin is for, in any
// version.
func adoptsPrimaries(m *abi.Manifest) bool {
	return slices.ContainsFunc(m.Controllers, func(owner abi.Controller) bool {
		return slices.ContainsFunc(owner.Owns, func(owned abi.Followed) bool {
			return slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool {
				return c.For.Kind.Kind == owned.Kind.Kind && c.For.Group() == owned.Group()
			})
		})
	})
}

// isManaged reports whether the running revision labels everything that another one owns.
func (r *Runner) isManaged(rev *Revision) bool {
	p := r.running(rev.Plugin)
	if p == nil {
		return false
	}
	running := p.effects.Load()
	if !running.Managed || !running.Allow.Equal(rev.Policy.Allow) || running.DryRun && !rev.Policy.DryRun || !scope.HasNamespaces(running.Namespaces, rev.Policy.Namespaces) {
		return false
	}
	for _, c := range rev.Manifest.Controllers {
		controller := p.controllers[c.Name]
		if controller == nil || !controller.canSwapTo(c) {
			return false
		}
		before := controller.Revision().Controller
		if slices.ContainsFunc(c.Owns, func(w abi.Followed) bool { return !before.IsOwned(w.Kind) }) {
			return false
		}
	}
	return true
}
