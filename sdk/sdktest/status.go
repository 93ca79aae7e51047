package sdktest

import (
	"slices"

	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// writeStatus writes the guest's part of the status, the conditions and
// observedGeneration in one patch.
func (r *Run) writeStatus() {
	o := r.current()
	if o == nil {
		return
	}
	patch := []byte(`{}`)
	if r.decision.GuestStatus && r.Result.Status != nil {
		patch, r.world.wroteStatus = r.Result.Status, true
	}
	hostPart := map[string]any{}
	conditions, observed := r.world.hostPart()
	if conditions && len(r.decision.Set)+len(r.decision.Remove) > 0 {
		hostPart["conditions"] = r.changedConditions(outcome.ReadConditions(o.raw))
	}
	if g := r.decision.ObservedGeneration; observed && g != nil {
		hostPart["observedGeneration"] = *g
	}
	if patch = r.world.compose(patch, r.world.encode(hostPart)); string(patch) != "{}" {
		r.update("status", o, []byte(`{"status":`+string(patch)+`}`))
	}
}

// changedConditions returns the conditions of the object with the changes of the
// decision: existing ones keep their place, new ones follow.
func (r *Run) changedConditions(list []sdk.Condition) []sdk.Condition {
	list = slices.DeleteFunc(list, func(c sdk.Condition) bool { return slices.Contains(r.decision.Remove, c.Type) })
	for _, c := range r.decision.Set {
		if i := indexOf(list, c.Type); i >= 0 {
			list[i] = c
		} else {
			list = append(list, c)
		}
	}
	return list
}

func indexOf(conditions []sdk.Condition, conditionType string) int {
	return slices.IndexFunc(conditions, func(c sdk.Condition) bool { return c.Type == conditionType })
}
