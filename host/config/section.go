package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// A capability has a field of its own in the policy of a plugin, in the file of --config, and in allow there. They are
// decoded and checked as strictly as the fields of [Policy], [Config] and [Allow].

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
	// Allow is a value of the type that the field in allow has for each plugin, see [Allow.SectionOf], or [Named]. It is
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

// Listening is implemented by a [HostSection] of a capability that serves something at an address of its own.
type Listening interface {
	HostSection
	// Address returns the address, which may be set, "" if nothing is served, and the flag of thole run that wins over
	// it. usage describes the flag.
	Address() (address *string, flag, usage string)
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
	Problems(at *field.Path, plugin string, ceiling Allow) []error
	// Secrets returns the Secrets that the host reads because of the section, once it was checked.
	Secrets() []rights.SecretRef
}

// WaitingSection is implemented by a [PolicySection] that lets calls of the guest wait, see [sandbox.Limits].
type WaitingSection interface {
	// Waiting returns how many there may be at once.
	Waiting() int
}

// SectionOf returns what allow has in the field of a capability for a plugin, which bounds the field in its policy; nil
// if there is nothing. Everything is allowed if all is true.
func (a Allow) SectionOf(name, plugin string) (allowed AllowSection, all bool) {
	all = a.allSections && a.Sections[name] == nil
	if own, ok := a.Sections[name][plugin]; ok {
		return own, all
	}
	return a.Sections[name][EveryPlugin], all
}

// WithAllSections returns the ceiling without bounds for the fields of capabilities that it does not have.
func (a Allow) WithAllSections() Allow {
	a.allSections = true
	return a
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

// hostSections returns the fields in the file of --config with their defaults, by their names.
func hostSections(sections []Section) map[string]HostSection {
	all := map[string]HostSection{}
	for _, s := range sections {
		if s.Config != nil {
			all[s.Name] = s.Config()
		}
	}
	return all
}

// policyFields returns the fields of a policy, and configFields those of the configuration, with those of the
// capabilities.
func policyFields(sections []Section) fields {
	return withSections(fieldsOf(reflect.TypeFor[Policy](), ""), policySections(sections), false)
}

func configFields(sections []Section) fields {
	all := withSections(fieldsOf(reflect.TypeFor[Config](), ""), hostSections(sections), true)
	for path, value := range allowSections(sections) {
		all[path] = reflect.TypeOf(value).Elem()
	}
	return all
}

// allowSections returns pointers to what the fields in allow have, by the paths of these: maps by plugin, or lists of
// plugins.
func allowSections(sections []Section) map[string]any {
	all := map[string]any{}
	for _, s := range sections {
		switch s.Allow {
		case nil:
		case Named{}:
			all["allow."+s.Name] = new([]string)
		default:
			all["allow."+s.Name] = reflect.New(reflect.MapOf(reflect.TypeFor[string](), reflect.TypeOf(s.Allow))).Interface()
		}
	}
	return all
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
	sections := allowSections(c.Sections)
	for name, s := range hostSections(c.Sections) {
		sections[name] = s
	}
	found, problems := unmarshalSections(asJSON, c, sections, known, written)
	for path, value := range found {
		v, ok := value.(HostSection)
		if !ok {
			c.Allow.add(strings.TrimPrefix(path, "allow."), reflect.ValueOf(value).Elem())
			continue
		}
		if c.Values == nil {
			c.Values = map[string]HostSection{}
		}
		c.Values[path] = v
	}
	return problems
}

// add adds what allow has in the field of a capability: a map by plugin, or a list of plugins.
func (a *Allow) add(name string, value reflect.Value) {
	if a.Sections == nil {
		a.Sections = map[string]map[string]AllowSection{}
	}
	a.Sections[name] = map[string]AllowSection{}
	for key, element := range value.Seq2() {
		if value.Kind() == reflect.Slice {
			a.Sections[name][element.String()] = Named{}
		} else {
			a.Sections[name][key.String()] = element.Interface().(AllowSection)
		}
	}
}

// unmarshalSections is [unmarshal] for a document with sections, by the paths of their fields. It returns those that
// are written, nil for none. The values that are passed may be changed.
func unmarshalSections[S any](asJSON []byte, into any, sections map[string]S, known schema, written map[string]any) (found map[string]S, problems []error) {
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber() // keeps all digits
	if err := decoder.Decode(&members); err != nil {
		return nil, []error{err}
	}
	taken := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(sections)) {
		value, shown := valueAt(members, path), valueAt(written, path)
		unstructured.RemoveNestedField(members, split(path)...)
		unstructured.RemoveNestedField(written, split(path)...)
		if value == nil {
			continue
		}
		taken[path] = shown
		wrong := unmarshalSection(path, value, sections[path], known, shown)
		if problems = append(problems, wrong...); len(wrong) > 0 {
			continue
		}
		if found == nil {
			found = map[string]S{}
		}
		found[path] = sections[path]
	}
	others, err := json.Marshal(members)
	if err != nil {
		return nil, append(problems, err)
	}
	problems = append(problems, unmarshal(others, into, known, written)...)
	for path, value := range taken {
		_ = unstructured.SetNestedField(written, value, split(path)...) // fails if a mapping was removed that has it
	}
	return found, problems
}

