package abi

import (
	"maps"
	"slices"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// MaxSections is how many sections a controller or a result may have. A guest takes as many of a request.
const MaxSections = message.MaxSections

// Section is the part of a capability in a message: a member whose name is that of the capability. What
// the value means is specified with the capability, in the folder of this package that has its name.
type Section = message.Section

// Section returns the value of a section, nil if the controller has none of that name.
func (c *Controller) Section(name string) []byte { return sectionOf(c.Sections, name) }

// Section returns the value of a section, nil if the request has none of that name.
func (q *Request) Section(name string) []byte { return sectionOf(q.Sections, name) }

// Section returns the value of a section, nil if the result has none of that name.
func (out *Result) Section(name string) []byte { return sectionOf(out.Sections, name) }

func sectionOf(all []Section, name string) []byte {
	for i := range all { // no closure: hosts call it for each event
		if all[i].Name == name {
			return all[i].Value
		}
	}
	return nil
}

// CheckSections returns an error for the first section that belongs to none of the capabilities, or
// that its capability refuses. A capability checks a section of the controller by its function.
func (m *Manifest) CheckSections(capabilities map[string]func(c *Controller, section []byte) error) error {
	return message.CheckEach("controllers", m.Controllers, func(c Controller) error {
		for _, s := range c.Sections {
			check, known := capabilities[s.Name]
			if !known {
				names := append(slices.Sorted(maps.Keys(capabilities)), controllerFields()...)
				return rawjson.NewError("", "unknown field "+rawjson.Quote(s.Name)+", which is not a capability of this host either"+rawjson.DidYouMean(s.Name, names))
			}
			if err := check(&c, s.Value); err != nil {
				return rawjson.Within(s.Name, err)
			}
		}
		return nil
	})
}

// SectionCheck returns by which function a capability checks its section in a result, nil if no capability of that name
// has one.
type SectionCheck func(name string) func(section []byte) error

// has reports whether a result may have a section of that name.
func (check SectionCheck) has(name string) bool { return check != nil && check(name) != nil }

// checkSections returns the first error of a section.
func (out *Result) checkSections(check SectionCheck) error {
	for _, s := range out.Sections {
		if err := check(s.Name)(s.Value); err != nil {
			return rawjson.Within(s.Name, err)
		}
	}
	return nil
}

// controllerFields returns the names of the fields of a controller.
func controllerFields() []string {
	return message.Names((&Controller{}).fields)
}
