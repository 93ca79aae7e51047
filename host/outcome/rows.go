package outcome

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// Condition types and reasons of kstatus that the host sets itself.
const (
	Ready       = "Ready"
	Reconciling = "Reconciling"
	Stalled     = "Stalled"

	ReasonSucceeded            = "Succeeded"
	ReasonProgressing          = "Progressing"
	ReasonProgressingWithRetry = "ProgressingWithRetry"
	ReasonWaiting              = "Waiting"      // a waiting that the guest gave no reason for
	ReasonUndetermined         = "Undetermined" // of a target about which nobody has said anything
)

// verdict is a row of the result table.
type verdict int

const (
	success verdict = iota
	requeue
	empty
	retry // also every failure of the host, and of the guest against its limits
	stalled
	waiting
)

// mark is what happens to one of the host's conditions.
type mark int

const (
	removed  mark = iota
	set           // True
	asGuest       // True only if the guest set it
	setGuest      // True, in the guest's words if it used any
)

// row is what the result table says about one verdict. The target condition
// is not in it: see the package comment.
type row struct {
	reconciling mark
	reason      string // of Reconciling; "" the failure's
	stalled     mark
	observed    bool // observedGeneration is written
	metric      Metric
	next        func(Input, run) Next
}

// table is the design's result table.
var table = map[verdict]row{
	success: {reconciling: removed, stalled: removed, observed: true, metric: MetricSuccess, next: wanted},
	requeue: {reconciling: setGuest, reason: ReasonProgressing, stalled: removed, metric: MetricRequeue, next: backoff},
	empty:   {reconciling: asGuest, stalled: removed, observed: true, metric: MetricSuccess, next: awaitChange},
	retry:   {reconciling: set, reason: ReasonProgressingWithRetry, stalled: removed, metric: MetricError, next: backoff},
	stalled: {reconciling: removed, stalled: set, observed: true, metric: MetricError, next: awaitChange},
	waiting: {reconciling: set, stalled: removed, metric: MetricRequeueAfter, next: after},
}

func awaitChange(Input, run) Next { return Next{} }

// wanted is the next run after success: what the guest asked for, else the
// controller's interval. An object that was cleaned up is not ours any more.
func wanted(in Input, _ run) Next {
	if in.Object.Deleting {
		return Next{}
	}
	for _, ms := range []int64{in.Result.RequeueAfter, in.Controller.Interval} {
		if ms > 0 {
			return Next{Kind: After, After: milliseconds(ms), Reason: abi.ReasonRequeue}
		}
	}
	return Next{}
}

// defaultWait is for a guest that waits without saying how long. What it
// waits for normally wakes it by an edge, so this is only the fallback for
// what the host cannot watch: short enough for somebody who looks on, and a
// thousand waiting objects cost 33 runs per second.
const defaultWait = 30 * time.Second

func after(_ Input, r run) Next {
	next := Next{Kind: After, After: defaultWait, Reason: abi.ReasonRequeue}
	if r.failure.after > 0 {
		next.After = milliseconds(r.failure.after)
	}
	return next
}

func backoff(in Input, r run) Next {
	reason := abi.ReasonRetry
	if r.verdict == requeue {
		reason = abi.ReasonRequeue
	}
	tries := min(max(in.Tries.Attempt, 0), saturated) + min(max(in.Tries.Requeues, 0), saturated)
	yields := r.failure != nil && PluginFault(r.failure.class)
	return Next{Kind: Backoff, After: Delay(tries, in.Jitter), Reason: reason, Yields: yields}
}

// Bounds of the backoff.
const (
	MinDelay = 500 * time.Millisecond
	MaxDelay = 15 * time.Minute

	spread    = 0.2 // jitter takes up to this share off
	saturated = 11  // MinDelay doubled so often exceeds MaxDelay
)

// Delay returns the backoff before the next run of a key that was tried
// before: [MinDelay] doubling to [MaxDelay] for any number of tries, less up
// to a fifth by jitter in [0,1). Taking less than half keeps it monotone: each
// delay is longer than every one that the step before could have had, until
// it saturates.
func Delay(tries int, jitter float64) time.Duration {
	d := min(MinDelay<<min(max(tries, 0), saturated), MaxDelay)
	return d - time.Duration(spread*min(max(jitter, 0), 1)*float64(d))
}

// milliseconds converts a duration of the ABI; what does not fit becomes the
// longest duration.
func milliseconds(ms int64) time.Duration {
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, longest)) * time.Millisecond
}
