package abi

import (
	"slices"
	"strings"
	"time"
)

// Manifest is the message that describe writes: the plugin's name and its
// controllers. Intervals, timeouts and concurrency are requests that the
// policy and the configuration of the host may reduce.
type Manifest struct {
	Name        string       // a DNS label, equal to the file's base name
	Version     string       // of the plugin; any text
	MemoVersion string       // of the format of its memos; a new revision with the same value keeps them, "" drops them
	Managed     bool         // what it owns is labelled [LabelManagedBy], and followed by that label
	Controllers []Controller // one or more, with distinct names
}

// Controller is one reconcile function for one primary kind.
type Controller struct {
	Name          string      // a DNS label, distinct within the plugin
	For           Followed    // the primary kind
	Owns          []Followed  // applied with an owner reference to the primary, which is run when one of them changes
	Reads         []Followed  // kinds that get and list may read besides the others here
	Watches       []Watch     // kinds whose changes make primaries run
	Writes        []Kind      // kinds that apply and delete may change without an owner reference
	Indexes       []Index     // fields by which list finds objects of the kinds that it may read
	Finalizer     bool        // hold a finalizer, so that a run with Deleting precedes the deletion
	WhileDeleting bool        // run also while the object is being deleted, without a finalizer
	StatusOwner   StatusOwner // who writes conditions and observedGeneration
	Applied       Applied     // where it is kept what was applied to objects in Owns
	Gone          bool        // run once more for an object that is gone without a cleanup
	Prune         bool        // results may have [Result.Prune]: what it creates in Owns is labelled [LabelAppliedBy]
	Interval      int64       // ms until the next run after a success without requeueAfter; 0 waits for a change
	Timeout       int64       // ms, the deadline of one call; 0 means the host's default
	Concurrency   int         // concurrent calls of this controller; 0 means the host's default
	Retry         Retry       // when runs that fail or are requeued are repeated
	Conditions    Conditions  // which conditions it has, and how Ready is computed

	Sections []Section `json:"-"` // of capabilities, by distinct names; members beside the others
}

// Followed is a kind, and which of its objects a controller follows.
type Followed struct {
	Kind
	Selector
	// PollInterval is the time in ms between two lists of a kind that can be listed and not watched;
	// less than 1000 counts as 1000, 0 as 30 s. It has no effect on other kinds.
	PollInterval int64
}

// Selector selects objects of a kind, and what of them is kept. The zero value selects
// all of every object. Whatever is not selected cannot be read, and its changes are
// not noticed.
type Selector struct {
	Namespaces    []string // none: all
	LabelSelector string   // in the notation of kubectl
	FieldSelector string   // in the notation of kubectl, with fields that the API server supports for the kind
	MetadataOnly  bool     // of the objects only apiVersion, kind and metadata are kept
}

// IsZero reports whether the selector selects all of every object.
func (s Selector) IsZero() bool {
	return len(s.Namespaces) == 0 && s.LabelSelector == "" && s.FieldSelector == "" && !s.MetadataOnly
}

// All returns the kind with a selector of all of every object.
func (k Kind) All() Followed { return Followed{Kind: k} }

// AllOf is [Kind.All] for several kinds. It is not inlined, because TinyGo would do so
// wherever a plugin calls it.
//
//go:noinline
func AllOf(kinds ...Kind) []Followed {
	all := make([]Followed, len(kinds))
	for i, k := range kinds {
		all[i].Kind = k
	}
	return all
}

// Kinds returns the kinds without their selectors.
func Kinds(all []Followed) []Kind {
	kinds := make([]Kind, len(all))
	for i, w := range all {
		kinds[i] = w.Kind
	}
	return kinds
}

// Watch is a kind whose objects name primaries, or are named by them: their changes make
// the primaries run. Only By decides which of Key and Field is required.
type Watch struct {
	Followed
	By    WatchBy
	Key   string // of the label or annotation
	Field string // of the primary, see [fieldpath.Path]
}

// WatchBy is how the objects of a [Watch] and primaries belong together.
type WatchBy string

