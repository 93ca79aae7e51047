package outcome

import (
	"cmp"
	"slices"

	"github.com/thole-dev/thole/abi"
)

// This file decides the target conditions: those of conditions.summaries, and
// conditions.target, which is Ready unless the manifest names another. The order
// of precedence in the package comment holds for each, with the conditions that
// its own list names. Stalled and Reconciling are always part of the summary of
// conditions.target, and of another one if it lists them.

// target returns the type of conditions.target.
func target(declared *abi.Conditions) string { return cmp.Or(declared.Target, Ready) }

// isTarget reports whether a condition type is a target of the controller.
func isTarget(declared *abi.Conditions, conditionType string) bool {
	return conditionType == target(declared) ||
		slices.ContainsFunc(declared.Summaries, func(s abi.Summary) bool { return s.Target == conditionType })
}

// setTargets sets the target conditions, each after those that it may depend on.
// It must be called last, because targets depend on every other condition.
func (s *conditionSet) setTargets(row row) {
	for i := range s.declared.Summaries {
		t := &s.declared.Summaries[i]
		s.setTarget(t.Target, row, s.summarize(t.Target, t.NegativePolarity, t.Summarized))
	}
	s.setTarget(s.target, row, s.summarize(s.target, s.declared.NegativePolarity, s.declared.Summarized, hostsOwn))
}

// hostsOwn are the types that are always part of the summary of conditions.target.
var hostsOwn = []string{Stalled, Reconciling}

// setTarget sets a target condition whose conditions have the given summary.
func (s *conditionSet) setTarget(t string, row row, sum summary) {
	failure, claim := s.ending.failure, s.guests(t)
	if claim != nil && claim.Status == "" {
		claim = nil // the target cannot be removed
	}
	switch {
	case sum.byHost && failure != nil:
		s.set(abi.Condition{Type: t, Status: abi.ConditionFalse, Reason: failure.reason, Message: failure.message})
	case claim != nil && sum.allows(claim):
		s.set(*claim)
	case sum.status != "" && s.stays(t, sum): // and is on the object
	case sum.status != "":
		s.set(abi.Condition{Type: t, Status: sum.status, Reason: sum.decides.Reason, Message: sum.decides.Message})
	case row.ready == summaryElseSucceeded:
		s.set(abi.Condition{Type: t, Status: abi.ConditionTrue, Reason: ReasonSucceeded, Message: "the wanted state is reached"})
	case index(s.after, t) < 0: // unchanged, but the target must be there
		s.set(abi.Condition{Type: t, Status: abi.ConditionUnknown, Reason: ReasonUndetermined, Message: "waiting for a change"})
	}
}

// stays reports whether a target condition is what its summary prescribes, and the
// condition that decides has not been seen at this generation: the target keeps
// its own generation then.
func (s *conditionSet) stays(t string, sum summary) bool {
	i := index(s.after, t)
	return i >= 0 && sum.decides.ObservedGeneration != s.generation &&
		s.after[i].Status == sum.status && s.after[i].Reason == sum.decides.Reason && s.after[i].Message == sum.decides.Message
}

// summary is what the summarized conditions mean for the target.
type summary struct {
	status  string        // of the target; "" if there is nothing to summarize
	decides abi.Condition // the condition that decides
	byHost  bool          // which is Stalled or Reconciling
}

// allows reports whether the status that the guest set for the target can
// stand. It cannot contradict a declared condition, and it can only be False
// while the object is reconciling.
func (s summary) allows(claim *abi.Condition) bool {
	return s.status != abi.ConditionFalse || s.byHost && claim.Status == abi.ConditionFalse
}

// summarize finds the condition that decides a target: the one of the lowest
// rank, and among equals the first in the order of the lists.
func (s *conditionSet) summarize(t string, negative []string, lists ...[]string) (sum summary) {
	lowest := lastRank + 1
	for _, list := range lists {
		for _, conditionType := range list {
			i := index(s.after, conditionType)
			if i < 0 || conditionType == t {
				continue
			}
			bad := setByHost(conditionType) || slices.Contains(negative, conditionType)
			if n, status := rank(s.after[i].Status, bad); n < lowest {
				lowest = n
				sum = summary{status: status, decides: s.after[i], byHost: setByHost(conditionType)}
			}
		}
	}
	return sum
}

// lastRank is that of conditions whose status is unknown.
const lastRank = 4

// rank orders conditions by how much they decide, as Flux groups them, and
// returns the status that each gives to the target.
func rank(status string, negative bool) (int, string) {
	switch {
	case status == abi.ConditionTrue && negative:
		return 0, abi.ConditionFalse
	case status == abi.ConditionFalse && !negative:
		return 1, abi.ConditionFalse
	case status == abi.ConditionTrue:
		return 2, abi.ConditionTrue
	case status == abi.ConditionFalse:
		return 3, abi.ConditionTrue
	default:
		return lastRank, abi.ConditionUnknown
	}
}
