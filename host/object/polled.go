package object

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// Lacks returns an error for the first thing that a controller asks of a kind that it
// follows and that the API of the kind cannot do: an API without watch often cannot write
// either.
func (r Resource) Lacks(c *abi.Controller) error {
	if !r.ReadOnly {
		return nil
	}
	what := ""
	switch primary := c.For.Kind == r.Kind; {
	case c.IsOwned(r.Kind):
		what = "the entry in owns"
	case !primary:
	case c.Finalizer:
		what = "finalizer"
	case c.Changes == abi.ChangesAnnotation:
		what = `changes: "annotation"`
	case AsksForConditions(c) && !r.Status:
		what = "conditions"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("controller %q: %s cannot be used with %s, whose API has no verb \"patch\": remove it from the manifest", c.Name, what, r.Kind)
}
