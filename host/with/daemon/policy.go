package daemon

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
)

// Policy lets a plugin have daemons, within these limits: {} with the defaults. The configuration may have the same
// field, which has the defaults of policies, and the most that they may have.
type Policy struct {
	// Number is how many daemons the plugin may have; default 1000.
	Number int `json:"number,omitempty"`
	// Fuel is how much one daemon may execute in a second, as in limits.fuel: one that has
	// executed more waits, and a single step that executes more fails. Default 100,000,000,
	// which is some 3 to 25 ms of computing.
	Fuel int64 `json:"fuel,omitempty"`
	// StateKiB is the size of what one daemon keeps between two steps; default and maximum 32.
	StateKiB int `json:"stateKiB,omitempty"`
}

// WithDefaults returns the policy with its zero fields replaced by their defaults.
func (p Policy) WithDefaults() Policy {
	return Policy{
		Number:   cmp.Or(p.Number, 1000),
		Fuel:     cmp.Or(p.Fuel, 100_000_000),
		StateKiB: cmp.Or(p.StateKiB, contract.MaxState>>10),
	}
}

// hostPolicy is the field of the file of --config.
type hostPolicy Policy

// Bounds implements [config.Bounding].
func (p *hostPolicy) Bounds() config.PolicySection { return (*Policy)(p) }

// Problems implements [config.HostSection]: the numbers are all that there is.
func (*hostPolicy) Problems(*field.Path) []error { return nil }

// newPolicy returns what a policy has that states nothing of its own.
func newPolicy() *Policy {
	p := Policy{}.WithDefaults()
	return &p
}

// Numbers implements [config.Bounded].
func (p *Policy) Numbers(at *field.Path) []config.Number {
	return []config.Number{
		config.NumberOf(at.Child("number"), &p.Number, 1, 1_000_000),
		config.NumberOf(at.Child("fuel"), &p.Fuel, 1_000_000, 1_000_000_000_000),
		config.NumberOf(at.Child("stateKiB"), &p.StateKiB, 1, contract.MaxState>>10),
	}
}

// Problems implements [config.PolicySection]: the numbers are all that there is.
func (*Policy) Problems(*field.Path, string, config.Ceiling) []error { return nil }

// Secrets implements [config.PolicySection].
func (*Policy) Secrets() []rights.SecretRef { return nil }

// missing returns the defaults for a policy without the field, if a controller has daemons.
func missing(has config.PolicySection, written bool, m *abi.Manifest) config.MissingSection {
	if written || !slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool { return daemonOf(&c) != nil }) {
		return config.MissingSection{}
	}
	return config.MissingSection{Value: has, Text: "{}"}
}
