package fieldpath

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Selector is a parsed field selector: an object matches if it meets every
// requirement.
type Selector []Requirement

// Requirement is one comparison of a [Selector].
type Requirement struct {
	Path  Path
	Value string // without escapes
	Not   bool   // != instead of = or ==
}

// Equal reports whether both are the same requirement of the same field.
func (r Requirement) Equal(other Requirement) bool {
	return r.Path.text == other.Path.text && r.Value == other.Value && r.Not == other.Not
}

// ParseSelector parses a field selector in the notation of Kubernetes: comparisons
// a=b, a==b and a!=b, separated by commas. A backslash before a comma, an equals sign
// or a backslash makes it a part of the value.
func ParseSelector(text string) (Selector, error) {
	var s Selector
	for term := range splitTerms(text) {
		if term == "" { // as Kubernetes does
			continue
		}
		r, err := parseRequirement(term)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return s, nil
}

// splitTerms calls yield for what is between the commas that have no backslash before
// them.
func splitTerms(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case ',':
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(text[start:])
	}
}

func parseRequirement(term string) (Requirement, error) {
	left, right, ok := strings.Cut(term, "=")
	if !ok {
		return Requirement{}, rawjson.NewError("", rawjson.Quote(term)+" is no comparison of a field, such as spec.nodeName=node-1")
	}
	left, not := strings.CutSuffix(left, "!")
	if !not {
		right = strings.TrimPrefix(right, "=")
	}
	path, err := ParsePath(left)
	if err != nil {
		return Requirement{}, err
	}
	value, ok := unescapeValue(right)
	if !ok {
		return Requirement{}, rawjson.NewError("", rawjson.Quote(right)+` is no value: write \= for '=' and \\ for a backslash`)
	}
	return Requirement{Path: path, Value: value, Not: not}, nil
}

// unescapeValue removes the escapes of a value, and reports whether they and all
// other characters are allowed.
func unescapeValue(s string) (string, bool) {
	if !strings.ContainsAny(s, `\=`) {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '=':
			return "", false
		case '\\':
			if i++; i == len(s) || strings.IndexByte(`\,=`, s[i]) < 0 {
				return "", false
			}
		}
		out = append(out, s[i])
	}
	return string(out), true
}

// Matches reports whether an object meets every requirement.
func (s Selector) Matches(raw []byte) bool {
	return !slices.ContainsFunc(s, func(r Requirement) bool { return !r.Matches(r.Path.Values(raw)) })
}

// Matches reports whether an object with these values at the path meets the
// requirement: whether one of them is Value, or none for a requirement with Not. An
// object without values has the value "".
func (r Requirement) Matches(values []string) bool {
	found := slices.Contains(values, r.Value) || len(values) == 0 && r.Value == ""
	return found != r.Not
}
