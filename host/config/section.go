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

// A capability has a field of its own in the policy of a plugin, and in the file of --config. They are decoded
// and checked as strictly as the fields of [Policy] and [Config].

// Section declares the fields of a capability, and what policies have to allow for it.
type Section struct {
	Name string // of both fields
	// ForNoObject reports whether the guest is called for no object of a controller. It may be nil.
	ForNoObject func(c *abi.Controller) bool
	// Needed reports whether the policy must have the field for a controller, if only with the defaults. It may
	// be nil.
	Needed func(c *abi.Controller) bool
	// New returns a value of the field in policies with the defaults: a pointer to a struct, whose fields have
	// JSON tags and, in Go, comments. It is nil if there is no field.
	New func() PolicySection
	// Config returns the value of the field in the file of --config with its defaults, which are kept where
	// the file has nothing: a pointer as well, see [Bounding]. It is nil if there is no field, or one that does
	// nothing but bound policies.
	Config func() HostSection
}

// HostSection is what the file of --config has in the field of a capability.
type HostSection interface {
	// Problems returns what is wrong with the value. at is the path of the field.
	Problems(at *field.Path) []error
}

// PolicySection is what the policy of a plugin has in the field of a capability.
type PolicySection interface {
	// Problems returns what is wrong with the value, and what of it the configuration does not allow the
	// plugin. at is the path of the field.
	Problems(at *field.Path, plugin string, ceiling Allow) []error
	// Hosts returns the hosts to which requests are sent because of the section, once it was checked.
	Hosts() egress.Entries
}

// Bounded is implemented by a [PolicySection] that consists of numbers. The configuration may have the field, too:
// what is there are the defaults of policies, and the most that they may have.
type Bounded interface {
	PolicySection
	// Numbers returns the numbers, see [NumberOf]. at is the path of the field.
	Numbers(at *field.Path) []Number
}

// Bounding is implemented by a [HostSection] of which a part bounds policies, beside what is of the host alone.
type Bounding interface {
	HostSection
	// Bounds returns that part. It is a value as New of the [Section] returns it, and [Bounded].
	Bounds() PolicySection
}

// WithSections returns the configuration with the sections of a program, which have the bounds of those that it
// has.
func (c Config) WithSections(all []Section) Config {
	c.Sections = withBounds(all, c.bounds())
	return c
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

// bounds returns what the configuration has of the sections that it bounds.
func (c Config) bounds() map[string]PolicySection {
	all := map[string]PolicySection{}
	for _, s := range c.Sections {
		if s.isBounded() {
			all[s.Name] = s.New()
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

// policyFile is a policy with the fields that capabilities have in it.
type policyFile struct {
	*Policy
	sections []Section
}

func (f policyFile) schema() schema {
	return schema{policyFields(f.sections), configFields(f.sections), "the file of --config"}
}

// policySections returns the fields in policies with their defaults, by their names.
func policySections(sections []Section) map[string]PolicySection {
	all := map[string]PolicySection{}
	for _, s := range sections {
		if s.New != nil {
			all[s.Name] = s.New()
		}
	}
	return all
}

// hostSections returns the fields in the file of --config with their defaults, by their names, but for those that
// do nothing but bound policies.
func hostSections(sections []Section) map[string]HostSection {
	all := map[string]HostSection{}
	for _, s := range sections {
		if s.Config != nil {
			all[s.Name] = s.Config()
		}
	}
	return all
}

// inFile returns what the file of --config has in the fields of capabilities, by their names.
func (c Config) inFile(values map[string]HostSection) map[string]any {
	all := map[string]any{}
	for name, s := range c.bounds() {
		all[name] = s
	}
	for name, s := range values {
		all[name] = s
	}
	return all
}

// policyFields returns the fields of a policy, and configFields those of the configuration, with those of the
// capabilities.
func policyFields(sections []Section) fields {
	return withSections(fieldsOf(reflect.TypeFor[Policy](), ""), policySections(sections), false)
}

func configFields(sections []Section) fields {
	all := withSections(fieldsOf(reflect.TypeFor[Config](), ""), Config{Sections: sections}.bounds(), false)
	return withSections(all, hostSections(sections), true)
}

// withSections adds the fields of sections. Without mayBeEmpty one that has no value is refused: nobody knows
// whether that is to allow the defaults or nothing.
func withSections[S any](all fields, sections map[string]S, mayBeEmpty bool) fields {
	for name, s := range sections {
		t := reflect.TypeOf(s)
		maps.Copy(all, fieldsOf(t.Elem(), name+"."))
		if mayBeEmpty {
			t = t.Elem()
		}
		all[name] = t
	}
	return all
}

// unmarshal stores JSON in the policy and in the sections that are written.
func (f policyFile) unmarshal(asJSON []byte, known schema, written map[string]any) (problems []error) {
	f.Sections, problems = unmarshalSections(asJSON, f.Policy, policySections(f.sections), known, written)
	return problems
}

func (c *Config) unmarshal(asJSON []byte, known schema, written map[string]any) []error {
	found, problems := unmarshalSections(asJSON, c, c.inFile(hostSections(c.Sections)), known, written)
	bounds := map[string]PolicySection{}
	for name, value := range found {
		if v, ok := value.(HostSection); ok {
			if c.Values == nil {
				c.Values = map[string]HostSection{}
			}
			c.Values[name] = v
		}
		switch v := value.(type) {
		case Bounding:
			bounds[name] = v.Bounds()
		case PolicySection:
			bounds[name] = v
		}
	}
	c.Sections = withBounds(c.Sections, bounds)
	return problems
}

// unmarshalSections is [unmarshal] for a document with sections. It returns those that are written, nil for
// none. The values that are passed may be changed.
func unmarshalSections[S any](asJSON []byte, into any, sections map[string]S, known schema, written map[string]any) (found map[string]S, problems []error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(asJSON, &members); err != nil {
		return nil, []error{err}
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		text, ok := members[name]
		delete(members, name)
		if !ok || string(text) == "null" {
			continue
		}
		value := reflect.ValueOf(sections[name])
		// A struct with that one field, so that errors have the paths of the whole.
		around := reflect.New(reflect.StructOf([]reflect.StructField{{
			Name: "Section", Type: value.Type(), Tag: reflect.StructTag(`json:"` + name + `"`),
		}}))
		around.Elem().Field(0).Set(value)
		alone, err := json.Marshal(map[string]json.RawMessage{name: text})
		if err != nil {
			return nil, append(problems, err)
		}
		wrong := unmarshal(alone, around.Interface(), known, map[string]any{name: written[name]})
		if problems = append(problems, wrong...); len(wrong) > 0 {
			continue
		}
		if found == nil {
			found = map[string]S{}
		}
		found[name] = sections[name]
	}
	others, err := json.Marshal(members)
	if err != nil {
		return nil, append(problems, err)
	}
	return found, append(problems, unmarshal(others, into, known, written)...)
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
	return marshalSections(fieldsAlone(p), p.Sections)
}

// MarshalJSON implements [json.Marshaler]: each section is a field.
func (c Config) MarshalJSON() ([]byte, error) {
	type fieldsAlone Config
	return marshalSections(fieldsAlone(c), c.inFile(c.Values))
}

func marshalSections[S any](fieldsAlone any, sections map[string]S) ([]byte, error) {
	text, err := json.Marshal(fieldsAlone)
	if err != nil || len(sections) == 0 {
		return text, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for name, s := range sections {
		if members[name], err = json.Marshal(s); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}
