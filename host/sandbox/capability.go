package sandbox

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
)

// Capability is what a capability of the host asks of the modules of its plugins.
type Capability struct {
	// Name is that of its section in the controllers of manifests, which Check checks: see
	// [abi.Manifest.CheckSections].
	Name  string
	Check func(c *abi.Controller, section []byte) error
	// CheckManifest checks what several controllers have together, once their sections were checked. It may be nil.
	CheckManifest func(m *abi.Manifest) error
	// Exports are what its calls need: a module has them if a controller has the section.
	Exports []Export
	// Imports are what it answers: [HostCalls.Import].
	Imports []Import
}

// Export is a function (len i32) -> i32 of a guest that a capability calls by [Guest.Call].
type Export struct {
	Name    string
	Meaning string // in messages, such as "finds the objects to run"
	// Needed reports whether it is called because of a section, which was checked; nil: because of each.
	Needed func(section []byte) bool
	// Imports are the functions of [abi.ImportModule] that its calls may use beside input, output and log: others
	// return [abi.CodeDenied]. If it is nil, they may use all of them, as Effects has it.
	Imports []string
	// Effects is set if its calls may do something outside of the cluster, which is not undone if the guest fails.
	Effects bool
}

// Import is a function (ptr, len i32) -> i64 of [abi.ImportModule] that a capability answers. It is served in the
// calls of reconcile and of the exports of capabilities, and returns [abi.CodeDenied] in those of other exports.
type Import struct {
	Name       string
	Meaning    string // in reports, such as "sends requests"
	MaxMessage int    // bytes; a longer message is [abi.CodeInvalid]
	// HasEffects is set if a call does something outside of the cluster, which is not undone if the guest fails: it
	// returns [abi.CodeDenied] in the calls of exports without [Export].Effects.
	HasEffects bool
	// Waits is set if a call may wait for long. It gives up its execution slot then, and that many calls of a guest
	// whose manifest has the section run beside [Limits].Instances, unless [Limits].Waiting states another number.
	Waits int
}

// contract returns what capabilities add to the contract, in order, and the imports that are denied in the calls of
// their exports, by the names of these.
func (c Config) contract() (with contract, denied map[string][]string) {
	var effects []string
	for _, of := range c.Capabilities {
		for _, in := range of.Imports {
			with.Imports = append(with.Imports, in.Name)
			if in.HasEffects {
				effects = append(effects, in.Name)
			}
		}
	}
	denied = map[string][]string{}
	for _, of := range c.Capabilities {
		for _, e := range of.Exports {
			with.Exports = append(with.Exports, e.Name)
			switch {
			case e.Imports != nil:
				all := append([]string{abi.ImportGet, abi.ImportList}, with.Imports...)
				denied[e.Name] = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(e.Imports, name) })
			case !e.Effects:
				denied[e.Name] = effects
			}
		}
	}
	slices.Sort(with.Exports)
	slices.Sort(with.Imports)
	return with, denied
}

// waiting returns how many calls of a guest may run beside those that execute.
func (c Config) waiting(m *abi.Manifest, limits *Limits) (n int) {
	for _, of := range c.Capabilities {
		has := slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool { return c.Section(of.Name) != nil })
		for _, in := range of.Imports {
			if has {
				n = max(n, in.Waits)
			}
		}
	}
	if n > 0 {
		n = cmp.Or(limits.Waiting, n)
	}
	return min(n, maxInstances-limits.Instances)
}

// checkSections checks the sections of a manifest, and that a module exports what they make the host call.
func (c Config) checkSections(m *abi.Manifest, in *instance) error {
	checks := map[string]func(*abi.Controller, []byte) error{}
	for _, of := range c.Capabilities {
		checks[of.Name] = of.Check
	}
	if err := m.CheckSections(checks); err != nil {
		return err
	}
	for _, of := range c.Capabilities {
		if of.CheckManifest != nil {
			if err := of.CheckManifest(m); err != nil {
				return err
			}
		}
		for i := range m.Controllers {
			section := m.Controllers[i].Section(of.Name)
			if section == nil {
				continue
			}
			for _, e := range of.Exports {
				if in.module.ExportedFunction(e.Name) == nil && (e.Needed == nil || e.Needed(section)) {
					return fmt.Errorf("controller %q has %s, and export %q is missing, which %s: export the function, or remove %s from the manifest",
						m.Controllers[i].Name, of.Name, e.Name, e.Meaning, of.Name)
				}
			}
		}
	}
	return nil
}
