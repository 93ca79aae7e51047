package handlers

import "github.com/thole-dev/thole/abi/rawjson"

// Match reports whether the value of a label, an annotation or a field matches. present is
// false if there is none. A field that is a string has it as value, and any other has its
// JSON. A null counts as absent.
type Match func(value string, present bool) bool

// Present matches any value.
func Present(_ string, present bool) bool { return present }

// Absent matches if there is no value.
func Absent(_ string, present bool) bool { return !present }

// Value matches one value, such as "web", "3" or "true".
func Value(want string) Match {
	return func(value string, present bool) bool { return present && value == want }
}

// Matches matches the values for which a function returns true.
func Matches(is func(value string) bool) Match {
	return func(value string, present bool) bool { return present && is(value) }
}

// textOf returns a value for a [Match].
func textOf(value []byte) (text string, present bool) {
	if value == nil {
		return "", false
	}
	r := rawjson.NewReader(value)
	if r.Kind() == '"' {
		return r.String(), true
	}
	return string(value), true
}
