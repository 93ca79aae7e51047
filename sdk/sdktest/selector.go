package sdktest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// selector reports whether labels match.
type selector func(labels map[string]string) bool

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
	var all []selector
	for _, part := range parts {
		match, err := parseTerm(part)
		if err != nil {
			return nil, err
		}
		all = append(all, match)
	}
	return func(labels map[string]string) bool {
		return !slices.ContainsFunc(all, func(match selector) bool { return !match(labels) })
	}, nil
}

// parseTerm parses one requirement. One with !, != or notin matches if the label is absent
// or has another value, as in Kubernetes.
func parseTerm(text string) (selector, error) {
	m := term.FindStringSubmatch(text)
	if m == nil || m[1] != "" && m[3]+m[5] != "" {
		return nil, fmt.Errorf("parse label selector: %q is not a requirement, such as a=b", text)
	}
	negated := m[1] == "!" || m[3] == "!=" || m[5] == "notin"
	values := strings.Split(m[4]+m[6], ",")
	for i := range values {
		values[i] = strings.TrimSpace(values[i])
	}
	return func(labels map[string]string) bool {
		value, ok := labels[m[2]]
		return negated != (ok && (m[3]+m[5] == "" || slices.Contains(values, value)))
	}, nil
}
