package dispatch

import (
	"context"
	mathrand "math/rand/v2"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// This file decides what a run has led to, and performs that.

// decide turns what happened into a decision. It is called again when an effect
// has failed.
func (r *run) decide(failure *effect.Failure) {
	in := outcome.Input{
		Code:       r.returned.Code,
		Result:     r.result,
		Fault:      r.fault,
		Groups:     r.failedGroups(),
		Tries:      r.state.tries,
		Controller: &r.revision.Controller,
		Object: outcome.Object{
			Generation: r.given.Generation,
			Conditions: outcome.ReadConditions(r.given.Raw),
			Deleting:   r.given.Deleting(),
			Unheld:     r.unheldWhileDeleting(),
		},
		Jitter: mathrand.Float64(),
		Now:    r.start,
	}
	switch {
	case failure != nil:
		in.Effect, in.Conflict, in.Outage, in.Full = &failure.EffectFailure, failure.Conflict, failure.Outage, failure.Full
	case r.incomplete != nil:
		in.Fault = &outcome.Fault{Message: r.incomplete.Error()}
	}
	in.Outage = in.Outage || failure == nil && r.unread
	in.Uncounted = failure == nil && r.incomplete != nil || r.replaced || !r.c.leads()
	r.decision = outcome.Decide(in)
}

// perform performs the decision step by step. When one fails, the run is decided again:
// after that only the host's part of the status is written, and of the guest's if
// nothing but groups of intents has failed. When one is postponed, the rest is, too.
func (r *run) perform(ctx context.Context) {
	if r.fault == nil && r.incomplete == nil { // else there is nothing to perform but a status
		r.later = r.state.untilNotBefore() // because of an earlier run
	}
	for i, step := range [...]func(*run, context.Context){
		(*run).performIntents, (*run).failWithTurn, (*run).writeStatus, (*run).removeFinalizer, (*run).callPerformed,
	} {
		if r.later > 0 || i > 0 && r.gone != nil { // nothing is written to an object that is gone
			return
		}
		step(r, ctx)
	}
}

// performIntents performs patch, release, apply, delete and events of the result.
func (r *run) performIntents(ctx context.Context) {
	if r.decision.Intents {
		r.settleIntents(r.intents(ctx))
	}
}

// failWithTurn makes a run fail that has not if a turn of its object has.
func (r *run) failWithTurn(context.Context) {
	if r.decision.Class != abi.ClassNone {
		return
	}
	if failure, fault := r.failureOfTurn(); r.settle(failure) {
		r.guestFault = fault
	}
}

// settle reports whether a failure was a failure of the run, which is then decided
// again, and not one that postpones the effects. A nil failure is none.
func (r *run) settle(failure *effect.Failure) (failed bool) {
	if failure == nil {
		return false
	}
	if r.notes(failure); r.later > 0 {
		return false
	}
	r.decide(failure)
	return true
}

// notes keeps what the next run needs of a failure, or postpones the effects.
func (r *run) notes(failure *effect.Failure) {
	if failure.Uncertain {
		r.state.addUncertain(failure.Ref)
	}
	r.full, r.internal = r.full || failure.Full, r.internal || failure.Internal
	if !r.postpones(failure) {
		r.failures = append(r.failures, failure.EffectFailure)
	}
}

// writeStatus writes the status. If the API server refuses the status that the
// guest wants, a limit of bytes does, or every write meets one of somebody else, the
// host's part is written alone, so that the object shows why.
func (r *run) writeStatus(ctx context.Context) {
	reported := r.full
	failure := r.status(ctx)
	guestStatus := r.decision.GuestStatus && r.result != nil && len(r.result.Status) > 0
	if !r.settle(failure) {
		return
	}
	refused := guestStatus && effect.RefusesContent(failure.EffectFailure)
	full := failure.Full && !reported
	if !refused && !full && !(failure.Conflict && !r.decision.Uncounted) {
		return
	}
	second := r.status(ctx)
	switch {
	case second == nil:
	case failure.Internal && second.Outage: // the first was, too
		r.settle(second)
	default:
		r.notes(second) // the decision stays that of the first
	}
}

// intents adds the finalizer and performs what the result asks for.
func (r *run) intents(ctx context.Context) *effect.Failure {
	if r.gone == nil && r.revision.Controller.Finalizer && !r.given.Deleting() && (r.wantsTurn() || r.needsFinalizer()) {
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
	if failure != nil || len(r.groups) > 0 || r.gone != nil || !r.reachedTheDesiredState() {
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
func (r *run) removeFinalizer(ctx context.Context) {
	if r.decision.RemoveFinalizer && r.settle(r.releaseObject(ctx)) {
		r.writeStatus(ctx)
	}
}

func (r *run) releaseObject(ctx context.Context) *effect.Failure {
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

// target is the primary and the controller for the stage effect. Before effects are performed
// refresh has read what a write may have changed that was answered with the code 500.
func (r *run) target() effect.Target {
	return effect.Target{
		Controller: &r.revision.Controller, Object: r.primary, Gone: r.gone != nil, Cleanup: r.cleanup,
		NoOutage: r.noOutage(),
	}
}
