// Package outcome decides what a run leads to. [Decide] turns how the run
// ended, the attempts before it and the object that the guest was given into
// the next run, the conditions, observedGeneration, the Event and the metric.
// It does no I/O and reads no clock; everything else calls it.
//
// It follows the result table of the design ("Results"), which is in this file,
// and the document flux-result-computation, which takes precedence over Flux's
// library. classify.go classifies how a run ended, groups.go what a failure of a
// group of intents leads to, next.go computes when the next run follows
// and counts tries, conditions.go and summary.go compute the conditions.
//
// # Who decides the target condition
//
// The target condition (Ready unless the manifest names another) is the first
// of these that applies:
//
//  1. False with the failure's reason and message, when the run failed and
//     Stalled or Reconciling decides the summary. A declared condition that is
//     True with negative polarity is more specific and takes precedence;
//  2. the summary of the declared conditions, when it is False: a guest cannot
//     claim Ready against a condition of its own;
//  3. what the guest set for it, as far as the outcome allows: any status with
//     success or empty, only False while Reconciling is True;
//  4. the summary;
//  5. True with reason Succeeded on success, else unchanged. If it is unchanged
//     but absent it becomes Unknown, because kstatus takes an object without
//     Ready for current.
//
// The summary is computed as Flux does: a condition that is True with negative
// polarity decides; else one that is False with positive polarity; else one
// that is True with positive polarity, then False with negative polarity; else
// Unknown. Among equals the first in the order of the manifest decides.
// Stalled and Reconciling are always part of the summary, with negative
// polarity, after the declared conditions.
//
// # Whose conditions are written
//
// Only those of the controller are written: its target, Stalled, Reconciling
// and what its manifest lists as owned. A result that names another condition
// violates the contract. When observedGeneration is written, every owned
// condition on the object gets that generation too: the run has seen the
// condition and kept it.
//
// A controller with a target other than Ready shares its kind with the
// controller that targets Ready. Stalled, Reconciling and observedGeneration
// belong to the latter; they are part of the former's summary, but are not
// written by it.
package outcome

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sanitize"
)

// Input is everything that a decision depends on. How the run ended is the
// first of Effect, Groups, Fault, and Code with Result that is set.
type Input struct {
	Code   abi.Code
	Result *abi.Result // what the guest returned; nil when Fault is set
	// Fault is set when the run has no result that can be used.
	Fault *Fault
	// Effect is the first effect of this result that failed. The run is then
	// decided a second time, as a failure.
	Effect *abi.EffectFailure
	// Groups are the failures of groups of intents, one for each that failed. The other
	// effects were performed. Unless Effect is set, the run is decided a second time as a
	// failure, the first of these, and the rest of the result is honoured.
	Groups []GroupFailure
	// Conflict means that Effect met a newer version of an object than the run
	// was given (409). A single one is a race that the next run decides; see
	// [Tries].
	Conflict bool
	// Outage means that Effect failed because the API server could not be
	// reached or was overloaded.
	Outage bool
	// Full means that Effect failed because a limit of bytes of the plugin is
	// reached, whatever the object is.
	Full bool
	// Uncounted means that the run did not take place: Fault is a read before
	// its informer had synced, or that the revision was replaced, or another
	// replica of the host may lead the plugin. The run is repeated without counting an attempt, and the status of the object stays
	// as it is.
	Uncounted bool

	Tries      Tries           // before this run
	Controller *abi.Controller // its Conditions, Interval and Retry are read
	Object     Object          // as the guest was given it
	Jitter     float64         // in [0,1); spreads the backoff
	Now        time.Time
}

// GroupFailure is the failure of a group of intents.
type GroupFailure struct {
	abi.EffectFailure
	Conflict, Full bool // as those of [Input]
}

// Object holds what a decision depends on of the primary.
type Object struct {
	Generation int64
	Conditions []abi.Condition // all of status.conditions, also those of other writers
	Deleting   bool
	// Unheld means that it is being deleted and has no finalizer of the controller, which
	// asks for runs nevertheless.
	Unheld bool
}

// Fault is a failure of the guest or of the host before there was a result.
type Fault struct {
	Class   abi.Class // none means retry: the host could not do its part
	Reason  string    // CamelCase; by default that of the class
	Message string    // what failed and what to do, for the user
}

// Decision is what a run leads to.
type Decision struct {
	Class  abi.Class // none unless the run failed
	Metric Metric
	Next   Next
	Tries  Tries // after this run
	// Uncounted means that the run is repeated as if it had not taken place. It
	// is no attempt, and nothing is told.
	Uncounted bool

	// Reason and Message describe the failure; empty unless the run failed.
	Reason  string
	Message string
	Event   *abi.Event // about the failure; nil for none

	// Set holds every condition that this run asserts, in its final form. A
	// condition that is on the object with the same status keeps its
	// lastTransitionTime, so that writing it again changes nothing.
	Set    []abi.Condition
	Remove []string // types of conditions to remove
	// ObservedGeneration is the value for status.observedGeneration; nil
	// leaves the field as it is.
	ObservedGeneration *int64

	Intents         bool // the result's patch, apply, delete and events are to be performed
	GuestStatus     bool // the result's status patch is written
	KeepMemo        bool // the result's memo replaces the key's, which otherwise stays
	RemoveFinalizer bool // the cleanup succeeded: remove the finalizer as the last effect
}

// Terminal reports whether the run failed and only a trigger starts the next one.
func (d Decision) Terminal() bool { return d.Metric == MetricError && d.Next.Kind == AwaitChange }

