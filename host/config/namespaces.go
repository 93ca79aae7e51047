package config

import (
	"errors"
	"fmt"
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

// namespaces returns the namespaces that a plugin may have.
func (a Allow) namespaces(plugin string) Namespaces {
	if own, ok := a.Namespaces[plugin]; ok {
		return own
	}
	return a.Namespaces[EveryPlugin]
}

// narrow leaves of a policy's namespaces those that the configuration allows. It
// returns an error if there is none, since the plugin could do nothing.
func (c Config) narrow(plugin string, p *Policy) error {
	at, allowed := field.NewPath("namespaces"), c.Allow.namespaces(plugin)
	if p.Namespaces != nil {
		if problems := p.Namespaces.problems(at); len(problems) > 0 {
			return errors.Join(problems...)
		}
	}
	p.Namespaces = p.Namespaces.and(allowed)
	if p.Namespaces == nil {
		return nil
	}
	if len(p.Namespaces) == 0 {
		return field.Forbidden(at, fmt.Sprintf("the host's configuration allows the plugin none of them, but %s: "+
			"name one of these, or change allow.namespaces in the file of --config", allowed.and(nil)))
	}
	if c.Namespace != "" && !slices.Contains(p.Namespaces, c.Namespace) {
		return field.Forbidden(at, fmt.Sprintf("the host follows only the namespace %s (--namespace), and the plugin may only have %s: "+
			"change the policy, or allow.namespaces in the file of --config", c.Namespace, p.Namespaces))
	}
	return nil
}
