package catalog

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// overlap refuses a generation whose controllers write what a controller of
// another plugin writes: the same target condition of the same kind.
func overlap(g *Generation, others []*Generation) error {
	targets := map[string]string{}
	for _, other := range others {
		claim(targets, other)
	}
	for _, c := range g.Manifest.Controllers {
		if !object.HasConditions(&c) {
			continue
		}
		if holder, taken := targets[target(c)]; taken {
			return &failure{"overlap", fmt.Errorf(
				"controller %q and %s both write the condition %s of %s; give one of them another conditions.target",
				g.Plugin+"/"+c.Name, holder, c.Conditions.TargetOrReady(), c.For)}
		}
		targets[target(c)] = fmt.Sprintf("%q", g.Plugin+"/"+c.Name)
	}
	return nil
}

func claim(targets map[string]string, g *Generation) {
	for _, c := range g.Manifest.Controllers {
		if !object.HasConditions(&c) {
			continue
		}
		targets[target(c)] = fmt.Sprintf("%q", g.Plugin+"/"+c.Name)
	}
}

// target is what at most one controller of a host may write. The version of
// the API does not count: conditions are the same in every one.
func target(c abi.Controller) string {
	return c.For.Group() + "/" + c.For.Kind + "/" + c.Conditions.TargetOrReady()
}
