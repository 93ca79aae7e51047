package object

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	validation "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Schema is what the API server accepts as a value of a custom kind. It is immutable. nil
// accepts everything.
type Schema struct{ spec spec.Schema }

// ParseSchema reads the text of a schema of OpenAPI v3. What other schemas state to which it
// refers is not known, and accepted. Rules in CEL are not read.
func ParseSchema(text []byte) (*Schema, error) {
	s := &Schema{}
	if err := json.Unmarshal(text, &s.spec); err != nil {
		return nil, err
	}
	relax(&s.spec)
	return s, nil
}

// relax drops descriptions, references, and of the required members those with a default, which the API
// server adds before it checks a value.
func relax(s *spec.Schema) {
	if s.Ref.String() != "" {
		*s = spec.Schema{}
	}
	s.Description = ""
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return s.Properties[name].Default != nil })
	for name, member := range s.Properties {
		relax(&member)
		s.Properties[name] = member
	}
	for _, all := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range all {
			relax(&all[i])
		}
	}
	if s.Not != nil {
		relax(s.Not)
	}
	if s.Items != nil && s.Items.Schema != nil {
		relax(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		relax(s.AdditionalProperties.Schema)
	}
}

// Member returns the schema of a member of an object. ok is false if the API server would prune
// the member.
func (s *Schema) Member(name string) (member *Schema, ok bool) {
	if s == nil {
		return nil, true
	}
	if known, ok := s.spec.Properties[name]; ok {
		return &Schema{known}, true
	}
	if others := s.spec.AdditionalProperties; others != nil {
		if others.Schema != nil {
			return &Schema{*others.Schema}, true
		}
		return nil, others.Allows
	}
	open, _ := s.spec.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
	return nil, open || len(s.spec.Type)+len(s.spec.Properties) == 0
}

// Items returns the schema of the elements of an array.
func (s *Schema) Items() *Schema {
	if s == nil || s.spec.Items == nil || s.spec.Items.Schema == nil {
		return nil
	}
	return &Schema{*s.spec.Items.Schema}
}

// Problem is why the API server would refuse a value, or the absence of one.
type Problem struct {
	Path    string // in the object, such as status.conditions[0].type
	Text    string // with the path
	Missing bool   // the value is required
}

// Problems are those of one value.
type Problems []Problem

// Adds reports whether there are problems that before does not have, at any place of an array.
func (p Problems) Adds(before Problems) bool {
	count := map[string]int{}
	for _, b := range before {
		count[b.inArray()]++
	}
	for _, a := range p {
		if count[a.inArray()]--; count[a.inArray()] < 0 {
			return true
		}
	}
	return false
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// inArray returns the path without the indexes of elements, which change when others are removed.
func (p Problem) inArray() string { return indexes.ReplaceAllString(p.Path, "[]") }

// Check returns why the API server would refuse a value, which is at a path of the object.
func (s *Schema) Check(path string, value []byte) (found Problems) {
	if s == nil {
		return nil
	}
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		return Problems{{Path: path, Text: path + ": " + err.Error()}}
	}
	for _, err := range validate.NewSchemaValidator(&s.spec, nil, path, strfmt.Default).Validate(decoded).Errors {
		problem := Problem{Path: path, Text: strings.Replace(err.Error(), " in body ", " ", 1)}
		if v := (*validation.Validation)(nil); errors.As(err, &v) {
			problem.Path, problem.Missing = v.Name, v.Code() == validation.RequiredFailCode
		}
		found = append(found, problem)
	}
	slices.SortFunc(found, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Text, b.Text)) })
	return found
}
