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
	setTerm    = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\(([^()]*)\)$`)
	equalTerm  = regexp.MustCompile(`^([^\s!=]+)\s*(=|==|!=)\s*([^\s!=]*)$`)
	existsTerm = regexp.MustCompile(`^(!?)\s*([^\s!=()]+)$`)
)

// parseSelector parses a label selector: a=b, a==b, a!=b, a in (b,c), a notin (b,c),
// a, !a, and any of these separated by commas. The host's parser is that of
// k8s.io/apimachinery, which this package must not import: the tests of a plugin
// would need it.
func parseSelector(text string) (selector, error) {
	var terms []selector
	for _, term := range splitTerms(text) {
		match, err := parseTerm(strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		terms = append(terms, match)
	}
	return func(labels map[string]string) bool {
		return !slices.ContainsFunc(terms, func(match selector) bool { return !match(labels) })
	}, nil
}

// splitTerms splits a selector at the commas outside of parentheses.
func splitTerms(text string) (terms []string) {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	start, depth := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			terms = append(terms, text[start:i])
			start = i + 1
		}
	}
	return append(terms, text[start:])
}

// parseTerm parses one requirement.
func parseTerm(term string) (selector, error) {
	if m := setTerm.FindStringSubmatch(term); m != nil {
		values := strings.Split(m[3], ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		return valueIn(m[1], m[2] == "in", values), nil
	}
	if m := equalTerm.FindStringSubmatch(term); m != nil {
		return valueIn(m[1], m[2] != "!=", []string{m[3]}), nil
	}
	if m := existsTerm.FindStringSubmatch(term); m != nil {
		return func(labels map[string]string) bool {
			_, ok := labels[m[2]]
			return ok == (m[1] == "")
		}, nil
	}
	return nil, fmt.Errorf("parse label selector: %q is not a requirement, such as a=b", term)
}

// valueIn matches if the label has one of the values. If wanted is false it matches
// if the label is absent or has another value, as != and notin do in Kubernetes.
func valueIn(name string, wanted bool, values []string) selector {
	return func(labels map[string]string) bool {
		value, ok := labels[name]
		return (ok && slices.Contains(values, value)) == wanted
	}
}
