package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// This file checks how the entries of allow are written, in policies and in the configuration.

// maxCombinations bounds the combinations of group, kind, verb and namespace that the entries of
// a plugin name, each of which is compared with the configuration.
const maxCombinations = 10_000

// entryProblems returns what is wrong with entries.
func entryProblems(at *field.Path, all rights.Entries) (problems []error) {
	if n := all.Combinations(); n > maxCombinations {
		return []error{field.Forbidden(at, fmt.Sprintf(
			"the entries name %d combinations of group, kind, verb and namespace, and may name %d: name fewer, or * for all", n, maxCombinations))}
	}
	for i, e := range all {
		at := at.Index(i)
		problems = append(problems, eachValue(at.Child("groups"), e.Groups, groupProblem, "name an API group, '' for the core group, or '*' for all")...)
		problems = append(problems, eachValue(at.Child("kinds"), e.Kinds, kindProblem, "name a kind, such as ConfigMap, or '*' for all")...)
		problems = append(problems, eachValue(at.Child("verbs"), e.Verbs, verbProblem, "name a verb of "+strings.Join(rights.Verbs(), ", ")+", or '*' for all")...)
		if e.Namespaces != nil {
			problems = append(problems, eachValue(at.Child("namespaces"), e.Namespaces, namespaceProblem,
				"name a namespace, or '*' for all; without the line it is the namespace of the primary object")...)
		}
	}
	return problems
}

// eachValue returns an error for each value of a list, which must not be empty, that is
// neither [rights.Any] nor right.
func eachValue(at *field.Path, values []string, problem func(string) string, required string) (problems []error) {
	if len(values) == 0 {
		return []error{field.Required(at, required)}
	}
	for i, value := range values {
		if text := problem(value); value != rights.Any && text != "" {
			problems = append(problems, field.Invalid(at.Index(i), value, text))
		}
	}
	return problems
}

var (
	groupName = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$`)
	kindName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,62}(/status)?$`)
	version   = regexp.MustCompile(`^(core|v[0-9]+((alpha|beta)[0-9]+)?)$`)
)

func groupProblem(group string) string {
	switch {
	case version.MatchString(group), strings.HasSuffix(group, "/v1"):
		return "is not an API group: write it without a version, and '' for the core group"
	case !groupName.MatchString(group):
		return "must be an API group, such as apps or example.com, without a version"
	}
	return ""
}

func kindProblem(kind string) string {
	if !kindName.MatchString(kind) {
		return "must be a kind, such as ConfigMap, or a kind with /status"
	}
	return ""
}

func verbProblem(verb string) string {
	switch {
	case verb == "update":
		return "is a verb that the host never uses: changes of objects and of their status are patch"
	case !slices.Contains(rights.Verbs(), verb):
		return "must be one of " + strings.Join(rights.Verbs(), ", ")
	}
	return ""
}

func namespaceProblem(name string) string {
	if !abi.ValidName(name) {
		return dnsLabel
	}
	return ""
}
