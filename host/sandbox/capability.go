package sandbox

import (
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
)

// Capability is what a capability of the host asks of the modules of its plugins.
type Capability struct {
	// Name is that of its section in the controllers of manifests, which Check checks: see
	// [abi.Manifest.CheckSections].
	Name  string
	Check func(c *abi.Controller, section []byte) error
	// Exports are what its calls need: a module has them if a controller has the section.
	Exports []Export
}

// Export is a function (len i32) -> i32 of a guest that a capability calls by [Guest.Call].
type Export struct {
	Name    string
	Meaning string   // in messages, such as "finds the objects to run"
	Denied  []string // functions of the host that return [abi.CodeDenied] in its calls
}

// exports returns what the host calls, by name.
func (c Config) exports() map[string]Export {
	all := map[string]Export{}
	for _, of := range c.Capabilities {
		for _, e := range of.Exports {
			all[e.Name] = e
		}
	}
	return all
}

// withExports returns the functions that a guest exports, with those of capabilities.
func withExports(names []string) []contractExport {
	all := slices.Clip(contractExports)
	for _, name := range names {
		all = append(all, contractExport{name, wasm.Signature(params(i32), i32), false})
	}
	return all
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
		for i := range m.Controllers {
			if m.Controllers[i].Section(of.Name) == nil {
				continue
			}
			for _, e := range of.Exports {
				if in.module.ExportedFunction(e.Name) == nil {
					return fmt.Errorf("controller %q has %s, and export %q is missing, which %s: export the function, or remove %s from the manifest",
						m.Controllers[i].Name, of.Name, e.Name, e.Meaning, of.Name)
				}
			}
		}
	}
	return nil
}
