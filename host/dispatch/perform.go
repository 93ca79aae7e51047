package dispatch

import (
	"context"
	mathrand "math/rand/v2"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
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

// perform performs the decision: finalizer, patch, release, apply, delete, events, status,
// and the removal of the finalizer. When one fails, the run is decided again:
// after that only the host's part of the status is written, and of the guest's if
// nothing but groups of intents has failed. When one is postponed, the rest is, too.
func (r *run) perform(ctx context.Context) {
	if r.gone != nil {
		r.performGone(ctx)
		return
	}
	if r.fault == nil && r.incomplete == nil { // else there is nothing to perform but a status
		r.later = r.state.untilNotBefore() // because of an earlier run
	}
	if r.later > 0 {
		return
	}
	if r.decision.Intents {
		r.settleIntents(r.intents(ctx))
	}
	if r.later == 0 && r.decision.Class == abi.ClassNone {
		if failure, fault := r.failureOfTurn(); r.settle(failure) {
			r.guestFault = fault
		}
	}
	if r.later == 0 {
		r.writeStatus(ctx)
	}
	if r.later == 0 && r.decision.RemoveFinalizer {
		if failure := r.removeFinalizer(ctx); failure != nil && r.settle(failure) {
			r.writeStatus(ctx)
		}
	}
	r.callPerformed(ctx)
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

// noOutage reports whether a write that is answered with the code 500 is due to what was sent:
// one of the last run was, and refresh has read from the API server what it may have changed.
func (r *run) noOutage() bool {
	from := r.state.internal
	return !from.IsZero() && !time.Now().Before(from)
}

// nextInternal returns [carried.internal] for the next run. A run that has taken an outage for a refusal
// has sent one request more than it needs, and has found out by that. For outageHolds no run does it again.
func (r *run) nextInternal() time.Time {
	switch now := time.Now(); {
	case !r.internal:
		return time.Time{}
	case r.noOutage() && r.decision.Next.Outage:
		return now.Add(outageHolds)
	case r.state.internal.After(now):
		return r.state.internal
	default:
		return now
	}
}

const outageHolds = time.Minute

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
