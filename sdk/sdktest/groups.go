package sdktest

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// inGroup returns the failure of an intent that ends the run's effects before the first is
// performed. In a group it is only a violation of the contract: any other is the failure of the
// intent when it is its turn.
func (i *intent) inGroup(failure *abi.EffectFailure) *abi.EffectFailure {
	if failure == nil {
		return nil
	}
	failure.Group = i.group
	if i.group == "" || failure.Class == abi.ClassABI {
		return failure
	}
	i.refused = failure
	return nil
}

// attempt performs an intent unless its group has failed, and returns the failure that ends the
// run's effects.
func (r *Run) attempt(i *intent) *abi.EffectFailure {
	if slices.ContainsFunc(r.groups, func(f outcome.GroupFailure) bool { return f.Group == i.group }) {
		return nil
	}
	failure := i.refused
	if failure == nil {
		failure = r.performIntent(i)
	}
	if failure == nil || i.group == "" {
		return failure
	}
	failure.Group = i.group
	r.groups = append(r.groups, outcome.GroupFailure{EffectFailure: *failure, Conflict: failure.Reason == conflict})
	return nil
}

// failures returns all effects of the run that have failed, in order.
func (r *Run) failures() (all []abi.EffectFailure) {
	for _, f := range r.groups {
		all = append(all, f.EffectFailure)
	}
	if r.effect != nil {
		all = append(all, *r.effect)
	}
	return all
}
