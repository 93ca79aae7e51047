package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
)

// Namespaces bound a plugin to some namespaces; nil bounds it to none. A list in a
// file must not be empty.
type Namespaces []string

// problems returns what is wrong with a list that is in a file.
func (n Namespaces) problems(at *field.Path) (problems []error) {
	if len(n) == 0 {
		return []error{field.Required(at, "name a namespace, or remove the line to allow all")}
	}
	for i, name := range n {
		if !abi.ValidName(name) {
			problems = append(problems, field.Invalid(at.Index(i), name, dnsLabel))
		}
	}
	return problems
}

// and returns the namespaces that are in both lists, sorted. If there are none it is an
// empty list, and not nil.
func (n Namespaces) and(other Namespaces) Namespaces {
	both := slices.Clone(n)
	switch {
	case n == nil:
		both = slices.Clone(other)
	case other != nil:
		both = slices.DeleteFunc(both, func(name string) bool { return !slices.Contains(other, name) })
	}
	slices.Sort(both)
	return slices.Compact(both)
}

func (n Namespaces) String() string { return strings.Join(n, ", ") }

// InNamespaces reports whether no plugin may have all namespaces.
func (c Config) InNamespaces() bool {
	return c.Namespace != "" || c.Allow.Namespaces[EveryPlugin] != nil
}
