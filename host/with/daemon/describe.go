package daemon

import (
	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
)

// daemonOf returns what a controller asks for, nil if it asks for no daemons.
func daemonOf(c *abi.Controller) *contract.Daemon {
	section := c.Section(contract.Name)
	if section == nil {
		return nil
	}
	d, _ := contract.Decode(section) // was checked
	return d
}

// describe describes which objects have a daemon.
func describe(c *abi.Controller) string {
	switch d := daemonOf(c); {
	case d == nil:
		return ""
	case d.LabelSelector == "":
		return "one for each object"
	default:
		return "one for each object with labels " + d.LabelSelector
	}
}
