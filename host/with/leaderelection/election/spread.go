package election

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The first replica that starts leads all Leases. A replica that leads at least two fewer than
// another one, and is ready, asks that one for a Lease; so they spread over the replicas.

// PreferredHolderAnnotation is the annotation of a Lease with the replica that its holder is asked
// to leave it to. The field of that name in the spec is that of KEP-4355, whose controller
// would have to be enabled.
const PreferredHolderAnnotation = "thole.dev/preferred-holder"

// isAskedFor reports whether this replica is to leave a Lease to another one.
func (v *view) isAskedFor(l *Lease) bool {
	lease := v.leases[l.Name]
	if lease == nil || holder(lease) != l.e.Identity {
		return false
	}
	by := lease.Annotations[PreferredHolderAnnotation]
	return by != "" && by != l.e.Identity && v.counts[l.e.Identity] >= v.counts[by]+2
}

// ask asks the replica that leads the most for a Lease. There is one request at a time.
func (e *Election) ask(ctx context.Context, v *view) {
	if e.Ready == nil || e.retired.Load() || time.Since(e.asked) < e.RetryPeriod {
		return
	}
	var best *coordinationv1.Lease
	for _, l := range e.Leases() {
		lease := v.leases[l.Name]
		by := holder(lease)
		if by == "" || by == e.Identity {
			continue
		}
		switch asks := lease.Annotations[PreferredHolderAnnotation]; {
		case asks == e.Identity:
			return // it was asked for
		case asks != "" || v.counts[by] < v.counts[e.Identity]+2 || !e.isReadyFor(l):
		case best == nil || v.counts[by] > v.counts[holder(best)]:
			best = lease
		}
	}
	if best == nil {
		return
	}
	e.asked = time.Now()
	e.running.Go(func() { e.askFor(ctx, best) })
}

// isReadyFor reports whether all plugins of a Lease run here as the leader runs them.
func (e *Election) isReadyFor(l *Lease) bool {
	plugins := e.PluginsOf(l)
	for _, p := range plugins {
		if !e.Ready(p.Name) {
			return false
		}
	}
	return len(plugins) > 0
}

func (e *Election) askFor(ctx context.Context, lease *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, e.requestTimeout())
	defer cancel()
	patch := annotationPatch(lease, map[string]*string{PreferredHolderAnnotation: &e.Identity})
	_, err := e.Client.Patch(ctx, lease.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		e.Logger.Debug("cannot ask for a Lease", "lease", lease.Name, "error", err)
		return
	}
	e.Logger.Info("this replica asks for a Lease of a replica that leads more", "lease", lease.Name, "holder", holder(lease))
}

// isFor reports whether a Lease was left to another replica, which has not taken it yet. It is free
// for all after a retry period. l.mu is held.
func (l *Lease) isFor(lease *coordinationv1.Lease) (other string, is bool) {
	other = lease.Annotations[PreferredHolderAnnotation]
	return other, other != "" && other != l.e.Identity && time.Since(l.freed) < l.e.RetryPeriod
}
