package dispatch

import (
	"context"
	"strings"

	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// intents adds the finalizer and performs what the result asks for.
func (r *run) intents(ctx context.Context) *effect.Failure {
	if r.revision.Controller.Finalizer && !r.given.Deleting() && r.needsFinalizer() {
		report, failure := r.revision.Effects.EnsureFinalizer(ctx, r.target())
		r.take(report, func(before, after *object.Object) bool {
			return sameInput(before, after) && sameStatus(before.Raw, after.Raw)
		})
		if failure != nil {
			return failure
		}
	}
	report, failure := r.revision.Effects.PerformIntents(ctx, r.target(), r.result)
	// The event of a patch is not the run's own: the plugin has not seen yet
	// what its patch of spec or labels led to.
	r.take(report, never)
	return failure
}

// needsFinalizer reports whether the result asks for anything that a cleanup may
// have to undo. Objects that a plugin leaves alone get no finalizer: it may be a
// controller of a kind that many others use.
func (r *run) needsFinalizer() bool {
	return len(r.result.Apply)+len(r.result.Delete)+len(r.result.Patch)+len(r.result.Status) > 0
}

// status writes the status patch of the decision.
func (r *run) status(ctx context.Context) *effect.Failure {
	want := effect.Status{
		Set:                r.decision.Set,
		Remove:             r.decision.Remove,
		ObservedGeneration: r.decision.ObservedGeneration,
	}
	if !r.uncounted && !r.decision.RemoveFinalizer { // an object about to disappear needs no reply
		want.HandledRequest = r.given.Annotations[RequestedAt]
	}
	if r.decision.GuestStatus && r.result != nil {
		want.Patch = r.result.Status
	}
	report, failure := r.revision.Effects.WriteStatus(ctx, r.target(), want)
	r.take(report, sameInput)
	return failure
}

// removeFinalizer is the last effect of a cleanup.
func (r *run) removeFinalizer(ctx context.Context) *effect.Failure {
	report, failure := r.revision.Effects.RemoveFinalizer(ctx, r.target())
	r.take(report, never)
	return failure
}

// take adds what an effect has written to the run. own reports whether the
// primary contains nothing but what the run knew and wrote: the event that the
// write leads to then does not make the key due. Otherwise somebody else changed
// the object in between, and it does.
func (r *run) take(report effect.Report, own func(before, after *object.Object) bool) {
	r.writes = append(r.writes, report.Writes...)
	for _, w := range report.Writes {
		r.c.Metrics.Wrote(w.Verb)
	}
	if report.Primary == nil {
		return
	}
	if own(r.primary, report.Primary) {
		r.ownVersions[strings.Clone(report.Primary.ResourceVersion)] = true // outlives the reply
	}
	r.primary = report.Primary
}

func never(before, after *object.Object) bool { return false }
