package changes

import (
	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:  contract.Name,
		Check: contract.Check,
		Uses: func(c *abi.Controller) (use rights.Use) {
			if contract.Of(c) == contract.Annotation {
				use.Patches = "Changes with an annotation"
			}
			return use
		},
		Title:    "Changes",
		Describe: func(c *abi.Controller) string { return string(contract.Of(c)) },
		New: func(runner.Environment) runner.Capability {
			return runner.Capability{Plugin: func(plugin string) runner.PluginPart {
				return runner.PluginPart{Controller: func(h runner.Handle) runner.ControllerPart {
					return runner.ControllerPart{Hooks: (&controller{plugin, h}).hooks()}
				}}
			}}
		},
	}
}

// controller tells the runs of a controller how their objects differ from what was handled.
type controller struct {
	plugin  string
	objects objects
}

// objects are those of the controller; [runner.Handle] has them.
type objects interface {
	Shown(key object.Key) (*object.Object, bool)
	ChangeState(o *object.Object, f func(state any))
}

func (c *controller) hooks() dispatch.Hooks {
	return dispatch.Hooks{
		Changed: c.changed,
		Result: func(rev *dispatch.Revision, section []byte) error {
			return contract.CheckResult(&rev.Controller, section)
		},
		Patch: c.patch, Performed: c.performed, Ended: c.ended,
		Wait: c.wait, Begin: c.begin,
		Restored: func(s any) { s.(*state).kept = nil }, // its base may come again with another content
	}
}
