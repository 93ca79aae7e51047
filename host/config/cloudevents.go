package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/host/egress"
)

// This file checks the sinks of CloudEvents.

// cloudEventProblems returns what is wrong with the sinks of a policy, and an error for every sink that
// the configuration does not allow.
func (a Allow) cloudEventProblems(plugin string, p *Policy) (problems []error) {
	at := field.NewPath("cloudEvents")
	if problems = p.CloudEvents.Problems(at); problems != nil {
		return problems
	}
	for i, e := range p.CloudEvents.Sinks.Entries() {
		if !a.coversHTTP(plugin, e) {
			problems = append(problems, field.Forbidden(at.Child("sinks").Index(i), "the host's configuration does not allow the plugin requests to this host: "+
				"remove the sink, or have it allowed in the file of --config: "+Needs{HTTP: egress.Entries{e}}.configText(plugin)))
		}
	}
	return problems
}

// Secrets returns the Secrets with the credentials of hosts and sinks that the policy names, each once.
func (p Policy) Secrets() []egress.SecretRef {
	return slices.Concat(p.HTTP, p.CloudEvents.Sinks.Entries()).Secrets()
}