const (
	// WatchByOwner stands for an owner reference of the object to the primary, whether
	// or not that is its controller.
	WatchByOwner WatchBy = "owner"
	// WatchByLabel stands for a label of the object with the name of a primary in the
	// same namespace.
	WatchByLabel WatchBy = "label"
	// WatchByAnnotation stands for an annotation of the object with the name of a
	// primary in the same namespace, or with its namespace, a slash and its name.
	WatchByAnnotation WatchBy = "annotation"
	// WatchByField stands for a field of the primary with the name of an object in the
	// same namespace, or with its namespace, a slash and its name.
	WatchByField WatchBy = "field"
)

// Retry is the backoff of a controller and how often it tries. The zero value of
// each field stands for its default.
type Retry struct {
	Initial  int64 // ms, the first delay; default 500, at least 100
	Factor   int   // each delay in percent of the one before; default 200, 100 keeps the delay the same
	Cap      int64 // ms, the longest delay; default 15 minutes, or Initial if that is longer
	Jitter   int   // percent of a delay that chance takes off at most; default 20
	Attempts int   // failed runs in a row until Then; 0 for no limit
	Then     Then  // after Attempts; default ThenStalled
}

// Then is what follows when a controller's attempts are used up.
type Then string

const (
	ThenStalled Then = "stalled" // the object is Stalled: only a change leads to another run
	ThenCap     Then = "cap"     // the object is tried again after Retry.Cap each time
)

// Kind is a kind at one API version.
type Kind struct {
	APIVersion string // "v1", "apps/v1"
	Kind       string
}

func (k Kind) String() string { return k.APIVersion + " " + k.Kind }

// Ref returns the reference to an object of the kind. namespace is "" for a
// cluster-scoped one.
func (k Kind) Ref(namespace, name string) Ref {
	return Ref{APIVersion: k.APIVersion, Kind: k.Kind, Namespace: namespace, Name: name}
}

// Type returns the kind as part of an object.
func (k Kind) Type() TypeMeta { return TypeMeta(k) }

// Group returns the API group, "" for the core group.
func (k Kind) Group() string {
	group, _, grouped := strings.Cut(k.APIVersion, "/")
	if !grouped {
		return ""
	}
	return group
}

// Sensitive reports whether objects of the kind hold credentials or grant rights: Secrets,
// ServiceAccounts and the kinds of RBAC, of Kubernetes and of OpenShift. A plugin reaches
// them only by an entry of its policy, and their content is copied nowhere.
func (k Kind) Sensitive() bool {
	switch k.Group() {
	case "":
		return k.Kind == "Secret" || k.Kind == "ServiceAccount"
	case "rbac.authorization.k8s.io", "authorization.openshift.io":
		return true
	}
	return false
}

// Conditions lists the condition types that a controller owns and those that
// its target condition summarizes (flux-result-computation, type Conditions).
type Conditions struct {
	Target           string    // the summary; "" means Ready
	Owned            []string  // types that results may set, besides Target, Reconciling and Stalled
	Summarized       []string  // types that Target depends on, besides Reconciling and Stalled
	NegativePolarity []string  // those of the other lists for which True is the bad status
	Summaries        []Summary // further target conditions
}

// Summary is a further target condition, with a summary of its own. It is
// computed before Target and after the summaries listed before it, so that each
// of these may depend on it.
type Summary struct {
	Target           string   // a type other than Ready and the other targets
	Summarized       []string // all types that Target depends on, also Reconciling and Stalled; one or more
	NegativePolarity []string // those of Summarized for which True is the bad status
}

// DefaultTarget is the target condition of a controller that names none.
const DefaultTarget = "Ready"

// TargetOrReady returns Target, or [DefaultTarget] if it is empty.
func (c Conditions) TargetOrReady() string {
	if c.Target == "" {
		return DefaultTarget
	}
	return c.Target
}

// IsZero reports whether the manifest names no conditions.
func (c Conditions) IsZero() bool {
	return c.Target == "" && len(c.Owned)+len(c.Summarized)+len(c.NegativePolarity)+len(c.Summaries) == 0
}

