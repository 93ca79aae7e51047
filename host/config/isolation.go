package config

import (
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
