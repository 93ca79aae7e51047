package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// A capability has a field of its own in the policy of a plugin, in the file of --config, and in allow there. They are
// decoded and checked as strictly as the fields of [Policy], [Config] and [Ceiling].

// Section declares the fields of a capability, and what policies have to allow for it.
type Section struct {
	Name string // of the fields
	// Uses returns what the capability does with the primaries of a controller. It may be nil: nothing.
	Uses func(c *abi.Controller) rights.Use
	// Missing returns what the field of a policy has to have for a manifest. has is what it has, and without the
	// field, for which written is false, what New returns, which must be set; it must not be changed. Missing may be
	// nil.
	Missing func(has PolicySection, written bool, m *abi.Manifest) MissingSection
	// New returns a value of the field in policies with the defaults: a pointer to a struct, whose fields have
	// JSON tags and, in Go, comments. It is nil if there is no field.
	New func() PolicySection
	// Config returns the value of the field in the file of --config with its defaults, which are kept where
	// the file has nothing: a pointer as well, see [Bounding]. It is nil if there is no field.
	Config func() HostSection
	// Allow is a value of the type that the field in allow has for each plugin, see [Ceiling.SectionOf], or [Named]. It is
	// nil if there is no field.
	Allow AllowSection
}

// UsesOf returns what capabilities do with the primaries of a controller.
func UsesOf(c *abi.Controller, sections []Section) (all rights.Use) {
	for _, s := range sections {
		if s.Uses != nil {
			use := s.Uses(c)
			all.ForNoObject, all.Patches = all.ForNoObject || use.ForNoObject, cmp.Or(all.Patches, use.Patches)
		}
	}
	return all
}

// MissingSection is what the field of a capability in a policy has to have for a manifest.
type MissingSection struct {
	Value PolicySection // with what the field has already; nil: nothing is missing
	Text  string        // what is to be written for the value: YAML on one line
	Allow AllowSection  // what allow has to have for the plugin; nil: nothing
	// Wildcard is set if that is more than the plugin uses, so that somebody has to decide how much it is.
	Wildcard bool
}

// AllowSection is what allow of the configuration has in the field of a capability for one plugin: a list. Its String
// is YAML on one line.
type AllowSection interface {
	EntryExampler
	fmt.Stringer
	// Problems returns what is wrong with the value. at is its path.
	Problems(at *field.Path) []error
}

// Named is what allow has of each plugin in a field that is a list of their names.
type Named struct{}

// EntryExample implements [EntryExampler].
func (Named) EntryExample() string { return "" }

// Problems implements [AllowSection].
func (Named) Problems(*field.Path) []error { return nil }

func (Named) String() string { return "" }

// HostSection is what the file of --config has in the field of a capability.
type HostSection interface {
	// Problems returns what is wrong with the value. at is the path of the field.
	Problems(at *field.Path) []error
}

// Flagged is implemented by a [HostSection] of which fields have flags of thole run, which win over the file.
type Flagged interface {
	HostSection
	Flags() []Flag
}

// Flag is a flag of thole run that sets a field of a section.
type Flag struct {
	Name, Usage string
	Field       any // a *string, a *bool or a *[Duration]
}

// Flags returns the flags of sections. What they set is part of the configuration.
func (c *Config) Flags() (all []Flag) {
	c.setSections()
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		if f, ok := c.Values[name].(Flagged); ok {
			all = append(all, f.Flags()...)
		}
	}
	return all
}

// Listening is implemented by a [HostSection] of a capability that serves something at an address of its own.
type Listening interface {
	HostSection
	// Address returns the address, "" if nothing is served.
	Address() string
	// ListenLocally sets an address of this machine, and how an API server on this machine reaches it.
	ListenLocally(address string)
}

// Listening returns the fields that are [Listening], by their names. What is set there is part of the configuration.
func (c *Config) Listening() map[string]Listening {
	c.setSections()
	all := map[string]Listening{}
	for name, value := range c.Values {
		if l, ok := value.(Listening); ok {
			all[name] = l
		}
	}
	return all
}

