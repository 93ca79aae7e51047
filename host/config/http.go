package config

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/host/egress"
)

// This file checks the entries of http, in policies and in the configuration.

// WithEveryHTTP returns the ceiling without a bound for the entries of http.
func (a Allow) WithEveryHTTP() Allow {
	a.everyHTTP = true
	return a
}

// httpOf returns the entries that bound the http of a plugin's policy.
func (a Allow) httpOf(plugin string) egress.Entries {
	if own, ok := a.HTTP[plugin]; ok {
		return own
	}
	return a.HTTP[EveryPlugin]
}

func (a Allow) coversHTTP(plugin string, e egress.Entry) bool {
	return a.everyHTTP || a.httpOf(plugin).Cover(e)
}

// httpCeilingProblems returns an error for every entry of a policy that allows more than the
// configuration.
func (a Allow) httpCeilingProblems(plugin string, p *Policy) (problems []error) {
	at := field.NewPath("http")
	if problems = p.HTTP.Problems(at); problems != nil {
		return problems
	}
	return a.HTTPProblems(at, plugin, p.HTTP)
}

// HTTPProblems returns an error for every entry that is more than the configuration allows the plugin. The
// entries have been checked, and at is the path of their list.
func (a Allow) HTTPProblems(at *field.Path, plugin string, entries egress.Entries) (problems []error) {
	for i, e := range entries {
		if !a.coversHTTP(plugin, e) {
			problems = append(problems, field.Forbidden(at.Index(i), "the host's configuration does not allow this much to the plugin: "+
				"remove it, or have it allowed in the file of --config: "+Needs{HTTP: egress.Entries{e}}.configText(plugin)))
		}
	}
	return problems
}

// httpProblems returns what is wrong with the entries of the plugins.
func (a Allow) httpProblems() (problems []error) {
	at := field.NewPath("allow", "http")
	for _, plugin := range slices.Sorted(maps.Keys(a.HTTP)) {
		problems = append(problems, pluginProblems(at, plugin)...)
		if len(a.HTTP[plugin]) == 0 {
			problems = append(problems, field.Required(at.Key(plugin), "write an entry, or remove the line"))
		}
		problems = append(problems, a.HTTP[plugin].Problems(at.Key(plugin))...)
	}
	return problems
}
