package outcome

import (
	"math"
	"time"

	"github.com/thole-dev/thole/abi"
)

// This file holds the result table and when the next run follows.

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

// awaitChange returns no time: only a trigger starts the next run.
func awaitChange(Input, ending) Next { return Next{} }

// IntervalJitter is the share of a controller's interval that is added at most,
// so that objects that were created together do not run together for ever.
const IntervalJitter = 0.05

// afterSuccess returns the run that the guest asked for, at the time that it
// named, else that of the controller's interval. An object whose cleanup
// succeeded is not reconciled any more, and one that nothing but others hold has no
// interval: the guest is done unless it asks for a run.
func afterSuccess(in Input, _ ending) Next {
	next := Next{Kind: After, Reason: abi.ReasonRequeue}
	switch {
	case in.Object.Deleting && !in.Object.Unheld:
		return Next{}
	case in.Result.RequeueAfter > 0:
		next.After = Asked(in.Result.RequeueAfter)
	case in.Controller.Interval > 0 && !in.Object.Deleting:
		next.After = AddJitter(Asked(in.Controller.Interval), IntervalJitter, in.Jitter)
	default:
		return Next{}
	}
	return next
}

// defaultWait is for a guest that returns waiting without a duration. A change
// of what it read starts a run at once, so this is only the fallback for what
// the host cannot watch: short enough for a user who watches the object, and
// a thousand waiting objects cost 33 runs per second.
const defaultWait = 30 * time.Second

// afterWaiting returns the duration that the guest gave, else defaultWait, or what the guest asked for
// beside groups that wait, if that is earlier.
func afterWaiting(in Input, e ending) Next {
	next := Next{Kind: After, After: defaultWait, Reason: abi.ReasonRequeue}
	if e.failure.after > 0 {
		next.After = Asked(e.failure.after)
	}
	if after := askedBesideGroups(in, e); after > 0 {
		next.After = min(next.After, after)
	}
	return next
}

// Asked returns a time that the guest asked for, which is never shorter than
// shortest.
func Asked(ms int64) time.Duration { return max(milliseconds(ms), shortest) }

// milliseconds converts a duration of the ABI. One that does not fit becomes
// the longest duration.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
