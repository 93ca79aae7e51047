package object

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// Cannot returns an error for the first thing that a controller asks of a kind that it
// follows and that the API of the kind cannot do: an API without watch often cannot write
// either, and not every kind has a subresource for its status. patches is what else patches the primaries, "" for nothing.
func (r Resource) Cannot(c *abi.Controller, patches string) error {
	primary := c.For.Kind == r.Kind
	if primary && GuestOwnsStatus(c) && !r.Status {
		return fmt.Errorf("controller %q: StatusOwner %q cannot be used with %s, which has no subresource status: "+
			"remove it from the controller, or add the subresource to the CustomResourceDefinition", c.Name, abi.StatusOwnerGuest, r.Kind)
	}
	if !r.ReadOnly {
		return nil
	}
	what := ""
	switch {
	case c.IsOwned(r.Kind):
		what = "the entry in Owns"
	case !primary:
	case c.Finalizer:
		what = "Cleanup"
	case patches != "":
		what = patches
	case AsksForConditions(c) && !r.Status:
		what = "Conditions"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("controller %q: %s cannot be used with %s, whose API has no verb \"patch\": remove it from the controller", c.Name, what, r.Kind)
}
