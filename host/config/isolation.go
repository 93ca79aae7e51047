package config

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/host/sandbox"
)

// Isolation is from where a run can find state that other runs have left in the
// memory of a plugin which standard Go has compiled. Other plugins keep none.
type Isolation string

const (
	// IsolationNamespace lets runs find the state of runs in the same namespace.
	IsolationNamespace Isolation = "namespace"
	// IsolationPooled lets runs find the state of all runs.
	IsolationPooled Isolation = "pooled"
)

// checkIsolation returns an error if a plugin may not have an isolation.
func (c Config) checkIsolation(plugin string, i Isolation) error {
	at := field.NewPath("isolation")
	allowed := func(name string) bool { return name == plugin || name == EveryPlugin }
	switch i {
	case "", IsolationNamespace:
		return nil
	case IsolationPooled:
		if slices.ContainsFunc(c.Allow.Pooled, allowed) {
			return nil
		}
		return field.Forbidden(at, fmt.Sprintf(
			"the host's configuration does not allow %q: add %q to allow.pooled in the file of --config", i, plugin))
	}
	return field.NotSupported(at, i, []Isolation{IsolationNamespace, IsolationPooled})
}

// Sandbox returns the limits of the policy that the sandbox enforces.
func (p Policy) Sandbox() sandbox.Limits {
	limits := p.Limits.Sandbox()
	limits.PoolNamespaces = p.Isolation == IsolationPooled
	for _, s := range p.Sections {
		if s, waits := s.(WaitingSection); waits {
			limits.Waiting = min(limits.Waiting+s.Waiting(), maxInstances-limits.Instances)
		}
	}
	return limits
}
