package abi

import "time"

// Request is the input of one reconcile.
type Request struct {
	Controller string
	Object     []byte    // JSON; the primary as the API server sent it, without managedFields and last-applied
	Deleting   bool      // has a deletionTimestamp: clean up
	Reasons    []Reason  // why this run happens; best effort, never a basis for logic
	Attempt    int       // runs that ended in retry or host failure since the last success or reset
	Previous   *Previous // how the last run ended, when it did not succeed
	Memo       []byte    // JSON; what the last run for this object left; nil after a restart
	Now        time.Time // UTC; the call's clock
	Seed       [32]byte  // fresh per run; never a source of secrets
	Config     []byte    // JSON; the administrator's configuration of the plugin; nil if none
}

// Reason says why a run happens.
type Reason string

const (
	ReasonPrimary Reason = "primary" // somebody changed the object
	ReasonStatus  Reason = "status"  // somebody else changed nothing but its status
	ReasonOwned   Reason = "owned"   // an owned object changed
	ReasonRead    Reason = "read"    // something that the last run read changed
	ReasonRequeue Reason = "requeue" // the last run asked for it
	ReasonRetry   Reason = "retry"   // the last run failed
	ReasonResync  Reason = "resync"  // the periodic resync, or the start of the host
	ReasonPlugin  Reason = "plugin"  // a new generation or policy of the plugin
	ReasonRequest Reason = "request" // reconcile.thole.dev/requestedAt changed
)

// Previous is how the last run of this object ended.
type Previous struct {
	Class    Class
	Failures []EffectFailure // effects of that run that failed, in order
}

// EffectFailure is one effect that the host could not perform.
type EffectFailure struct {
	Verb    string // VerbFinalizer to VerbStatus
	Ref     Ref
	Class   Class
	Reason  string // of the API server's answer, such as Forbidden
	Message string
}

// The verbs of effects, in the order in which the effects are performed.
const (
	VerbFinalizer = "finalizer"
	VerbPatch     = "patch"
	VerbApply     = "apply"
	VerbDelete    = "delete"
	VerbEvent     = "event"
	VerbStatus    = "status"
)

// Ref names one object.
type Ref struct {
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
	UID        string // optional: a precondition; an object with another one is another object
}

// GetCall is the message of the capability get. The reply is the object.
type GetCall struct {
	Ref Ref
}

// ListCall is the message of the capability list. The reply is a [ListReply].
type ListCall struct {
	APIVersion    string
	Kind          string
	Namespace     string // "" for all namespaces, where the scope allows it
	LabelSelector string // in the notation of Kubernetes
}

// ListReply answers a [ListCall], ordered by namespace and name.
type ListReply struct {
	Items [][]byte
}
