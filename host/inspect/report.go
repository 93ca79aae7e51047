package inspect

import "encoding/json"

// Report is what is known of a plugin's file. Its JSON form is what `thole
// inspect -o json` prints: fields may be added to it, and keep their meaning.
type Report struct {
	File   string `json:"file"`             // as it was named
	Name   string `json:"name"`             // of the plugin: the file's base name without .wasm
	Digest string `json:"digest,omitempty"` // SHA-256 in hex, as in /plugins; "" for a file that is too large
	Size   int64  `json:"size"`             // bytes
	Load   Load   `json:"load"`

	// What follows is absent as far as the file is no module.

	ABIVersions []string   `json:"abiVersions,omitempty"` // as its markers say
	Toolchain   string     `json:"toolchain,omitempty"`   // as the module says, "TinyGo 0.41.1"; "": unknown
	Instances   *Instances `json:"instances,omitempty"`
	Memory      *Memory    `json:"memory,omitempty"`
	// Manifest is the plugin's, in the ABI's own form (abi/SPEC.md,
	// "Manifest"): durations are milliseconds, absent fields have defaults.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	Imports  []Symbol        `json:"imports,omitempty"` // in the module's order
	Exports  []Symbol        `json:"exports,omitempty"` // of the ABI, absent optional ones left out
	Rights   []Rights        `json:"rights,omitempty"`  // by controller

	controllers []controllerRow // of the manifest, for people
}

// Load says whether the host would load the plugin.
type Load struct {
	OK bool `json:"ok"`
	// Step is where it would be refused, as the host's metrics and /plugins
	// name it: "read", "load", a step of host/sandbox, "overlap" or "start".
	Step  string `json:"step,omitempty"`
	Error string `json:"error,omitempty"`
	// WaitsFor are kinds that the plugin would wait for: the cluster that was
	// asked does not serve them.
	WaitsFor []string `json:"waitsFor,omitempty"`
}

// Instances says what happens to an instance between two calls.
type Instances struct {
	Mode string `json:"mode"` // reset, pooled or fresh
	Why  string `json:"why"`
}

// Memory is an instance's linear memory, in bytes.
type Memory struct {
	Initial uint64 `json:"initial"`           // as the module declares
	Start   uint64 `json:"start"`             // as an instance starts here
	Maximum uint64 `json:"maximum,omitempty"` // as the module declares; 0: none
	Limit   uint64 `json:"limit"`             // of the host
}

// Symbol is an import or an export.
type Symbol struct {
	Module   string `json:"module,omitempty"` // of an import
	Name     string `json:"name"`
	Type     string `json:"type,omitempty"`     // signature of a function, else the kind; "": absent
	Required bool   `json:"required,omitempty"` // of an export
	Meaning  string `json:"meaning,omitempty"`
	Problem  string `json:"problem,omitempty"` // why the plugin is refused for it
}

// Rights are what the host needs to run a controller.
type Rights struct {
	Controller string `json:"controller"`
	Rules      []Rule `json:"rules"`
}

// Rule is a rule of a Role or ClusterRole for one resource, with what it is
// for.
type Rule struct {
	APIGroups []string `json:"apiGroups"` // one; "" is the core group
	Resources []string `json:"resources"` // one
	Verbs     []string `json:"verbs"`
	Uses      []string `json:"uses"` // "patch: add and remove the finalizer"
	// Guessed says that the resource was derived from the kind, as no cluster
	// was asked or it does not serve the kind.
	Guessed bool `json:"guessed,omitempty"`
	// OnlyIf is when the rule is needed; "": always.
	OnlyIf string `json:"onlyIf,omitempty"`
}
