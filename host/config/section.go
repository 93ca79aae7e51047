package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/egress"
)

// A capability has a field of its own in the policy of a plugin. It is decoded and checked as strictly as
// the fields of [Policy].

// Section declares the field of a capability in policies, and what they have to allow for it.
type Section struct {
	Name string // of the field
	// ForNoObject reports whether the guest is called for no object of a controller. It may be nil.
	ForNoObject func(c *abi.Controller) bool
	// New returns an empty value: a pointer to a struct, whose fields have JSON tags and, in Go, comments. It is
	// nil if there is no field.
	New func() PolicySection
}

// PolicySection is what the policy of a plugin has in the field of a capability.
type PolicySection interface {
	// Problems returns what is wrong with the value, and what of it the configuration does not allow the
	// plugin. at is the path of the field.
	Problems(at *field.Path, plugin string, ceiling Allow) []error
	// Hosts returns the hosts to which requests are sent because of the section, once it was checked.
	Hosts() egress.Entries
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

// policyFile is a policy with the fields that capabilities have in it.
type policyFile struct {
	*Policy
	sections []Section
}

func (f policyFile) schema() schema {
	return schema{policyFields(f.sections), fieldsOf(reflect.TypeFor[Config](), ""), "the file of --config"}
}

// policyFields returns the fields of a policy, with those of the capabilities.
func policyFields(sections []Section) fields {
	all := fieldsOf(reflect.TypeFor[Policy](), "")
	for _, s := range sections {
		if s.New == nil {
			continue
		}
		t := reflect.TypeOf(s.New()).Elem()
		all[s.Name] = t
		maps.Copy(all, fieldsOf(t, s.Name+"."))
	}
	return all
}

// unmarshal stores JSON in the policy and in the sections that are written.
func (f policyFile) unmarshal(asJSON []byte, known schema, written map[string]any) (problems []error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(asJSON, &members); err != nil {
		return []error{err}
	}
	for _, s := range f.sections {
		if s.New == nil {
			continue
		}
		text, ok := members[s.Name]
		delete(members, s.Name)
		if !ok || string(text) == "null" {
			continue
		}
		value := s.New()
		// A struct with that one field, so that errors have the paths of the whole.
		around := reflect.New(reflect.StructOf([]reflect.StructField{{
			Name: "Section", Type: reflect.TypeOf(value).Elem(), Tag: reflect.StructTag(`json:"` + s.Name + `"`),
		}}))
		alone, err := json.Marshal(map[string]json.RawMessage{s.Name: text})
		if err != nil {
			return append(problems, err)
		}
		found := unmarshal(alone, around.Interface(), known, map[string]any{s.Name: written[s.Name]})
		reflect.ValueOf(value).Elem().Set(around.Elem().Field(0))
		if problems = append(problems, found...); len(found) > 0 {
			continue
		}
		if f.Sections == nil {
			f.Sections = map[string]PolicySection{}
		}
		f.Sections[s.Name] = value
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return append(problems, err)
	}
	return append(problems, unmarshal(rest, f.Policy, known, written)...)
}

// sectionProblems returns what is wrong with the sections of a policy.
func (a Allow) sectionProblems(plugin string, p *Policy) (problems []error) {
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		problems = append(problems, p.Sections[name].Problems(field.NewPath(name), plugin, a)...)
	}
	return problems
}

// Secrets returns the Secrets with the credentials of the hosts that the policy names, each once.
func (p Policy) Secrets() []egress.SecretRef {
	all := slices.Clone(p.HTTP)
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		all = append(all, p.Sections[name].Hosts()...)
	}
	return all.Secrets()
}

// MarshalJSON implements [json.Marshaler]: each section is a field.
func (p Policy) MarshalJSON() ([]byte, error) {
	type fieldsAlone Policy
	text, err := json.Marshal(fieldsAlone(p))
	if err != nil || len(p.Sections) == 0 {
		return text, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for name, s := range p.Sections {
		if members[name], err = json.Marshal(s); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}
