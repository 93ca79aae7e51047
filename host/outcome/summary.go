package outcome

import (
	"cmp"
	"slices"

	"github.com/thole-dev/thole/abi"
)

// This file decides the target condition, which is Ready unless the manifest
// names another. The order is that of the package comment.

// target returns the type of the target condition.
func target(declared *abi.Conditions) string { return cmp.Or(declared.Target, Ready) }

// setTarget sets the target condition. It must be called last, because the
// target depends on every other condition.
func (s *conditionSet) setTarget(row row) {
	t, failure := s.target, s.ending.failure
	claim := s.guests(t)
	if claim != nil && claim.Status == "" {
		claim = nil // the target cannot be removed
	}
	sum := s.summarize()
	switch {
	case sum.byHost && failure != nil:
		s.set(abi.Condition{Type: t, Status: abi.ConditionFalse, Reason: failure.reason, Message: failure.message})
	case claim != nil && sum.allows(claim):
		s.set(*claim)
	case sum.status != "":
		s.set(abi.Condition{Type: t, Status: sum.status, Reason: sum.decides.Reason, Message: sum.decides.Message})
	case row.ready == summaryElseSucceeded:
		s.set(abi.Condition{Type: t, Status: abi.ConditionTrue, Reason: ReasonSucceeded, Message: "the wanted state is reached"})
	case index(s.after, t) < 0: // unchanged, but the target must be there
		s.set(abi.Condition{Type: t, Status: abi.ConditionUnknown, Reason: ReasonUndetermined, Message: "waiting for a change"})
	}
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

// summarize finds the condition that decides: the one of the lowest rank, and
// among equals the first in the order of the manifest, which Stalled and
// Reconciling follow.
func (s *conditionSet) summarize() (sum summary) {
	lowest := lastRank + 1
	consider := func(conditionType string) {
		i := index(s.after, conditionType)
		if i < 0 || conditionType == s.target {
			return
		}
		negative := setByHost(conditionType) || slices.Contains(s.declared.NegativePolarity, conditionType)
		if n, status := rank(s.after[i].Status, negative); n < lowest {
			lowest = n
			sum = summary{status: status, decides: s.after[i], byHost: setByHost(conditionType)}
		}
	}
	for _, t := range s.declared.Summarized {
		consider(t)
	}
	consider(Stalled)
	consider(Reconciling)
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
