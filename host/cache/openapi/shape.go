package openapi

import (
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
)

// eachElement is the step of a path to each element of an array.
const eachElement = "[*]"

// maxOthers bounds the schemas in allOf, anyOf and oneOf of a schema.
const maxOthers = 1000

// shape is what several schemas state about one value: what any of them has counts,
// as for allOf. It also stands for anyOf and oneOf, of which it is not known which
// one applies.
type shape struct {
	properties [][]byte // objects with schemas by name
	additional [][]byte // schemas of all other members
	items      [][]byte // schemas of elements

	object, array, scalar bool // types that are allowed; none: every type is
	open                  bool // members that have no schema are allowed
}

// add adds what the text of a schema states itself. It returns those that apply to the
// same value, and the name of one.
func (s *shape) add(text []byte) (others [][]byte, reference string, err error) {
	r := rawjson.NewReader(text)
	r.Object(func(name string) {
		switch name {
		case "$ref":
			reference = r.String()
		case "allOf", "anyOf", "oneOf":
			r.Array(func(int) {
				if others = append(others, r.Raw()); len(others) > maxOthers {
					r.Fail("more than " + strconv.Itoa(maxOthers) + " schemas of one value")
				}
			})
		case "properties":
			s.properties = append(s.properties, r.Raw())
		case "additionalProperties":
			s.addAdditional(r)
		case "items":
			s.items = append(s.items, r.Raw())
		case "type":
			s.addType(r.String())
		case "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource":
			s.open = r.Bool() || s.open
		case "x-kubernetes-int-or-string":
			s.scalar = r.Bool() || s.scalar
		}
	})
	return others, reference, r.End()
}

func (s *shape) addAdditional(r *rawjson.Reader) {
	if r.Kind() == '{' {
		s.additional = append(s.additional, r.Raw())
		return
	}
	s.open = r.Bool() || s.open
}

func (s *shape) addType(name string) {
	switch name {
	case "object":
		s.object = true
	case "array":
		s.array = true
	default:
		s.scalar = true
	}
}

func (s *shape) typed() bool { return s.object || s.array || s.scalar }

// leavesOpen reports whether a value may have a member that no schema has, or, for the
// step to each element, elements.
func (s *shape) leavesOpen(step string) bool {
	switch {
	case s.open || !s.typed() && len(s.properties)+len(s.items) == 0:
		return true
	case step == eachElement:
		return s.array
	default: // an object without properties may be anything
		return s.object && len(s.properties) == 0
	}
}

// hasNoValue reports whether the value can only be an object or an array.
func (s *shape) hasNoValue() bool { return (s.object || s.array) && !s.scalar && !s.open }

// problem describes why a path that has led to the value does not lead further, or
// ends where there is no string, number or boolean.
func (s *shape) problem(to []string, step string) string {
	here := textOf(to)
	switch {
	case step == eachElement:
		return here + " is no array"
	case s.array && !s.object:
		return here + " is an array: its elements are " + textOf(append(slices.Clone(to), eachElement))
	case step == "":
		return here + " is an object: name one of its fields"
	case s.scalar && !s.object:
		return here + " has no fields"
	}
	return here + " has no field " + rawjson.Quote(step) + rawjson.DidYouMean(step, s.names())
}

// What is looked at to find a name that is similar.
const (
	maxNames      = 1000
	maxNameLength = 64
)

// names returns names of the members that the value may have.
func (s *shape) names() (names []string) {
	for _, properties := range s.properties {
		r := rawjson.NewReader(properties)
		r.Object(func(name string) {
			if len(names) < maxNames && len(name) <= maxNameLength {
				names = append(names, name)
			}
		})
	}
	return names
}
