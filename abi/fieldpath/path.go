package fieldpath

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Path is a field of which an object can have several values, in the notation of
// Kubernetes' field selectors, with [*] for each element of an array: spec.nodeName,
// spec.volumes[*].secret.secretName.
type Path struct {
	text  string
	steps []string // names of members, or each
}

// each is the step to each element of an array. No member that a path can name has
// this name.
const each = "[*]"

// ParsePath parses a path. The names of members consist of letters, digits, '_' and
// '-'.
func ParsePath(s string) (Path, error) {
	p := Path{text: s}
	for part := range strings.SplitSeq(s, ".") {
		name, brackets := part, 0
		for strings.HasSuffix(name, each) {
			name, brackets = strings.TrimSuffix(name, each), brackets+1
		}
		if !isName(name) {
			return Path{}, rawjson.NewError("", rawjson.Quote(s)+" is no field path, such as spec.nodeName or spec.volumes[*].secret.secretName")
		}
		p.steps = append(p.steps, name)
		p.steps = append(p.steps, slices.Repeat([]string{each}, brackets)...)
	}
	return p, nil
}

func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

func (p Path) String() string { return p.text }

// Steps returns the names of the members on the way to the field, with "[*]" for each
// element of an array. They must not be modified.
func (p Path) Steps() []string { return p.steps }

// Values returns the distinct values that an object has at the path, in the order of
// the object: strings without quotes and escapes, numbers and booleans as they are
// written. Nulls, objects and arrays are no values. They may alias raw. A text that is
// not valid JSON has no values.
func (p Path) Values(raw []byte) []string {
	v := valueReader{r: rawjson.NewReader(raw)}
	v.read(p.steps)
	if v.r.End() != nil {
		return nil
	}
	return distinct(v.values)
}

// valueReader collects the values at a path.
type valueReader struct {
	r      *rawjson.Reader
	values []string
}

// read reads the next value, from which these steps lead to the field.
func (v *valueReader) read(steps []string) {
	kind := v.r.Kind()
	switch {
	case len(steps) == 0:
		v.scalar(kind)
	case kind == '{' && steps[0] != each:
		before := len(v.values)
		for more := v.r.FirstMember(); more; more = v.r.NextMember() {
			if v.r.Name() == steps[0] {
				v.values = v.values[:before] // of a name that occurs twice the last one counts
				v.read(steps[1:])
			}
		}
	case kind == '[' && steps[0] == each:
		for more := v.r.FirstElement(); more; more = v.r.NextElement() {
			v.read(steps[1:])
		}
	default:
		v.r.Skip()
	}
}

func (v *valueReader) scalar(kind byte) {
	switch kind {
	case '"':
		v.values = append(v.values, v.r.String())
	case '0', 't', 'f':
		v.values = append(v.values, string(v.r.Raw()))
	default:
		v.r.Skip()
	}
}

// distinct removes the values that an earlier one equals.
func distinct(values []string) []string {
	const few = 8 // are compared with each other
	if len(values) <= few {
		kept := values[:0]
		for _, v := range values {
			if !slices.Contains(kept, v) {
				kept = append(kept, v)
			}
		}
		return kept
	}
	seen := make(map[string]struct{}, len(values))
	return slices.DeleteFunc(values, func(v string) bool {
		_, known := seen[v]
		seen[v] = struct{}{}
		return known
	})
}
