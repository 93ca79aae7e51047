package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

// This file bounds the policy of a plugin by the configuration: a policy with more is refused, but for its namespaces,
// which are narrowed. What is left is what package rights is asked.

// Ceiling bounds the policy files. Whoever may write to the plugin
// directory can write a policy there, and must not gain rights by it.
type Ceiling struct {
	// Entries bound what the allow of a policy may have, by the name of the plugin.
	// [EveryPlugin] stands for all plugins that are not named; without it the policies
	// of these can allow nothing.
	Entries map[string]rights.Entries `json:"entries,omitempty"`
	// Pooled names the plugins that may keep state across namespaces, if the plugin's
	// policy has the isolation "pooled". [EveryPlugin] stands for all plugins.
	Pooled []string `json:"pooled,omitempty"`
	// Namespaces are those in which a plugin may read and write objects, by the name
	// of the plugin; it follows no objects in others. [EveryPlugin] stands for all
	// plugins that are not named; without it these have all namespaces. Cluster-scoped
	// objects are not affected.
	Namespaces map[string]Namespaces `json:"namespaces,omitempty"`
	// ServiceAccounts are those that the policy of a plugin may name, as NAMESPACE/NAME or
	// NAMESPACE/*, by the name of the plugin. [EveryPlugin] stands for all plugins that are
	// not named; without it the policies of these can name none.
	ServiceAccounts map[string][]string `json:"serviceAccounts,omitempty"`

	// Sections are the fields of capabilities, by their names and those of plugins: see [Ceiling.SectionOf].
	Sections map[string]map[string]AllowSection `json:"-"`

	allSections bool // see WithAllSections
}

// EveryPlugin stands for all plugins in a list of names.
const EveryPlugin = "*"

// boundOf returns what bounds a plugin: its own value, or that of [EveryPlugin].
func boundOf[V any](byPlugin map[string]V, plugin string) V {
	if own, ok := byPlugin[plugin]; ok {
		return own
	}
	return byPlugin[EveryPlugin]
}

// checkCeiling reports every field of a policy that allows more than the
// configuration, and narrows its namespaces.
func (c Config) checkCeiling(plugin string, p *Policy) error {
	var problems []error
	ceilings := slices.Concat(c.Limits.numbers(), sectionNumbers(c.ceilingsOf(p)))
	for i, n := range p.numbers() {
		switch err := n.Validate(); {
		case err != nil:
			problems = append(problems, err)
		case n.value > ceilings[i].value:
			problems = append(problems, n.invalid(
				"must be at most %v, the host's limit: lower it, or raise %s in the file of --config",
				n.convert(ceilings[i].value), n.path))
		}
	}
	problems = append(problems, c.Allow.checkEntries(plugin, p.Allow)...)
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		problems = append(problems, p.Sections[name].Problems(field.NewPath(name), plugin, c.Allow)...)
	}
	problems = append(problems, c.Allow.checkIsolation(plugin, p.Isolation), c.Allow.checkServiceAccount(plugin, p.ServiceAccount),
		checkDigest(p.Digest), c.narrow(plugin, p), p.checkLogLevel())
	return joined(problems)
}

// checkEntries returns an error for every entry of a policy that allows more than
// the configuration.
func (c Ceiling) checkEntries(plugin string, entries rights.Entries) (problems []error) {
	at := field.NewPath("allow")
	if problems = entryProblems(at, entries); problems != nil {
		return problems
	}
	for i, e := range entries {
		if one := (rights.Entries{e}); !c.covers(plugin, one) {
			problems = append(problems, Needs{Entries: one}.notAllowed(at.Index(i), plugin))
		}
	}
	return problems
}

// covers reports whether the policy of a plugin may have the entries.
func (c Ceiling) covers(plugin string, entries rights.Entries) bool {
	return !slices.ContainsFunc(entries, func(e rights.Entry) bool { return !boundOf(c.Entries, plugin).Cover(e) })
}

// checkServiceAccount returns an error if a plugin may not act as a service account.
func (c Ceiling) checkServiceAccount(plugin, text string) error {
	if text == "" {
		return nil // not written
	}
	at := field.NewPath("serviceAccount")
	account, err := rights.ParseAccount(text)
	if err != nil {
		return field.Invalid(at, text, err.Error())
	}
	allowed := boundOf(c.ServiceAccounts, plugin)
	if slices.Contains(allowed, account.String()) || slices.Contains(allowed, account.Namespace+"/*") {
		return nil
	}
	return field.Forbidden(at, fmt.Sprintf("the host's configuration does not allow the plugin to act as %s: have it allowed in the file of --config: "+
		"{allow: {serviceAccounts: {%s: [%s]}}}", account, rights.Quote(plugin), rights.Quote(account.String())))
}

