package abi

import (
	"maps"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
)

// MaxSections is how many sections a controller may have. A guest takes as many of a request.
const MaxSections = 64

// Section is the part of a capability in a message: a member whose name is that of the capability. What
// the value means is specified with the capability, in the folder of this package that has its name.
type Section struct {
	Name  string
	Value []byte // JSON, not null
}

// Section returns the value of a section, nil if the controller has none of that name.
func (c *Controller) Section(name string) []byte { return sectionOf(c.Sections, name) }

// Section returns the value of a section, nil if the request has none of that name.
func (q *Request) Section(name string) []byte { return sectionOf(q.Sections, name) }

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
	return checkEach("controllers", m.Controllers, func(c Controller) error {
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

// controllerFields returns the names of the fields of a controller.
func controllerFields() (names []string) {
	(&Controller{}).fields(&fields{w: &rawjson.Writer{}, member: noMember, names: &names})
	return names
}

// sections are the members of an object that are not in its list of fields, of which it must be the last
// entry. They are written in their order.
func (f *fields) sections(all *[]Section) {
	if f.r != nil {
		f.rest = all
		return
	}
	for _, s := range *all {
		if f.writes(s.Name, true) {
			f.w.Raw(s.Value)
		}
	}
}

// section reads a member as a section. A null is the same as no section.
func (f *fields) section(all *[]Section) {
	name := f.r.Name()
	if len(*all) == MaxSections {
		if f.r.Strict { // a guest ignores what it does not know
			f.r.Fail("more than " + strconv.Itoa(MaxSections) + " members that are not fields")
		}
		return
	}
	if !f.r.Null() {
		*all = append(*all, Section{name, f.r.Raw()})
	}
}
