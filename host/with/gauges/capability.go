package gauges

import (
	"strings"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/gauges"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:     contract.Name,
		Check:    contract.Check,
		Title:    "Gauges",
		Describe: describe,
		New: func(env runner.Environment) runner.Capability {
			all := newCollector()
			env.Metrics.Registry.MustRegister(all)
			return runner.Capability{Plugin: func(plugin string) runner.PluginPart {
				return runner.PluginPart{Controller: func(h runner.Handle) runner.ControllerPart {
					c := &controller{plugin: plugin, handle: h}
					return runner.ControllerPart{
						Swapped: func(_, next *dispatch.Revision) {
							c.use(&next.Controller)
							all.add(c)
						},
						Stop: func() {
							all.remove(c)
							c.use(&abi.Controller{})
						},
					}
				}}
			}}
		},
	}
}

// indexes returns the indexes that the gauges of a controller name.
func indexes(c *abi.Controller) (all []abi.Index) {
	section := c.Section(contract.Name)
	if section == nil {
		return nil
	}
	named, _ := contract.Decode(section) // was checked
	for _, g := range named {
		x, _ := c.PrimaryIndex(g.Index)
		all = append(all, x)
	}
	return all
}

// describe describes gauges such as "phase of status.phase".
func describe(c *abi.Controller) string {
	var texts []string
	for _, x := range indexes(c) {
		texts = append(texts, x.Name+" of "+x.Field)
	}
	return strings.Join(texts, ", ")
}
