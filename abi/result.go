package abi

// Result is what a reconcile writes with output: what it wants. Nothing of
// it happens unless the call returned. SPEC.md, "Result", has limits and
// meaning of each field.
type Result struct {
	Result       Outcome     // required with [CodeOK], not looked at with other codes
	RequeueAfter int64       // ms; 0: the controller's interval, else await change
	Status       []byte      // merge patch (RFC 7386) of the request's status; nil: unchanged
	Conditions   []Condition // of the controller's owned conditions; of several of one type the last counts
	Patch        []byte      // merge patch of the primary's labels, annotations and spec; nil: none
	Apply        []Apply
	Delete       []Ref
	Events       []Event
	Memo         []byte // JSON of up to MaxMemo; given back with the next request of this object; nil keeps nothing
	Error        *Failure
}

// Outcome is the abstract result of a run that returned without an error
// (flux-result-computation: ResultSuccess, ResultRequeue, ResultEmpty).
type Outcome string

const (
	OutcomeSuccess Outcome = "success" // the wanted state is reached
	OutcomeRequeue Outcome = "requeue" // not yet reached: come again with backoff
	OutcomeEmpty   Outcome = "empty"   // neither: wait for a change
)

// Failure explains a code other than [CodeOK].
type Failure struct {
	Reason  string // CamelCase, the condition's reason; the host has one of its own for each class
	Message string // cut at MaxErrorMessage
	After   int64  // ms; with [CodeWaiting]; 0: the host chooses
}

// Condition is one entry of status.conditions, without what the host fills
// in: lastTransitionTime and observedGeneration.
type Condition struct {
	Type    string
	Status  string // True, False, Unknown; "" removes the condition
	Reason  string
	Message string
}

// Apply asks for an object by server-side apply.
type Apply struct {
	Object []byte // apiVersion, kind, metadata.name and the wanted fields
	Adopt  bool   // take over an existing object that has no controller
}

// Event is a Kubernetes Event about the primary.
type Event struct {
	Type    string // Normal or Warning
	Reason  string // CamelCase
	Message string
}

// Conventional values of [Event.Type].
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)
