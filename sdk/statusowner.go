package sdk

import (
	"errors"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
)

// StatusOwner is who writes the conditions and the observedGeneration of a primary. The zero
// value is the host.
type StatusOwner = abi.StatusOwner

// StatusOwnerGuest is for the controller of a built-in kind, whose API defines what the
// conditions mean. The type of the status has conditions and observedGeneration, as far as the
// kind has them, and the controller sets them: see [SetStatusCondition]. The host writes
// nothing of its own into the status, and tells failures by Events alone.
const StatusOwnerGuest StatusOwner = abi.StatusOwnerGuest

// SetStatusCondition sets a condition in the list of a status that is the controller's own,
// see [StatusOwnerGuest]. Unless c has a LastTransitionTime, that is now if the status of the
// condition has changed, and otherwise stays.
func SetStatusCondition(all *[]Condition, c Condition, now time.Time) {
	i := slices.IndexFunc(*all, func(other Condition) bool { return other.Type == c.Type })
	switch {
	case c.LastTransitionTime != "":
	case i >= 0 && (*all)[i].Status == c.Status:
		c.LastTransitionTime = (*all)[i].LastTransitionTime
	default:
		c.LastTransitionTime = TimeOf(now)
	}
	if i >= 0 {
		(*all)[i] = c
		return
	}
	*all = append(*all, c)
}

// RemoveStatusCondition removes a condition from such a list.
func RemoveStatusCondition(all *[]Condition, conditionType string) {
	*all = slices.DeleteFunc(*all, func(c Condition) bool { return c.Type == conditionType })
}

// refuseConditions makes the run end as stalled if it has set conditions for the host to write.
func (r *Run) refuseConditions() {
	if r.invalid == nil && len(r.result.Conditions) > 0 {
		r.invalid = Stalled("StatusOwner", errors.New("SetCondition is for conditions that the host writes: with StatusOwnerGuest set them in Status, by sdk.SetStatusCondition"))
	}
}