// Metric is the label "result" of controller_runtime_reconcile_total.
type Metric string

// The values that controller-runtime has.
const (
	MetricSuccess      Metric = "success"
	MetricRequeue      Metric = "requeue"
	MetricRequeueAfter Metric = "requeue_after"
	MetricError        Metric = "error"
)

// Metrics lists every Metric, so that each series can be created at zero.
func Metrics() []Metric {
	return []Metric{MetricSuccess, MetricRequeue, MetricRequeueAfter, MetricError}
}

// outcome is a row of the result table. An outcome that is not known is
// retried, therefore retry is the zero value.
type outcome int

const (
	retry outcome = iota // also every failure of the host, and of the guest against its limits
	success
	requeue
	empty
	stalled
	waiting
)

// rule is what happens to a condition that the host sets: Reconciling or
// Stalled.
type rule int

const (
	removed        rule = iota
	set                 // True, with the host's reason and message
	setUnlessGuest      // True, with the guest's reason and message if it set the condition
	onlyIfGuest         // as the guest set it, in this run or an earlier one
)

// readyRule is what the target condition becomes when the guest set no status
// for it that can stand. The package comment describes the whole order.
type readyRule int

const (
	summaryIsFalse       readyRule = iota // Reconciling or Stalled is True, which is part of the summary
	summaryElseSucceeded                  // without a summary True, with reason Succeeded
	summaryElseUnchanged                  // without a summary as it is on the object
)

// row is what the result table prescribes for one outcome.
type row struct {
	reconciling rule
	reason      string // of Reconciling; "" for the failure's
	stalled     rule
	ready       readyRule
	observed    bool // observedGeneration is written
	next        func(Input, ending) Next
	metric      Metric
}

// table is the result table of the design, with its columns in the same order.
var table = map[outcome]row{
	//       Reconciling, its reason, Stalled, Ready, observedGeneration, next run, metric
	success: {removed, "", removed, summaryElseSucceeded, true, afterSuccess, MetricSuccess},
	requeue: {setUnlessGuest, ReasonProgressing, removed, summaryIsFalse, false, backoff, MetricRequeue},
	empty:   {onlyIfGuest, "", removed, summaryElseUnchanged, true, awaitChange, MetricSuccess},
	retry:   {set, ReasonProgressingWithRetry, removed, summaryIsFalse, false, backoff, MetricError},
	stalled: {removed, "", set, summaryIsFalse, true, awaitChange, MetricError},
	waiting: {set, "", removed, summaryIsFalse, false, afterWaiting, MetricRequeueAfter},
}

// Decide returns what a run leads to. The decision depends on nothing but in,
// and nothing that in refers to is changed.
func Decide(in Input) Decision {
	e := classify(in)
	if e.failure != nil && (in.Uncounted || e.conflict && !in.Tries.conflictsPersist()) {
		return repeat(in, e)
	}
	e = exhaust(in, e)
	row := table[e.outcome]
	d := Decision{
		Metric: row.metric,
		Next:   row.next(in, e),
		Tries:  in.Tries.after(e),

		Intents:         e.honoured && len(in.Groups) == 0,
		GuestStatus:     e.honoured,
		KeepMemo:        e.honoured || in.Effect != nil && in.Result != nil,
		RemoveFinalizer: in.Object.Deleting && !in.Object.Unheld && e.outcome == success,
	}
	if d.Next.Kind == After {
		d.Metric = MetricRequeueAfter
	}
	if e.failure != nil {
		d.describe(e)
	}
	if in.Controller.StatusOwner != abi.StatusOwnerGuest {
		d.conditions(in, e, row)
	}
	return d
}

// repeat decides a run that is not counted. The delay does not grow, because
// nothing suggests that the next run fails too. The conditions stay as they
// are: they would be changed for a moment only.
func repeat(in Input, e ending) Decision {
	tries := in.Tries
	if e.conflict {
		tries.Conflicts = increment(tries.Conflicts)
	}
	return Decision{
		Class: e.failure.class, Reason: e.failure.reason, Message: e.failure.message,
		Metric:    MetricRequeue,
		Next:      Retry(Delay(abi.Retry{}, 0, in.Jitter), false),
		Tries:     tries,
		Uncounted: true,
		KeepMemo:  (in.Effect != nil || len(in.Groups) > 0) && in.Result != nil,

		GuestStatus: e.conflict && e.honoured && !in.Uncounted, // the conflict was one of a group
	}
}

// maxEventMessage is the limit of the field note of events.k8s.io/v1, in bytes.
const maxEventMessage = 1024

// describe fills in what users read about a failure. Waiting for something is
// no reason for a warning.
func (d *Decision) describe(e ending) {
	d.Class, d.Reason, d.Message = e.failure.class, e.failure.reason, e.failure.message
	d.Event = &abi.Event{Type: abi.EventWarning, Reason: d.Reason, Message: sanitize.TruncateMiddle(d.Message, maxEventMessage)}
	if e.outcome == waiting {
		d.Event.Type = abi.EventNormal
	}
}

// EndedWell reports whether the run returned success or empty, and all that it asked for was
// done.
func (d *Decision) EndedWell() bool { return d.Class == abi.ClassNone && d.Next.Kind != Backoff }

// IsStalled reports whether the run has failed, and only a change leads to another one.
func (d *Decision) IsStalled() bool { return d.Class != abi.ClassNone && d.Next.Kind == AwaitChange }
