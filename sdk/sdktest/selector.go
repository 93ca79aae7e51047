package sdktest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// selector says whether labels match.
type selector func(labels map[string]string) bool

var (
	setTerm    = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\(([^()]*)\)$`)
	equalTerm  = regexp.MustCompile(`^([^\s!=]+)\s*(=|==|!=)\s*([^\s!=]*)$`)
	existsTerm = regexp.MustCompile(`^(!?)\s*([^\s!=()]+)$`)
)

// parseSelector reads a label selector: a=b, a==b, a!=b, a in (b,c),
// a notin (b,c), a, !a, and any of them separated by commas.
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

// splitTerms splits at the commas outside of parentheses.
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

func parseTerm(term string) (selector, error) {
	if m := setTerm.FindStringSubmatch(term); m != nil {
		values := strings.Split(m[3], ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		return among(m[1], m[2] == "in", values), nil
	}
	if m := equalTerm.FindStringSubmatch(term); m != nil {
		return among(m[1], m[2] != "!=", []string{m[3]}), nil
	}
	if m := existsTerm.FindStringSubmatch(term); m != nil {
		return func(labels map[string]string) bool {
			_, ok := labels[m[2]]
			return ok == (m[1] == "")
		}, nil
	}
	return nil, fmt.Errorf("parse label selector: %q is no requirement", term)
}

// among matches labels whose value is one of values, or, as Kubernetes has it
// for != and notin, that are absent or have another one.
func among(name string, wanted bool, values []string) selector {
	return func(labels map[string]string) bool {
		value, ok := labels[name]
		return (ok && slices.Contains(values, value)) == wanted
	}
}