// narrow leaves of a policy's namespaces those that the configuration allows. It
// returns an error if there is none, since the plugin could do nothing.
func (c Config) narrow(plugin string, p *Policy) error {
	at, allowed := field.NewPath("namespaces"), boundOf(c.Allow.Namespaces, plugin)
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

// checkIsolation returns an error if a plugin may not have an isolation.
func (c Ceiling) checkIsolation(plugin string, i Isolation) error {
	at := field.NewPath("isolation")
	allowed := func(name string) bool { return name == plugin || name == EveryPlugin }
	switch i {
	case "", IsolationNamespace:
		return nil
	case IsolationPooled:
		if slices.ContainsFunc(c.Pooled, allowed) {
			return nil
		}
		return field.Forbidden(at, fmt.Sprintf(
			"the host's configuration does not allow %q: add %q to allow.pooled in the file of --config", i, plugin))
	}
	return field.NotSupported(at, i, []Isolation{IsolationNamespace, IsolationPooled})
}

// SectionOf returns what allow has in the field of a capability for a plugin, which bounds the field in its policy; nil
// if there is nothing. Everything is allowed if all is true.
func (c Ceiling) SectionOf(name, plugin string) (allowed AllowSection, all bool) {
	return boundOf(c.Sections[name], plugin), c.allSections && c.Sections[name] == nil
}

// WithAllSections returns the ceiling without bounds for the fields of capabilities that it does not have.
func (c Ceiling) WithAllSections() Ceiling {
	c.allSections = true
	return c
}

// problems returns what is wrong with the ceiling itself.
func (c Ceiling) problems() (problems []error) {
	at := field.NewPath("allow", "entries")
	for _, plugin := range slices.Sorted(maps.Keys(c.Entries)) {
		problems = append(problems, pluginProblems(at, plugin)...)
		if len(c.Entries[plugin]) == 0 {
			problems = append(problems, field.Required(at.Key(plugin), "write an entry, or remove the line"))
		}
		problems = append(problems, entryProblems(at.Key(plugin), c.Entries[plugin])...)
	}
	at = field.NewPath("allow", "namespaces")
	for _, plugin := range slices.Sorted(maps.Keys(c.Namespaces)) {
		problems = append(problems, pluginProblems(at, plugin)...)
		problems = append(problems, c.Namespaces[plugin].problems(at.Key(plugin))...)
	}
	return slices.Concat(problems, c.problemsOfSections(), c.accountProblems())
}

// accountProblems returns what is wrong with the accounts of the plugins.
func (c Ceiling) accountProblems() (problems []error) {
	at := field.NewPath("allow", "serviceAccounts")
	for _, plugin := range slices.Sorted(maps.Keys(c.ServiceAccounts)) {
		problems = append(problems, pluginProblems(at, plugin)...)
		if len(c.ServiceAccounts[plugin]) == 0 {
			problems = append(problems, field.Required(at.Key(plugin), "name a service account, or remove the line"))
		}
		for i, text := range c.ServiceAccounts[plugin] {
			namespace, all := strings.CutSuffix(text, "/*")
			if _, err := rights.ParseAccount(text); err != nil && !(all && abi.ValidName(namespace)) {
				problems = append(problems, field.Invalid(at.Key(plugin).Index(i), text, err.Error()+", or NAMESPACE/* for all of a namespace"))
			}
		}
	}
	return problems
}

// problemsOfSections returns what is wrong with the fields of capabilities in allow.
func (c Ceiling) problemsOfSections() (problems []error) {
	for _, name := range slices.Sorted(maps.Keys(c.Sections)) {
		at := field.NewPath("allow", name)
		for _, plugin := range slices.Sorted(maps.Keys(c.Sections[name])) {
			s := c.Sections[name][plugin]
			problems = append(problems, pluginProblems(at, plugin)...)
			if s != (Named{}) && reflect.ValueOf(s).Len() == 0 {
				problems = append(problems, field.Required(at.Key(plugin), "write an entry, or remove the line"))
			}
			problems = append(problems, s.Problems(at.Key(plugin))...)
		}
	}
	return problems
}

func pluginProblems(at *field.Path, plugin string) []error {
	if plugin == EveryPlugin || abi.ValidName(plugin) {
		return nil
	}
	return []error{field.Invalid(at, plugin, `must be the name of a plugin, or "`+EveryPlugin+`" for all that are not named`)}
}
