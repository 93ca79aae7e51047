// Package with has what a host can do beside its core: capabilities. Each has a folder here with all of it,
// and a line in the list of the program (host/with/standard). See host/doc.go for how one is made.
package with

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
)

// Capability declares a capability. A nil function is not called.
type Capability struct {
	// Name is that of its sections, in the controllers of manifests, in policies and in the file of --config.
	Name string
	// Check returns what is wrong with the section of a controller, which was decoded and checked otherwise.
	// It must be set, or the capability has no sections.
	Check func(c *abi.Controller, section []byte) error
	// CheckManifest returns what is wrong with the sections of all controllers together. It may be nil.
	CheckManifest func(m *abi.Manifest) error
	// Exports are the functions of guests that the capability calls.
	Exports []Export
	// Imports are the functions of the host that the capability answers: [dispatch.Hooks.Imports].
	Imports []Import
	// Uses returns what the capability does with the primaries of a controller. It may be nil: nothing.
	Uses func(c *abi.Controller) rights.Use
	// Policy returns a section of a policy with the defaults, and Config the one in the file of --config, see
	// [config.Section]. Without it there is none.
	Policy func() config.PolicySection
	Config func() config.HostSection
	// Rules returns what the account of the host needs for a manifest, whoever the plugin acts as, beside what the
	// plugin itself needs. A kind of which resources does not know how it is served has none.
	Rules func(m *abi.Manifest, resources rights.Resources) []rights.Rule
	// PluginRules returns what the account of the host needs for a plugin, whatever its manifest has. host is the section
	// of the configuration, and namespace that of the account.
	PluginRules func(plugin string, host config.HostSection, namespace string) []rights.Rule
	// Allow and Missing are those of [config.Section].
	Allow   config.AllowSection
	Missing func(has config.PolicySection, written bool, m *abi.Manifest) config.MissingSection
	// Title is the name of its row in what `thole inspect` prints of a controller, and Describe returns the
	// text, "" for a controller that does not use the capability.
	Title    string
	Describe func(c *abi.Controller) string
	// Note returns what `thole inspect` prints of a module, "" for nothing.
	Note func(module []byte) string
	// New is called once for each host, before it starts.
	New func(env runner.Environment) runner.Capability
}

// Export is a function of guests that a capability calls.
type Export = sandbox.Export

// Import is a function of the host that a capability answers.
type Import = sandbox.Import

// List are the capabilities of a program, in the order in which their functions are called.
type List []Capability

// Modules returns what the capabilities ask of modules.
func (l List) Modules() (all []sandbox.Capability) {
	for _, c := range l {
		if c.Check != nil {
			all = append(all, sandbox.Capability{Name: c.Name, Check: c.Check, CheckManifest: c.CheckManifest, Exports: c.Exports, Imports: c.Imports})
		}
	}
	return all
}

// Sections returns the sections that policies and the configuration may have, and what policies have to allow.
func (l List) Sections() (all []config.Section) {
	for _, c := range l {
		if c.Policy != nil || c.Config != nil || c.Uses != nil {
			all = append(all, config.Section{
				Name: c.Name, New: c.Policy, Config: c.Config, Allow: c.Allow, Missing: c.Missing, Uses: c.Uses,
			})
		}
	}
	return all
}

// Rows returns the rows of controllers in reports.
func (l List) Rows() (all []func(*abi.Controller) (title, text string)) {
	for _, c := range l {
		if c.Describe != nil {
			all = append(all, func(of *abi.Controller) (title, text string) { return c.Title, c.Describe(of) })
		}
	}
	return all
}

// Rules returns what the account of the host needs for a manifest because of the capabilities.
func (l List) Rules(m *abi.Manifest, resources rights.Resources) (all []rights.Rule) {
	for _, c := range l {
		if c.Rules != nil {
			all = append(all, c.Rules(m, resources)...)
		}
	}
	return all
}

// PluginRules returns what the account of the host, which is in a namespace, needs for a plugin because of the
// capabilities.
func (l List) PluginRules(plugin string, sections map[string]config.HostSection, namespace string) (all []rights.Rule) {
	for _, c := range l {
		if c.PluginRules != nil {
			all = append(all, c.PluginRules(plugin, sections[c.Name], namespace)...)
		}
	}
	return all
}

// Notes returns what reports have of a module.
func (l List) Notes(module []byte) (all []string) {
	for _, c := range l {
		if c.Note == nil {
			continue
		}
		if text := c.Note(module); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// New returns what the capabilities do in a host with these sections of the configuration.
func (l List) New(env runner.Environment, sections map[string]config.HostSection) (all []runner.Capability) {
	for _, c := range l {
		if c.New != nil {
			env.Section = sections[c.Name]
			made := c.New(env)
			made.Name = c.Name
			all = append(all, made)
		}
	}
	return all
}
