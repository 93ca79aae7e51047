package inspect

import (
	"encoding/json"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
)

// Report describes the file of a plugin. Its JSON form is the output of `thole
// inspect -o json`: fields may be added to it, and keep their meaning.
type Report struct {
	File   string `json:"file"`             // path as the user has written it
	Name   string `json:"name"`             // of the plugin: base name of the file without .wasm
	Digest string `json:"digest,omitempty"` // SHA-256 in hex, as in /plugins; "" if the file is too large
	Size   int64  `json:"size"`             // bytes
	Load   Load   `json:"load"`
	// Notes are what capabilities of the host note of the module, for people.
	Notes []string `json:"notes,omitempty"`
	// PolicyFile is the path of the policy beside the file; "" if there is none.
	PolicyFile string `json:"policyFile,omitempty"`

	// The following fields are absent if the file is not a module.

	ABIVersions []string   `json:"abiVersions,omitempty"` // of its marker exports
	Toolchain   string     `json:"toolchain,omitempty"`   // such as "TinyGo 0.41.1"; "" if the module does not name it
	Instances   *Instances `json:"instances,omitempty"`
	Memory      *Memory    `json:"memory,omitempty"`
	// Manifest has the form of the ABI (abi/SPEC.md, "Manifest"): durations are
	// milliseconds, and absent fields have their defaults.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	Imports  []Symbol        `json:"imports,omitempty"` // in the order of the module
	Exports  []Symbol        `json:"exports,omitempty"` // those of the ABI, without optional ones that are missing
	Rights   []Rights        `json:"rights,omitempty"`  // by controller
	Status   []Status        `json:"status,omitempty"`  // by controller
	// Policy is the smallest policy with which the plugin starts, except that it has every verb of writing for
	// what the plugin writes: which of them it uses is not in its manifest. It has the form of a policy file,
	// and is absent if the plugin needs none.
	Policy *config.Needs `json:"policy,omitempty"`

	controllers []controllerRows // for the table
	manifest    *abi.Manifest
	resources   map[abi.Kind]resource                               // of the kinds of the manifest
	rules       func(*abi.Manifest, rights.Resources) []rights.Rule // see [Options]
}

// DecodedManifest returns the manifest, nil if there is none.
func (r *Report) DecodedManifest() *abi.Manifest { return r.manifest }

// Load is the result of a load.
type Load struct {
	OK bool `json:"ok"`
	// Step is the step at which the plugin would be refused, as in the metrics
	// of the host and in /plugins: "read", "load", a step of host/sandbox,
	// "overlap" or "start".
	Step  string `json:"step,omitempty"`
	Error string `json:"error,omitempty"`
	// WaitsFor are the kinds that the cluster does not serve: the plugin would
	// wait for them.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Advice has for each of these what is missing, and what to do.
	Advice []string `json:"advice,omitempty"`
}

// Instances describes what happens to an instance between two calls.
type Instances struct {
	Mode string `json:"mode"` // reset, pooled or fresh
	Why  string `json:"why"`
}

// Memory describes the linear memory of an instance, in bytes.
type Memory struct {
	Initial uint64 `json:"initial"`           // declared by the module
	Start   uint64 `json:"start"`             // of a new instance
	Maximum uint64 `json:"maximum,omitempty"` // declared by the module; 0 if it declares none
	Limit   uint64 `json:"limit"`             // of the host
}

// Symbol is an import or an export.
type Symbol struct {
	Module   string `json:"module,omitempty"` // of an import
	Name     string `json:"name"`
	Type     string `json:"type,omitempty"`     // signature of a function, else the kind; "" if it is missing
	Required bool   `json:"required,omitempty"` // of an export
	Meaning  string `json:"meaning,omitempty"`
	Problem  string `json:"problem,omitempty"` // why the plugin is refused because of it
}

// Rights are the RBAC rules that the host needs for a controller.
type Rights struct {
	Controller string `json:"controller"`
	Rules      []Rule `json:"rules"`
}

// Rule is a rule of a Role or ClusterRole for one resource, with its purpose.
type Rule struct {
	APIGroups []string `json:"apiGroups"` // one; "" is the core group
	Resources []string `json:"resources"` // one
	Verbs     []string `json:"verbs"`
	// ResourceNames is the one object that the rule is about; none for all.
	ResourceNames []string `json:"resourceNames,omitempty"`
	// Namespaces are those in which the rule is needed; none for all. It is a rule of
	// Roles then.
	Namespaces []string `json:"namespaces,omitempty"`
	Uses       []string `json:"uses"` // such as "patch: add and remove the finalizer"
	// Guessed is set if the resource was derived from the kind, because there is
	// no cluster or because it does not serve the kind.
	Guessed bool `json:"guessed,omitempty"`
	// OnlyIf is the condition under which the rule is needed; "" for always.
	OnlyIf string `json:"onlyIf,omitempty"`
}