// unmarshalSection stores the value at a path in a pointer. Fields of the type that the document does not have there
// are unknown.
func unmarshalSection(path string, value, into any, known schema, written any) (problems []error) {
	around := reflect.ValueOf(into)
	for _, name := range slices.Backward(split(path)) { // so that errors have the paths of the whole
		outer := reflect.New(reflect.StructOf([]reflect.StructField{{
			Name: "Field", Type: around.Type(), Tag: reflect.StructTag(`json:"` + name + `"`),
		}})).Elem()
		outer.Field(0).Set(around)
		around, value, written = outer, map[string]any{name: value}, map[string]any{name: written}
	}
	whole := written.(map[string]any)
	if members, ok := valueAt(value.(map[string]any), path).(map[string]any); ok && isMapping(known.fields[path]) {
		for _, name := range sortedNames(members) {
			if below := path + "." + name; known.fields[below] == nil {
				problems = append(problems, unknownField(below, known, whole))
				delete(members, name)
				unstructured.RemoveNestedField(whole, split(below)...)
			}
		}
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		return append(problems, err)
	}
	return append(problems, unmarshal(asJSON, around.Addr().Interface(), known, whole)...)
}

// problemsOfSections returns what is wrong with the fields of capabilities in allow.
func (a Allow) problemsOfSections() (problems []error) {
	for _, name := range slices.Sorted(maps.Keys(a.Sections)) {
		at := field.NewPath("allow", name)
		for _, plugin := range slices.Sorted(maps.Keys(a.Sections[name])) {
			s := a.Sections[name][plugin]
			problems = append(problems, pluginProblems(at, plugin)...)
			if s != (Named{}) && reflect.ValueOf(s).Len() == 0 {
				problems = append(problems, field.Required(at.Key(plugin), "write an entry, or remove the line"))
			}
			problems = append(problems, s.Problems(at.Key(plugin))...)
		}
	}
	return problems
}

// sectionProblems returns what is wrong with the sections of a policy.
func (a Allow) sectionProblems(plugin string, p *Policy) (problems []error) {
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		problems = append(problems, p.Sections[name].Problems(field.NewPath(name), plugin, a)...)
	}
	return problems
}

// Secrets returns the Secrets that the host reads because of the policy, each once.
func (p Policy) Secrets() (all []rights.SecretRef) {
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		for _, ref := range p.Sections[name].Secrets() {
			if !slices.Contains(all, ref) {
				all = append(all, ref)
			}
		}
	}
	return all
}

// MarshalJSON implements [json.Marshaler]: each section is a field.
func (p Policy) MarshalJSON() ([]byte, error) {
	type fieldsAlone Policy
	return marshalSections(fieldsAlone(p), p.Sections)
}

// MarshalJSON implements [json.Marshaler]: each section is a field.
func (c Config) MarshalJSON() ([]byte, error) {
	type fieldsAlone Config
	return marshalSections(fieldsAlone(c), c.Values)
}

// MarshalJSON implements [json.Marshaler]: each section is a field.
func (a Allow) MarshalJSON() ([]byte, error) {
	type fieldsAlone Allow
	sections := map[string]any{}
	for name, byPlugin := range a.Sections {
		switch plugins := slices.Sorted(maps.Keys(byPlugin)); {
		case len(plugins) == 0:
		case byPlugin[plugins[0]] == (Named{}):
			sections[name] = plugins
		default:
			sections[name] = byPlugin
		}
	}
	return marshalSections(fieldsAlone(a), sections)
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
