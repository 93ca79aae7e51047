package sdktest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// decide asks the host's own decision what the run leads to.
func (r *Run) decide() {
	c := &r.world.controller
	in := outcome.Input{
		Code: r.Code, Result: r.Result, Fault: r.fault, Effect: r.effect, Uncounted: r.unread,
		Tries: r.tries, Controller: c, Now: r.world.now,
		Object: outcome.Object{
			Generation: r.primary.meta.Generation, Conditions: outcome.ReadConditions(r.primary.raw), Deleting: r.primary.meta.Deleting(),
		},
	}
	if r.unread {
		in.Fault = &outcome.Fault{Reason: "Unavailable", Message: "a read could not be answered yet"}
	}
	d := outcome.Decide(in)
	r.decision, r.Class, r.Reason, r.Message = d, d.Class, d.Reason, d.Message
}

// status writes the guest's part of status, the conditions and
// observedGeneration, in one patch.
func (r *Run) status() {
	o := r.current()
	if o == nil {
		return
	}
	patch := []byte(`{}`)
	if r.decision.GuestStatus && r.Result.Status != nil {
		patch = r.Result.Status
	}
	conditions, observed := r.world.hostPart()
	if conditions && len(r.decision.Set)+len(r.decision.Remove) > 0 {
		patch = overlay(patch, r.world.encode(map[string]any{"conditions": r.conditions(readConditions(o.raw))}))
	}
	if g := r.decision.ObservedGeneration; observed && g != nil {
		patch = overlay(patch, r.world.encode(map[string]any{"observedGeneration": *g}))
	}
	if string(patch) != "{}" {
		r.update("status", o, []byte(`{"status":`+string(patch)+`}`))
	}
}

// hostPart says whether the host writes conditions and observedGeneration. On
// the kinds of Kubernetes itself (here those whose group has no dot) it does
// not, but for conditions that the manifest names.
func (w *World) hostPart() (conditions, observed bool) {
	group, _, grouped := strings.Cut(w.controller.For.APIVersion, "/")
	if grouped && strings.Contains(group, ".") {
		return true, true
	}
	c := w.controller.Conditions
	return c.Target != "" || len(c.Owned)+len(c.Summarized)+len(c.NegativePolarity) > 0, false
}

// conditions are those of the object as the decision changes them: in place,
// new ones at the end.
func (r *Run) conditions(list []sdk.Condition) []sdk.Condition {
	list = slices.DeleteFunc(list, func(c sdk.Condition) bool { return slices.Contains(r.decision.Remove, c.Type) })
	for _, set := range r.decision.Set {
		c := sdk.Condition{
			Type: set.Type, Status: set.Status, Reason: set.Reason, Message: set.Message,
			LastTransitionTime: sdk.TimeOf(set.LastTransitionTime), ObservedGeneration: set.ObservedGeneration,
		}
		if have := find(list, set.Type); have != nil {
			*have = c
		} else {
			list = append(list, c)
		}
	}
	return list
}

func (w *World) target() string {
	if t := w.controller.Conditions.Target; t != "" {
		return t
	}
	return outcome.Ready
}

func find(conditions []sdk.Condition, conditionType string) *sdk.Condition {
	i := slices.IndexFunc(conditions, func(c sdk.Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

func readConditions(raw []byte) (conditions []sdk.Condition) {
	list, _ := rawjson.Lookup(raw, "status", "conditions")
	if json.Unmarshal(list, &conditions) != nil {
		return nil
	}
	return conditions
}

// ending is how a run ended, in the words of package sdk.
type ending string

const (
	success ending = "success"
	requeue ending = "requeue"
	empty   ending = "empty"
	retry   ending = "retry"
	stalled ending = "stalled"
	waiting ending = "waiting"
)

func (r *Run) ending() ending {
	switch r.Class {
	case abi.ClassNone:
		return ending(r.Result.Result)
	case abi.ClassStalled:
		return stalled
	case abi.ClassWaiting:
		return waiting
	default:
		return retry
	}
}
