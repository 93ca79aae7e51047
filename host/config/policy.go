package config

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Policy is what the administrator says of one plugin, in the file <name>.yaml
// beside its module. It can only narrow what the host's configuration allows.
type Policy struct {
	// CrossNamespace lets the plugin's namespaced primaries read and write in
	// other namespaces. The configuration must allow it, too.
	CrossNamespace bool `json:"crossNamespace,omitempty"`
	// DryRun lets the API server check every write of the plugin and store
	// none; what would have changed is logged.
	DryRun bool `json:"dryRun,omitempty"`
	// Limits are the host's, as far as they are not narrowed here.
	Limits Limits `json:"limits,omitzero"`
	// Config is given to the plugin with every request.
	Config json.RawMessage `json:"config,omitempty"`
}

// Equal reports whether both policies allow the same.
func (p Policy) Equal(other Policy) bool { return reflect.DeepEqual(p, other) }

// policyError is a policy that cannot be followed.
type policyError struct{ error }

// LoadStep implements what catalog labels its metric with.
func (policyError) LoadStep() string { return "policy" }

func (e policyError) Unwrap() error { return e.error }

// ReadPolicy reads a plugin's policy and holds it against the ceiling. No
// policy is the narrowest, apart from the limits, which are then the host's.
func (c Config) ReadPolicy(plugin string, text []byte) (p Policy, err error) {
	if len(text) > 0 {
		var zeros []string
		if zeros, err = decodeStrict(text, &p); err == nil {
			err = written(zeros, p.Limits.all())
		}
	}
	if err == nil {
		p.DryRun = p.DryRun || c.DryRun
		p.Limits, err = c.Limits.narrow(p.Limits)
	}
	if err == nil && p.CrossNamespace && !c.Allow.crossesNamespaces(plugin) {
		err = fmt.Errorf("crossNamespace is more than the host's configuration allows: add %q to allow.crossNamespace in the file of --config", plugin)
	}
	if err != nil {
		return p, policyError{fmt.Errorf("%s.yaml: %w", plugin, err)}
	}
	return p, nil
}
