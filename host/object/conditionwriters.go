package object

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// ConditionWriters has the controller that writes a condition, by group, kind and
// type of the condition, "" for all of a status that is the guest's. The API version is
// left out, because the conditions of an object are the same in every version.
type ConditionWriters map[string]string

// Add adds the controllers of a plugin. It returns an error if one of them targets
// or owns a condition that another controller targets or owns, or writes conditions of a
// kind whose status is the guest's of another one. Reconciling and Stalled belong to the
// controller that targets Ready, whatever others own.
func (w ConditionWriters) Add(plugin string, controllers []abi.Controller) error {
	for i := range controllers {
		c := &controllers[i]
		err := error(nil)
		switch name := plugin + "/" + c.Name; {
		case GuestOwnsStatus(c):
			err = w.addOwner(name, c)
		case HasConditions(c):
			err = w.addWriter(name, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addOwner adds a controller whose guest writes the whole status.
func (w ConditionWriters) addOwner(name string, c *abi.Controller) error {
	status := conditionOf(c, "")
	others := []string{}
	for written, other := range w {
		if other != name && strings.HasPrefix(written, status) {
			others = append(others, other)
		}
	}
	if len(others) > 0 {
		return ownerConflict(name, slices.Min(others), c.For)
	}
	w[status] = name
	return nil
}

// addWriter adds a controller for which the host writes conditions.
func (w ConditionWriters) addWriter(name string, c *abi.Controller) error {
	if owner := w[conditionOf(c, "")]; owner != "" && owner != name {
		return ownerConflict(owner, name, c.For)
	}
	for _, condition := range c.Conditions.Written() {
		written := conditionOf(c, condition)
		if other := w[written]; other != "" && other != name {
			return fmt.Errorf("controller %q and %q both write the condition %s of %s; only one of them may have it as a target or in Conditions.Owned",
				name, other, condition, c.For)
		}
		w[written] = name
	}
	return nil
}

func conditionOf(c *abi.Controller, condition string) string {
	return c.For.Group() + "/" + c.For.Kind.Kind + "/" + condition
}

func ownerConflict(owner, other string, kind abi.Followed) error {
	return fmt.Errorf("controller %q writes the whole status of %s (StatusOwner %q), and %q writes conditions there, too; only one of them may",
		owner, kind, abi.StatusOwnerGuest, other)
}
