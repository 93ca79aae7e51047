package sdktest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// selector is a parsed label selector: labels match if they meet every requirement.
type selector []requirement

// requirement is one comparison of a selector.
type requirement struct {
	key    string
	values []string // nil for any
	not    bool     // the label is absent or has another value
}

var (
	// terms matches what is between the commas outside of parentheses.
	terms = regexp.MustCompile(`(?:[^,()]|\([^()]*\))+`)
	// term has the groups: "!", label, operator and value, or operator and values of a set.
	term = regexp.MustCompile(`^\s*(!?)\s*([^\s!=()]+)(?:\s*(=|==|!=)\s*([^\s!=()]*)|\s+(in|notin)\s*\(([^()]*)\))?\s*$`)
)

// parseSelector parses a label selector: a=b, a==b, a!=b, a in (b,c), a notin (b,c),
// a, !a, and any of these separated by commas. The host's parser is that of
// k8s.io/apimachinery, which this package must not import: the tests of a plugin
// would need it.
func parseSelector(text string) (selector, error) {
	text = strings.TrimSpace(text)
	parts := terms.FindAllString(text, -1)
	if strings.Join(parts, ",") != text {
		return nil, fmt.Errorf("parse label selector: %q is not a list of requirements, such as a=b,c", text)
	}
	var all selector
	for _, part := range parts {
		r, err := parseTerm(part)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// parseTerm parses one requirement.
func parseTerm(text string) (requirement, error) {
	m := term.FindStringSubmatch(text)
	if m == nil || m[1] != "" && m[3]+m[5] != "" {
		return requirement{}, fmt.Errorf("parse label selector: %q is not a requirement, such as a=b", text)
	}
	r := requirement{key: m[2], not: m[1] == "!" || m[3] == "!=" || m[5] == "notin"}
	if m[3]+m[5] == "" {
		return r, nil
	}
	for value := range strings.SplitSeq(m[4]+m[6], ",") {
		r.values = append(r.values, strings.TrimSpace(value))
	}
	return r, nil
}

func (s selector) matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s, func(r requirement) bool { return !r.matches(labels) })
}

// matches reports whether labels meet the requirement. One with !, != or notin is met if
// the label is absent or has another value, as in Kubernetes.
func (r requirement) matches(labels map[string]string) bool {
	value, ok := labels[r.key]
	return r.not != (ok && (r.values == nil || slices.Contains(r.values, value)))
}

// implies reports whether each requirement of the other selector is one of this one, or
// follows from one of these.
func (s selector) implies(other selector) bool {
	return !slices.ContainsFunc(other, func(wanted requirement) bool {
		return !slices.ContainsFunc(s, func(r requirement) bool { return r.implies(wanted) })
	})
}

func (r requirement) implies(wanted requirement) bool {
	among := func(values, others []string) bool {
		return !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(others, v) })
	}
	switch {
	case r.key != wanted.key:
		return false
	case wanted.values == nil:
		return r.not == wanted.not && (!r.not || r.values == nil)
	case !wanted.not:
		return !r.not && r.values != nil && among(r.values, wanted.values)
	case r.not:
		return r.values == nil || among(wanted.values, r.values)
	}
	return r.values != nil && !slices.ContainsFunc(r.values, func(v string) bool { return slices.Contains(wanted.values, v) })
}