// PolicySection is what the policy of a plugin has in the field of a capability.
type PolicySection interface {
	// Problems returns what is wrong with the value, and what of it the configuration does not allow the
	// plugin. at is the path of the field.
	Problems(at *field.Path, plugin string, ceiling Ceiling) []error
	// Secrets returns the Secrets that the host reads because of the section, once it was checked.
	Secrets() []rights.SecretRef
}

// WaitingSection is implemented by a [PolicySection] that lets calls of the guest wait, see [sandbox.Limits].
type WaitingSection interface {
	// Waiting returns how many there may be at once.
	Waiting() int
}

// Bounded is implemented by a [PolicySection] with numbers. Their defaults are the most that a policy may have, unless
// the file of --config has others: [Bounding].
type Bounded interface {
	PolicySection
	// Numbers returns the numbers, see [NumberOf]. at is the path of the field.
	Numbers(at *field.Path) []Number
}

// Bounding is implemented by a [HostSection] that has the defaults of policies, and the most that they may have.
type Bounding interface {
	HostSection
	// Bounds returns them: a value as New of the [Section] returns it, which is [Bounded].
	Bounds() PolicySection
}

// setSections sets the values of the fields of capabilities to their defaults where the file has nothing. The defaults of
// policies become those of the file.
func (c *Config) setSections() {
	if values := hostSections(c.Sections); len(values) > 0 {
		maps.Copy(values, c.Values)
		c.Values = values
		c.Sections = withBounds(c.Sections, c.bounds())
	}
}

// isBounded reports whether the section implements [Bounded].
func (s Section) isBounded() bool {
	if s.New == nil {
		return false
	}
	_, ok := s.New().(Bounded)
	return ok
}

// sectionNumbers returns the numbers of sections, in the order of their names.
func sectionNumbers(sections map[string]PolicySection) (all []number) {
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if b, ok := sections[name].(Bounded); ok {
			all = append(all, b.Numbers(field.NewPath(name))...)
		}
	}
	return all
}

// bounds returns the defaults of the sections of policies with numbers, which are the most that policies may have.
func (c Config) bounds() map[string]PolicySection {
	all := map[string]PolicySection{}
	for _, s := range c.Sections {
		if s.isBounded() {
			all[s.Name] = s.New()
		}
	}
	for name, value := range c.Values {
		if b, ok := value.(Bounding); ok {
			all[name] = b.Bounds()
		}
	}
	return all
}

// ceilingsOf returns the part of [Config.bounds] for the sections that a policy has.
func (c Config) ceilingsOf(p *Policy) map[string]PolicySection {
	all := c.bounds()
	maps.DeleteFunc(all, func(name string, _ PolicySection) bool { return p.Sections[name] == nil })
	return all
}

// withBounds returns sections with other values of those that the configuration bounds.
func withBounds(sections []Section, values map[string]PolicySection) []Section {
	all := slices.Clone(sections)
	for i, s := range all {
		if value := values[s.Name]; value != nil {
			all[i].New = func() PolicySection {
				copied := reflect.New(reflect.TypeOf(value).Elem())
				copied.Elem().Set(reflect.ValueOf(value).Elem())
				return copied.Interface().(PolicySection)
			}
		}
	}
	return all
}

// EntryExampler is implemented by the types of lists in a policy whose elements are mappings.
type EntryExampler interface {
	// EntryExample returns an element as people write it, for messages.
	EntryExample() string
}

var entryExampler = reflect.TypeFor[EntryExampler]()

// entryExample returns how an element of a list of that type is written, "" for any other type.
func entryExample(t reflect.Type) string {
	if !t.Implements(entryExampler) {
		return ""
	}
	return reflect.Zero(t).Interface().(EntryExampler).EntryExample()
}
