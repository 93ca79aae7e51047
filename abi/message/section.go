package message

import (
	"strconv"
)

// MaxSections is how many sections a message may have.
const MaxSections = 64

// Section is a member whose name is that of a capability.
type Section struct {
	Name  string
	Value []byte // JSON, not null
}

// Sections are the members of an object that are not in its list of fields, of which it must be the last
// entry. They are written in their order.
func (f *Fields) Sections(all *[]Section) {
	if f.r != nil {
		f.rest = all
		return
	}
	f.writeSections(all)
}

// SectionsOf is [Fields.Sections] for those whose names are known: other members are unknown fields.
func (f *Fields) SectionsOf(known func(name string) bool, all *[]Section) {
	switch {
	case f.r == nil:
		f.writeSections(all)
	case known != nil && f.member != "" && f.member != noMember && known(f.member):
		f.rest = all
	}
}

func (f *Fields) writeSections(all *[]Section) {
	for _, s := range *all {
		if f.Writes(s.Name, true) {
			f.w.Raw(s.Value)
		}
	}
}

// section reads a member as a section. A null is the same as no section.
func (f *Fields) section(all *[]Section) {
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
