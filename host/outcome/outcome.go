package outcome

import (
	"math"
	"time"

	"github.com/thole-dev/thole/abi"
)

// Input is everything that a decision depends on. How the run ended is the
// first of Effect, Fault, and Code with Result that is set.
type Input struct {
	Code   abi.Code
	Result *abi.Result // what the guest returned; nil when Fault is set
	// Fault is why there is no result that could be used.
	Fault *Fault
	// Effect is the first effect of this result that failed: the outcome is
	// decided again with it.
	Effect *abi.EffectFailure
	// Uncounted says that Fault or Effect is nobody's failure: a conflict
	// with a newer version of an object (409), or a read before its informer
	// had synced. The run is repeated, costs no attempt and leaves the
	// object's status alone.
	Uncounted bool

	Tries      Tries           // before this run
	Controller *abi.Controller // its Conditions and Interval are read
	Object     Object          // as the guest was given it
	Jitter     float64         // in [0,1); spreads backoff
	Now        time.Time
}

// Object is what a decision needs to know of the primary.
type Object struct {
	Generation int64
	Conditions []Condition // all of status.conditions, other writers' too
	Deleting   bool
}

// Condition is one entry of status.conditions (metav1.Condition).
type Condition struct {
	Type               string
	Status             string // True, False, Unknown
	Reason             string
	Message            string
	LastTransitionTime time.Time // UTC, whole seconds
	ObservedGeneration int64
}

// Fault is a failure of guest or host before there was a result.
type Fault struct {
	Class   abi.Class // none means retry: the host could not do its part
	Reason  string    // CamelCase; empty: by class
	Message string    // for people: what failed and what to do
}

// Tries counts a key's runs since its last success or reset.
type Tries struct {
	Attempt  int // ended in retry or host failure; told to the guest
	Requeues int // ended in requeue: no failures, but they grow the backoff too
}

// Decision is what a run leads to.
type Decision struct {
	Class  abi.Class // none unless the run failed
	Metric Metric
	Next   Next
	Tries  Tries // after this run

	// Reason and Message tell the failure; empty unless the run failed.
	Reason  string
	Message string
	Event   *abi.Event // about the failure; nil: none

	// Set holds every condition that this run asserts, in final form; one
	// that stands on the object like this already keeps its
	// lastTransitionTime, so that writing it again changes nothing.
	Set    []Condition
	Remove []string // types of conditions that must not be there
	// ObservedGeneration is for status.observedGeneration; nil leaves it.
	ObservedGeneration *int64

	Intents         bool // the result's patch, apply, delete and events are performed
	GuestStatus     bool // the result's status patch is written
	KeepMemo        bool // the result's memo replaces the object's; else that one stays
	RemoveFinalizer bool // cleanup succeeded: remove it, after everything else
}

// Metric is the label "result" of controller_runtime_reconcile_total.
type Metric string

// The values that controller-runtime has.
const (
	MetricSuccess      Metric = "success"
	MetricRequeue      Metric = "requeue"
	MetricRequeueAfter Metric = "requeue_after"
	MetricError        Metric = "error"
)

// Metrics lists every Metric, for series that exist at zero.
func Metrics() []Metric {
	return []Metric{MetricSuccess, MetricRequeue, MetricRequeueAfter, MetricError}
}

// Kind says what a key waits for.
type Kind int

// The kinds of waiting.
const (
	AwaitChange Kind = iota // nothing timed: only a trigger
	After                   // a time that was asked for
	Backoff                 // a time that grows with the tries; a resync does not shorten it
)

// Next is when the key runs again without a trigger.
type Next struct {
	Kind   Kind
	After  time.Duration // positive unless Kind is AwaitChange
	Reason abi.Reason    // what that run is told: requeue or retry
	// Yields says that others go first when the time has come: the plugin
	// itself failed, and may do so again.
	Yields bool
}

// PluginFault says whether a class means that the plugin itself failed: not
// the host, the API server, or the world that it found.
func PluginFault(class abi.Class) bool {
	switch class {
	case abi.ClassPanic, abi.ClassTimeout, abi.ClassOutOfMemory, abi.ClassStackOverflow, abi.ClassABI:
		return true
	case abi.ClassNone, abi.ClassRetry, abi.ClassStalled, abi.ClassWaiting, abi.ClassDenied:
	}
	return false
}

// Decide returns what a run leads to. It depends on nothing but in, and never
// changes what in refers to.
func Decide(in Input) Decision {
	r := judge(in)
	if in.Uncounted && r.failure != nil {
		return again(in, r)
	}
	row := table[r.verdict]
	d := Decision{
		Metric: row.metric,
		Next:   row.next(in, r),
		Tries:  in.Tries.after(r.verdict),

		Intents:         r.returned,
		GuestStatus:     r.returned,
		KeepMemo:        r.returned || in.Effect != nil && in.Result != nil,
		RemoveFinalizer: in.Object.Deleting && r.verdict == success,
	}
	if d.Next.Kind == After {
		d.Metric = MetricRequeueAfter
	}
	d.tell(r)
	d.conditions(in, r, row)
	return d
}

// again repeats a run that was nobody's failure. The delay does not grow, as
// nothing speaks against the next run, and the conditions stay as they are:
// they would only flicker.
func again(in Input, r run) Decision {
	return Decision{
		Class: r.failure.class, Reason: r.failure.reason, Message: r.failure.message,
		Metric:   MetricRequeue,
		Next:     Next{Kind: Backoff, After: Delay(0, in.Jitter), Reason: abi.ReasonRetry},
		Tries:    in.Tries,
		KeepMemo: in.Effect != nil && in.Result != nil,
	}
}

// tell fills in what people are told about a failure.
func (d *Decision) tell(r run) {
	if r.failure == nil {
		return
	}
	d.Class, d.Reason, d.Message = r.failure.class, r.failure.reason, r.failure.message
	d.Event = &abi.Event{Type: abi.EventWarning, Reason: d.Reason, Message: truncate(d.Message, maxEventMessage)}
	if r.verdict == waiting {
		d.Event.Type = abi.EventNormal
	}
}

// after returns the tries after a run that ended in v.
func (t Tries) after(v verdict) Tries {
	switch v {
	case success:
		return Tries{}
	case requeue:
		t.Requeues = increment(t.Requeues)
	case retry:
		t.Attempt = increment(t.Attempt)
	case empty, stalled, waiting: // neither a success nor a try that failed
	}
	return t
}

func increment(n int) int {
	if n == math.MaxInt {
		return n
	}
	return max(n, 0) + 1
}
