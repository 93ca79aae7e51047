package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/host/rights"
)

// Policy is what the administrator allows one plugin, written in the file
// <name>.yaml beside its module. A policy can only narrow the configuration.
type Policy struct {
	// APIVersion is that of this schema, thole.dev/v1alpha1; required.
	APIVersion string `json:"apiVersion,omitempty"`
	// ServiceAccount is the one that the plugin acts as, as NAMESPACE/NAME: its writes are
	// sent as that account, and it reads what that account may read. The configuration must
	// allow it. Without it the plugin needs --host-identity.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Digest pins the module: a file with another digest does not run. It is that of
	// `sha256sum`, after "sha256:".
	Digest string `json:"digest,omitempty"`
	// Allow is what the plugin may read and write beyond what needs no entry. The
	// configuration must allow it too.
	Allow rights.Entries `json:"allow,omitempty"`
	// Namespaces are those in which the plugin may read and write objects; it follows
	// no objects in others. Those that the configuration does not allow are left out.
	// The default is what the configuration allows. Cluster-scoped objects are not
	// affected.
	Namespaces Namespaces `json:"namespaces,omitempty"`
	// DryRun sends every write of the plugin to the API server as a dry run:
	// it is checked and not stored. What would have changed is logged.
	DryRun bool `json:"dryRun,omitempty"`
	// LogLevel is the level from which on the lines of the plugin, and those about its runs, are
	// logged: trace, debug, info, warn or error. The default is --log-level. A change takes
	// effect at once, and runs nothing.
	LogLevel string `json:"logLevel,omitempty"`
	// Isolation is "pooled" to let the runs of a plugin that standard Go has compiled
	// find in memory what runs for objects in other namespaces have left, Secrets
	// included. It saves resetting its memory between them. The configuration must
	// allow it too. The default is "namespace".
	Isolation Isolation `json:"isolation,omitempty"`
	// Limits are those of the configuration where the policy does not lower
	// them.
	Limits Limits `json:"limits,omitzero"`
	// Config is passed to the plugin with every request, as JSON.
	Config json.RawMessage `json:"config,omitempty"`

	// Sections are the fields of capabilities that are written, by their names.
	Sections map[string]PolicySection `json:"-"`
}

// Equal reports whether both policies allow the same and pass the same bytes
// to the plugin. What of it is logged makes no difference.
func (p Policy) Equal(other Policy) bool {
	other.LogLevel = p.LogLevel
	return reflect.DeepEqual(p, other)
}

// Account returns the service account that the plugin acts as, the zero value if it acts as
// the host.
func (p Policy) Account() rights.Account {
	account, _ := rights.ParseAccount(p.ServiceAccount) // the policy was checked
	return account
}

// Pins reports whether the policy lets a module with that digest run, which is in hex.
func (p Policy) Pins(digest string) bool {
	return p.Digest == "" || p.Digest == digestPrefix+digest
}

const digestPrefix = "sha256:"

var pinned = regexp.MustCompile("^" + digestPrefix + "[0-9a-f]{64}$")

func checkDigest(digest string) error {
	if digest == "" || pinned.MatchString(digest) {
		return nil
	}
	return field.Invalid(field.NewPath("digest"), digest, "must be the SHA-256 of the module as sha256:<64 lower case hexadecimal digits>, as `sha256sum` prints it")
}

func (p *Policy) checkLogLevel() error {
	levels := []string{"trace", "debug", "info", "warn", "error"}
	if p.LogLevel == "" || slices.Contains(levels, p.LogLevel) {
		return nil
	}
	return field.NotSupported(field.NewPath("logLevel"), p.LogLevel, levels)
}

func (p *Policy) numbers() []number {
	return slices.Concat(p.Limits.numbers(), sectionNumbers(p.Sections))
}

// checkVersion refuses a policy of another version, whose fields may mean something else.
func (p *Policy) checkVersion(written map[string]any) error {
	at := field.NewPath("apiVersion")
	switch version, ok := written["apiVersion"]; {
	case len(written) == 0, version == rights.APIVersion:
		return nil
	case !ok:
		return field.Required(at, "the first line of a policy is apiVersion: "+rights.APIVersion)
	default:
		return field.NotSupported(at, version, []string{rights.APIVersion})
	}
}

// policyError is why a policy was refused.
type policyError struct{ error }

// LoadStep returns the step at which loading the plugin failed, a label of the
// catalog's metrics.
func (policyError) LoadStep() string { return "policy" }

func (e policyError) Unwrap() error { return e.error }

// ReadPolicy reads the policy of a plugin. The configuration, whose defaults
// must be filled in, is its ceiling. An empty text is the narrowest policy,
// with the limits of the configuration, or the one that the configuration has of the plugin.
// An error has a method LoadStep() string that returns "policy".
func (c Config) ReadPolicy(plugin string, text []byte) (Policy, error) {
	p, source := Policy{Limits: c.Limits}, plugin+".yaml"
	if own, ok := c.Policies[plugin]; ok {
		if text != nil {
			return Policy{}, policyError{fmt.Errorf("%s: the configuration of the host has the policy of this plugin: remove the file, or policies.%s from the file of --config", source, plugin)}
		}
		text, source = own, "policies."+plugin
	}
	err := decode(text, policyFile{&p, c.Sections})
	if err == nil {
		err = c.checkCeiling(plugin, &p)
	}
	if err != nil {
		return Policy{}, policyError{fmt.Errorf("%s: %w", source, err)}
	}
	p.DryRun = p.DryRun || c.DryRun
	return p, nil
}
