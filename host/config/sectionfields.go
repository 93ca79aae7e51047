package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/rights"
)

// This file decodes, checks and encodes the fields of capabilities.

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
func (c *Ceiling) add(name string, value reflect.Value) {
	if c.Sections == nil {
		c.Sections = map[string]map[string]AllowSection{}
	}
	c.Sections[name] = map[string]AllowSection{}
	for key, element := range value.Seq2() {
		if value.Kind() == reflect.Slice {
			c.Sections[name][element.String()] = Named{}
		} else {
			c.Sections[name][key.String()] = element.Interface().(AllowSection)
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
func (c Ceiling) MarshalJSON() ([]byte, error) {
	type fieldsAlone Ceiling
	sections := map[string]any{}
	for name, byPlugin := range c.Sections {
		switch plugins := slices.Sorted(maps.Keys(byPlugin)); {
		case len(plugins) == 0:
		case byPlugin[plugins[0]] == (Named{}):
			sections[name] = plugins
		default:
			sections[name] = byPlugin
		}
	}
	return marshalSections(fieldsAlone(c), sections)
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
