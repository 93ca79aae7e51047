package runner

import (
	"maps"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/finalizers"
)

// This file reports what is not pruned any more.

// prunedKind is a kind of which a controller prunes what it has created.
type prunedKind struct {
	controller string
	kind       abi.Kind
}

// prunedKinds returns the kinds that the running controllers of the plugin prune.
func (p *plugin) prunedKinds() (all []prunedKind) {
	for _, name := range slices.Sorted(maps.Keys(p.controllers)) {
		rev := p.controllers[name].Revision()
		if !rev.Controller.Prune {
			continue
		}
		for _, kind := range abi.Kinds(rev.Controller.Owns) {
			all = append(all, prunedKind{name, kind})
		}
	}
	return all
}

// reportUnpruned logs which kinds are not pruned any more, with the command that deletes what is left. Nothing
// is deleted: a new revision may have left a kind out by mistake.
func (r *Runner) reportUnpruned(plugin string, before, now []prunedKind) {
	for _, b := range before {
		if slices.ContainsFunc(now, func(n prunedKind) bool { return n.controller == b.controller && sameKind(n.kind, b.kind) }) {
			continue
		}
		r.Logger.Warn("the controller does not own a kind any more, and prunes none of its objects: the command deletes all that are left",
			"plugin", plugin, "controller", b.controller, "kind", b.kind.String(), "command", r.deleteCommand(plugin, b))
	}
}

// deleteCommand returns the command that deletes what a controller has created of a kind.
func (r *Runner) deleteCommand(plugin string, of prunedKind) string {
	where := " --all-namespaces"
	if r.Namespace != "" {
		where = " --namespace " + r.Namespace
	}
	return "kubectl delete " + finalizers.KindName(of.kind) + where + " --selector " + abi.LabelAppliedBy + "=" + abi.AppliedBy(plugin, of.controller)
}
