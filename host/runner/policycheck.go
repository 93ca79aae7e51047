package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file checks that the policy of a revision allows what its manifest needs, before
// anything of the cluster is followed for it.

// checkRights returns the revision, under the policy that it is to run with, and how its
// kinds are served. The error is a [catalog.WaitError] if the policy allows too little, or a kind is not served.
func (r *Runner) checkRights(ctx context.Context, rev *Revision) (*Revision, map[abi.Kind]object.Resource, error) {
	resources, err := r.lookUp(ctx, rev)
	if _, waits := errors.AsType[*catalog.WaitError](err); err != nil && !waits {
		return nil, nil, err
	}
	of := servedAs(resources)
	requested := r.AllowRequested && rev.Policy.Allow == nil
	needs := rev.Policy.Missing(rev.Manifest, of, r.Sections)
	if !needs.Any() || requested && err != nil {
		return rev, resources, err
	}
	if requested && needs.IsExact() {
		return r.allowRequested(rev, needs), resources, nil
	}
	reason := r.Ceiling.Denial(rev.Plugin, needs)
	if err != nil {
		reason += "; " + err.Error()
	}
	return nil, nil, &catalog.WaitError{Reason: reason, Denied: true}
}

// servedAs returns how kinds are served, as package rights asks for it.
func servedAs(resources map[abi.Kind]object.Resource) rights.Resources {
	return func(kind abi.Kind) (object.Resource, bool) { found, ok := resources[kind]; return found, ok }
}

// LackedRight implements [catalog.Runner]. What only some runs need counts as there.
func (r *Runner) LackedRight(ctx context.Context, rev *Revision) (string, error) {
	account := rev.Policy.Account()
	if account == (rights.Account{}) {
		return "", nil // it acts as the host
	}
	resources, err := r.lookUp(ctx, rev)
	if err != nil {
		return "", err
	}
	of := servedAs(resources)
	rules := rev.Policy.Allow.AccountRules(rev.Manifest, r.namespacesOf(rev), of)
	rules = slices.DeleteFunc(rules, func(rule rights.Rule) bool {
		return rule.OnlyIf != "" || !slices.ContainsFunc(rev.Manifest.Controllers, func(c abi.Controller) bool {
			primary, known := resources[c.For.Kind]
			return known && rule.Group == primary.GVR.Group && rule.Resource == primary.GVR.Resource
		})
	})
	lacks, err := r.lacksOfAccount(ctx, account, rules)
	if at := slices.IndexFunc(lacks, func(l lack) bool { return !l.isNone() }); err == nil && at >= 0 {
		return lacks[at].text(), nil
	}
	return "", err
}

// allowRequested returns the revision with what its manifest asks for in its policy, and logs
// that, once for each plugin that asks for the same.
func (r *Runner) allowRequested(rev *Revision, needs config.Needs) *Revision {
	text := needs.PolicyText()
	r.mu.Lock()
	known := r.requested[rev.Plugin] == text
	r.requested[rev.Plugin] = text
	r.mu.Unlock()
	if !known {
		r.Logger.Warn("the plugin is allowed what its manifest asks for, as if this were its policy; thole run needs such a file beside the module",
			"plugin", rev.Plugin, "policy", text)
	}
	allowed := *rev
	allowed.Policy = rev.Policy.With(needs)
	return &allowed
}

// lookUp returns how the kinds of a manifest are served. The error, which covers every kind,
// is that of [acquireError] about those that are followed. A kind that the running
// revision follows need not be served any more.
func (r *Runner) lookUp(ctx context.Context, rev *Revision) (map[abi.Kind]object.Resource, error) {
	resources, running := map[abi.Kind]object.Resource{}, r.informersOf(rev.Plugin)
	var problems []error
	for _, c := range rev.Manifest.Controllers {
		for w := range c.Follows() {
			if _, known := resources[w.Kind]; known {
				continue
			}
			r.setWaitsFor(rev.Plugin, "the API server to state how it serves "+w.Kind.String())
			found, err := r.Cache.Followable(ctx, w.Kind)
			if informer := running.get(w.Kind); err != nil && informer != nil {
				found, err = informer.Resource(), nil
			}
			if err == nil {
				resources[w.Kind] = found
				continue
			}
			if problems = append(problems, err); !concernsOneKind(err) {
				return resources, acquireError(ctx, problems)
			}
		}
		for _, kind := range c.Writes {
			found, err := r.Cache.Resource(ctx, kind)
			switch {
			case err == nil:
				resources[kind] = found
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			}
		}
	}
	return resources, acquireError(ctx, problems)
}
