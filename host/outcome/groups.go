package outcome

import (
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
)

// This file decides what the failure of a group of intents leads to. Such a run has
// failed, and its other effects were performed: what else the result has is honoured.

// failedGroups returns the ending of a run in which nothing but groups of intents has failed. The
// first of them decides, and a conflict only if there is nothing else: the next run may have none.
func failedGroups(in Input) ending {
	i := slices.IndexFunc(in.Groups, func(f GroupFailure) bool { return !f.Conflict })
	first := &in.Groups[max(i, 0)]
	in.Conflict, in.Full = first.Conflict, first.Full
	e := failedEffect(in, &first.EffectFailure)
	e.honoured = true
	return e
}

// setGroups sets the conditions of groups. It must be called after the guest's own conditions
// were set, which stand only if the group has not failed.
func (s *conditionSet) setGroups(in Input) {
	if in.Result == nil || len(in.Result.Groups) == 0 {
		return
	}
	failures := failuresByCondition(in)
	for _, g := range in.Result.Groups {
		switch f := failures[g.Condition]; {
		case g.Condition == "":
		case f != nil:
			e := failed(f.Class, f.Reason, DescribeEffect(f))
			s.set(abi.Condition{Type: g.Condition, Status: s.polarity(g.Condition, false), Reason: e.failure.reason, Message: e.failure.message})
		case s.ending.honoured && s.guests(g.Condition) == nil:
			s.set(abi.Condition{Type: g.Condition, Status: s.polarity(g.Condition, true), Reason: ReasonSucceeded, Message: "all that was asked for was done"})
		}
	}
}

// failuresByCondition returns the first failure of the groups that have a condition.
func failuresByCondition(in Input) map[string]*abi.EffectFailure {
	conditions := make(map[string]string, len(in.Result.Groups))
	for _, g := range in.Result.Groups {
		conditions[g.Name] = g.Condition
	}
	failures := map[string]*abi.EffectFailure{}
	for i := range in.Groups {
		f := &in.Groups[i].EffectFailure
		if condition := conditions[f.Group]; failures[condition] == nil {
			failures[condition] = f
		}
	}
	return failures
}

// polarity returns the good status of a condition, or the bad one.
func (s *conditionSet) polarity(conditionType string, good bool) string {
	negative := slices.Contains(s.declared.NegativePolarity, conditionType) ||
		slices.ContainsFunc(s.declared.Summaries, func(sum abi.Summary) bool { return slices.Contains(sum.NegativePolarity, conditionType) })
	if good != negative {
		return abi.ConditionTrue
	}
	return abi.ConditionFalse
}

// checkGroups returns how the groups of a result violate the contract, "" if they do not. Those
// conditions that have rules of their own cannot be of a group.
func checkGroups(r *abi.Result, c *abi.Controller) string {
	for _, g := range r.Groups {
		switch declared := &c.Conditions; {
		case g.Condition == "":
		case c.For.MetadataOnly:
			return fmt.Sprintf("groups: the condition %q of %q cannot be set beside for.metadataOnly: the host does not keep the status of the object", g.Condition, g.Name)
		case c.StatusOwner == abi.StatusOwnerGuest:
			return fmt.Sprintf("groups: the condition %q of %q cannot be set beside StatusOwner: set it in the status, by what Previous of the next request has", g.Condition, g.Name)
		case isTarget(declared, g.Condition), setByHost(g.Condition):
			return fmt.Sprintf("groups: the condition %q of %q follows from how the run ends: name another one, which Conditions.Owned of the controller lists", g.Condition, g.Name)
		case !mayWrite(declared, g.Condition):
			return fmt.Sprintf("groups: the condition %q of %q is not owned by the controller: list it in Conditions.Owned of the controller", g.Condition, g.Name)
		}
	}
	return ""
}
