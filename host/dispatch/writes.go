package dispatch

import (
	"context"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// intents adds the finalizer and performs what the result asks for.
func (r *run) intents(ctx context.Context) *effect.Failure {
	if r.revision.Controller.Finalizer && !r.given.Deleting() && (r.wantsTurn() || r.needsFinalizer()) {
		report, failure := r.revision.Effects.EnsureFinalizer(ctx, r.target())
		r.wrote(report, report.Primary)
		if failure != nil {
			return failure
		}
	}
	with := r.withPatches()
	report, failure := r.revision.Effects.PerformIntents(ctx, r.target(), with)
	if with != r.result && failure != nil && effect.RefusesContent(failure.EffectFailure) {
		r.wrote(report, nil)
		report, failure = r.revision.Effects.PerformIntents(ctx, r.target(), r.result) // hooks write theirs when all else is performed
	}
	// The plugin has not seen yet what its patch of spec or labels led to.
	r.wrote(report, nil)
	r.groups = report.Groups
	if failure != nil || len(r.groups) > 0 || !r.reachedTheDesiredState() {
		return failure
	}
	report, failure = r.revision.Effects.Release(ctx, r.target(), false)
	r.wrote(report, nil)
	return failure
}

// reachedTheDesiredState reports whether the result names every object that the
// primary wants fields of. Any other result may lack some.
func (r *run) reachedTheDesiredState() bool {
	return r.returned.Code == abi.CodeOK && r.result.Result == abi.OutcomeSuccess
}

// needsFinalizer reports whether the result asks for anything that a cleanup may
// have to undo. Objects that a plugin leaves alone get no finalizer: it may be a
// controller of a kind that many others use.
func (r *run) needsFinalizer() bool {
	return len(r.result.Release)+len(r.result.Apply)+len(r.result.Delete)+len(r.result.Patch)+len(r.result.Status) > 0
}

// status writes the status patch of the decision.
func (r *run) status(ctx context.Context) *effect.Failure {
	if r.revision.Controller.For.MetadataOnly {
		return nil // the status is not known
	}
	want := effect.Status{
		Set:                r.decision.Set,
		Remove:             r.decision.Remove,
		ObservedGeneration: r.decision.ObservedGeneration,
		Full:               r.full,
	}
	if !r.decision.Uncounted && !r.decision.RemoveFinalizer { // an object about to disappear needs no reply
		want.HandledRequest = r.given.Annotations[RequestedAt]
	}
	if r.decision.GuestStatus && r.result != nil {
		want.Patch, want.Given = r.result.Status, r.given
	}
	if object.GuestOwnsStatus(&r.revision.Controller) && len(want.Patch) == 0 {
		return nil
	}
	report, failure := r.revision.Effects.WriteStatus(ctx, r.target(), want)
	r.wrote(report, report.Before)
	return failure
}

// removeFinalizer is the last effect of a cleanup.
func (r *run) removeFinalizer(ctx context.Context) *effect.Failure {
	r.cleansUp()
	released, failure := r.revision.Effects.Release(ctx, r.target(), true)
	r.wrote(released, nil)
	if failure != nil {
		return failure
	}
	report, failure := r.revision.Effects.RemoveFinalizer(ctx, r.target())
	r.wrote(report, nil)
	return failure
}

// wrote adds what an effect has written to the run, and makes it visible to later
// reads. Events of these writes are the work of the key itself. An event of the
// primary makes nothing due if seen, a version of the primary that shows what others
// changed before the write, has the content that the run knew. If it has not, this
// event is theirs and those of the writes after it, one of which may be the only one
// that the watch sends. With a nil seen, the event makes the key due.
// What was written before the API server went back to an earlier state may not exist
// any more, and is read before the next run.
func (r *run) wrote(report effect.Report, seen *object.Object) {
	if len(report.Writes) > 0 {
		r.state.postponed = 0
	}
	for i := range report.Writes {
		w := &report.Writes[i]
		r.c.Metrics.Wrote(w.Verb)
		ofPrimary := seen != nil && w.Object == report.Primary
		r.overtaken = r.overtaken || ofPrimary && !sameContent(r.primary, seen)
		if !r.made(*w, !ofPrimary || !r.overtaken, ofPrimary) {
			r.state.addUncertain(w.Kind.Ref(w.Key.Namespace, w.Key.Name))
		}
		r.writes = append(r.writes, *w)
		r.writes[len(r.writes)-1].Object = nil // the run may be parked, and be kept for long
	}
	if report.Primary != nil {
		r.primary = report.Primary
	}
}

// made makes a write visible to later reads and, if its event is to be known as one of
// an own change, remembers it. ignored is set if the event then leads to nothing. made
// returns false, and the write may not be visible, if the API server went back to an
// earlier state since the run began.
func (r *run) made(w effect.Write, own, ignored bool) bool {
	restored := func() bool { return r.c.restores != r.restores }
	r.c.mu.Lock()
	before := restored()
	r.c.mu.Unlock()
	if before {
		return false
	}
	r.c.Cache.Wrote(r.item.Key, w) // may wake keys, which takes the lock
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if restored() {
		return false
	}
	if own {
		r.state.own.add(w, ignored)
	}
	return true
}
