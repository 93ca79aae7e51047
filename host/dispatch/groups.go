package dispatch

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/outcome"
)

// This file decides runs in which groups of intents have failed.

// settleIntents settles how the intents have ended: with the failure of an intent of no group, nil
// if none has failed, after those of groups. If the intents are postponed, what failed is
// performed again with the others.
func (r *run) settleIntents(failure *effect.Failure) {
	before, bytes := len(r.failures), 0
	for _, f := range r.groups {
		r.notes(f)
		if bytes += sizeOf(&f.EffectFailure); bytes > abi.MaxGroupFailures { // which are kept until the next run
			r.failures = r.failures[:len(r.failures)-1]
		}
	}
	failed := r.settle(failure)
	switch {
	case r.later > 0:
		r.failures, r.groups = r.failures[:before], nil
	case !failed && len(r.groups) > 0:
		r.decide(nil)
	}
}

// sizeOf returns the bytes of the texts of a failure.
func sizeOf(f *abi.EffectFailure) int {
	return len(f.Ref.APIVersion) + len(f.Ref.Kind) + len(f.Ref.Namespace) + len(f.Ref.Name) + len(f.Ref.UID) +
		len(f.Reason) + len(f.Message) + len(f.Group)
}

// failedGroups returns the failures of groups as the decision of the run depends on them.
func (r *run) failedGroups() (all []outcome.GroupFailure) {
	for _, f := range r.groups {
		all = append(all, outcome.GroupFailure{EffectFailure: f.EffectFailure, Conflict: f.Conflict, Full: f.Full})
	}
	return all
}
