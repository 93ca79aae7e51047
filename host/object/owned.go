package object

import (
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
)

// CheckOwned returns an error for the first kind in owns whose objects cannot belong to a
// primary: every apply would be refused. A kind of which it is not known how it is served is
// accepted.
func CheckOwned(c *abi.Controller, served func(abi.Kind) (r Resource, known bool)) error {
	if primary, known := served(c.For.Kind); !known || !primary.Namespaced {
		return nil
	}
	for _, w := range c.Owns {
		if r, known := served(w.Kind); known && !r.Namespaced && !slices.Contains(c.Writes, w.Kind) {
			return fmt.Errorf("controller %q: %s in Owns is cluster-scoped, and an object of %s is in a namespace and cannot own it: name the kind in Writes instead",
				c.Name, w.Kind, c.For.Kind)
		}
	}
	return nil
}