// Written returns the distinct types of conditions that belong to the
// controller: its targets and Owned. Reconciling and Stalled are not among them,
// also if Owned has them: they belong to the controller that targets
// [DefaultTarget].
func (c Conditions) Written() []string {
	types := []string{c.TargetOrReady()}
	for _, s := range c.Summaries {
		types = append(types, s.Target)
	}
	for _, t := range c.Owned {
		if t != conditionReconciling && t != conditionStalled && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// Request is the input of one reconcile.
type Request struct {
	Sections []Section `json:"-"` // of capabilities, by distinct names; members beside the others

	Controller string    // the name of the controller to run
	Object     []byte    // JSON: the primary as the API server sent it, without managedFields and last-applied
	Deleting   bool      // the object has a deletionTimestamp, or is gone although the controller held it: clean up
	Gone       bool      // the object does not exist any more, and Object is what was last known of it
	Reasons    []Reason  // why the object is reconciled; best effort, so logic must not depend on it
	Attempt    int       // runs that ended in retry or in a failure since the last end that was no failure, or reset
	Previous   *Previous // how the last run ended; nil if it succeeded
	Signals    [][]byte  // JSON: of capabilities, since the last run that ended well
	Memo       []byte    // JSON: the memo of the last result for this object; nil after a restart of the host
	Now        time.Time // UTC: the time that every clock of the guest starts from
	Seed       [32]byte  // random, different for each run; not suitable for secrets
	Config     []byte    // JSON: the administrator's configuration of the plugin; nil if there is none
}

// Reason is a cause of a run.
type Reason string

const (
	ReasonPrimary Reason = "primary" // the object was changed
	ReasonStatus  Reason = "status"  // another client changed only the object's status
	ReasonOwned   Reason = "owned"   // an owned object changed
	ReasonRead    Reason = "read"    // an object that the last run read has changed
	ReasonRequeue Reason = "requeue" // the last run requested it
	ReasonRetry   Reason = "retry"   // the last run failed
	ReasonResync  Reason = "resync"  // the periodic resync, or the start of the host
	ReasonPlugin  Reason = "plugin"  // a new revision or policy of the plugin
	ReasonRequest Reason = "request" // the annotation reconcile.thole.dev/requestedAt changed
	ReasonTimer   Reason = "timer"   // a timer of the controller is due
	ReasonSignal  Reason = "signal"  // a capability has named the object
)

// Previous describes how the last run of an object ended.
type Previous struct {
	Class    Class
	Failures []EffectFailure // effects of that run that failed, in order
}

// EffectFailure is one effect that the host could not perform.
type EffectFailure struct {
	Verb    string // finalizer, patch, release, apply, delete, event or status; or what a capability reports
	Ref     Ref
	Class   Class
	Reason  string // the reason in the API server's response, such as Forbidden
	Message string
	Group   string // of the intent that failed, "" for none
}

// The verbs of effects, in the order in which the effects are performed.
const (
	VerbFinalizer = "finalizer"
	VerbPatch     = "patch"
	VerbRelease   = "release"
	VerbApply     = "apply"
	VerbDelete    = "delete"
	VerbEvent     = "event"
	VerbStatus    = "status"
)

// Ref identifies one object.
type Ref struct {
	APIVersion string
	Kind       string
	Namespace  string // "" for a cluster-scoped object, and in a message for the primary's
	Name       string
	UID        string // optional precondition: an object of that name with another UID does not match
}

func (ref Ref) String() string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	return ref.APIVersion + " " + ref.Kind + " " + name
}

// TypeMeta is the kind in the JSON of an object.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// GetCall is the message of the capability get. The reply is the object.
type GetCall struct {
	Ref
	Fields []string // what the reply has of the object, see [fieldpath.Set]; none for all of it
}

// ListCall is the message of the capability list. The reply is a [ListReply].
type ListCall struct {
	APIVersion    string
	Kind          string
	Namespace     string   // "" means the primary's, or all where the plugin may read them
	LabelSelector string   // in the notation of kubectl
	FieldSelector string   // of metadata.name, metadata.namespace and fields that have an index, see [fieldpath.Selector]
	Fields        []string // what the reply has of each object; none for all of it
	Limit         int      // the most objects of one reply; 0 for all
	Continue      string   // of the reply with the objects before; "" to begin
	OwnedBy       OwnedBy  // "" for any
}

// List returns the text of the call without limit and continue. It is the same for all
// pages of a list.
func (c ListCall) List() []byte {
	c.Limit, c.Continue = 0, ""
	return EncodeListCall(&c)
}

// ListReply is the reply to a [ListCall], ordered by namespace and name.
type ListReply struct {
	Items    [][]byte // JSON objects
	Continue string   // for a call that lists what follows; "" after the last object
}

// Result is the message that a reconcile writes: what the host shall do. The
// host performs none of it unless the call has returned. SPEC.md, "Result", has
// the limits and the meaning of each field.
type Result struct {
	Result       Outcome     // required with [CodeOK], ignored with other codes
	RequeueAfter int64       // ms; 0 means the controller's interval, or a change if there is none
	Status       []byte      // a merge patch (RFC 7386) of the status in the request; nil leaves it unchanged
	Conditions   []Condition // of the types that the controller owns; the last one of a type wins
	Patch        []byte      // a merge patch of the primary's labels, annotations and spec; nil means none
	Release      []Ref       // objects whose controller the primary shall not be any more
	Apply        []Apply
	Delete       []Delete
	Prune        bool // delete what earlier results have created of kinds in owns and this one does not name
	Events       []Event
	Groups       []Group // what a failure of a group of intents leads to
	Memo         []byte  // JSON of up to MaxMemo bytes, part of this object's next request; nil drops the memo
	Error        *Failure
	Sections     []Section `json:"-"` // of capabilities, by distinct names; members beside the others
}

// Outcome is the abstract result of a run that returned without an error
// (flux-result-computation: ResultSuccess, ResultRequeue, ResultEmpty).
type Outcome string

const (
	OutcomeSuccess Outcome = "success" // the desired state is reached
	OutcomeRequeue Outcome = "requeue" // it is not reached yet: run again with backoff
	OutcomeEmpty   Outcome = "empty"   // neither: wait for a change
)

// Failure explains a code other than [CodeOK].
type Failure struct {
	Reason  string // CamelCase, the reason of the conditions; "" means the default reason of the class
	Message string // truncated to MaxErrorMessage
	// After is the time in ms until the next run, with [CodeWaiting], and with
	// [CodeRetry] instead of the backoff. The host raises it to 100; 0 leaves it to
	// the host.
	After int64
	// Terminal ends the run as [CodeStalled] does, whatever the code is.
	Terminal bool
}

// Condition is one entry of status.conditions, with the fields and the JSON
// form of metav1.Condition.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // True, False or Unknown; in a result "" removes the condition
	Reason  string `json:"reason"` // CamelCase
	Message string `json:"message"`

	// Only a condition that was read from an object has this and the following field.
	// The host writes them; they are not part of a result.
	LastTransitionTime Time  `json:"lastTransitionTime,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Values of [Condition.Status].
const (
	ConditionTrue    = "True"
	ConditionFalse   = "False"
	ConditionUnknown = "Unknown"
)

// Time is a time in the text form that Kubernetes objects have: RFC 3339, UTC,
// "" for none. It keeps the bytes that the API server sent, so that an object
// that was read and is written back has not changed.
type Time string

// TimeOf returns t truncated to seconds, as in metav1.Time, and "" for the zero
// time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.UTC().Format(time.RFC3339))
}

// Time returns the parsed time. It is zero if t is empty or malformed.
func (t Time) Time() time.Time {
	parsed, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return parsed
}

// Apply requests an object by server-side apply or, with Create, by POST.
type Apply struct {
	Object  []byte // apiVersion, kind, metadata.name and the fields to apply
	Adopt   bool   // take over an existing object that has no controller
	Create  bool   // only create the object: fail if another one has its name
	Replace bool   // if a field cannot be changed, delete the object and create it anew
	Group   string // of the intents that it belongs to, see [Group]; "" for none
}

// Event is a Kubernetes Event about the primary.
type Event struct {
	Type    string // EventNormal or EventWarning
	Reason  string // CamelCase
	Message string
	Group   string // of the intents that it tells of, see [Group]; "" for none
}

// Values of [Event.Type].
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)
