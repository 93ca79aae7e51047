package abi

import "strings"

// Manifest is what describe writes: the plugin's name and its controllers.
// Its values are requests; policy and configuration of the host bound them.
type Manifest struct {
	Name        string       // a DNS label; equals the file's base name
	Version     string       // the plugin's own version, free text
	MemoVersion string       // of what its memos mean: memos outlive a new version of the plugin that has the same; "": they do not
	Features    []string     // of [Features]: newer parts of thole/v1 that the guest uses
	Controllers []Controller // one or more, with distinct names
}

// Controller is one reconcile function for one primary kind.
type Controller struct {
	Name        string     // a DNS label, distinct within the plugin
	For         Kind       // the primary kind
	Owns        []Kind     // kinds whose objects the primary controls; applied with an owner reference
	Reads       []Kind     // kinds that get and list may answer, besides For and Owns
	Writes      []Kind     // kinds that apply and delete may touch without owning them
	Finalizer   bool       // run cleanup before the primary goes
	Interval    int64      // ms; when to come again after success without requeueAfter; 0: await change
	Timeout     int64      // ms; deadline of one call; 0: the host's
	Concurrency int        // calls of this controller at once; 0: the host's
	Conditions  Conditions // how Ready is computed
}

// Kind names a kind at one API version.
type Kind struct {
	APIVersion string // "v1", "apps/v1"
	Kind       string
}

func (k Kind) String() string { return k.APIVersion + " " + k.Kind }

// Group returns the API group, "" for the core group.
func (k Kind) Group() string {
	group, _, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// Conditions says which conditions a controller owns and how its target is
// summarized from others (flux-result-computation, type Conditions).
type Conditions struct {
	Target           string   // default "Ready"
	Owned            []string // besides Target, Reconciling and Stalled
	Summarized       []string // what Target depends on; besides Reconciling and Stalled
	NegativePolarity []string // those of the others that are bad when True
}

// DefaultTarget is the condition that a controller writes unless it names
// another one.
const DefaultTarget = "Ready"

// TargetOrReady returns the target with its default filled in.
func (c Conditions) TargetOrReady() string {
	if c.Target == "" {
		return DefaultTarget
	}
	return c.Target
}
