package sdk

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// Processor is called after Reconcile or Cleanup with what that returned, and
// returns with what the run ends: the same, or something else. It may also emit
// events, set conditions, change the status, and log. action is meaningful only if
// err is nil; see [Action.Outcome], [IsStalled] and [IsWaiting].
//
// The host itself turns a failure into conditions, an Event and a log line, and
// copies the annotation reconcile.thole.dev/requestedAt to
// status.lastHandledReconcileAt. Processors are for what a plugin adds to that in
// every run, in one place.
type Processor[Spec, Status Value] func(r *Request[Spec, Status], action Action, err error) (Action, error)

// process calls the processors, and then IntervalOf for a run that has reached the
// desired state and named no time. A run of which something could not be encoded ends
// as stalled, and that is what the later processors see.
func (c *Controller[Spec, Status]) process(r *Request[Spec, Status], action Action, err error) (Action, error) {
	for _, p := range c.Processors {
		if r.invalid != nil {
			err = r.invalid
		}
		action, err = p(r, action, err)
	}
	if c.IntervalOf != nil && err == nil && action == AwaitChange() && !r.Deleting() {
		if interval := c.IntervalOf(r); interval > 0 {
			action = RequeueAfter(interval)
		}
	}
	return action, err
}

// Outcome is how a run without an error ended.
type Outcome = abi.Outcome

// Values of [Action.Outcome].
const (
	OutcomeSuccess Outcome = abi.OutcomeSuccess // AwaitChange, RequeueAfter
	OutcomeRequeue Outcome = abi.OutcomeRequeue // Requeue
	OutcomeEmpty   Outcome = abi.OutcomeEmpty   // Empty
)

// Outcome returns how the run ends, if it has no error.
func (a Action) Outcome() Outcome {
	if a.outcome == "" {
		return OutcomeSuccess
	}
	return a.outcome
}

// After returns the time until the next run that [RequeueAfter] asks for, and 0 otherwise.
func (a Action) After() time.Duration { return a.after }

// IsStalled reports whether a run that ends with err is stalled: see [Stalled].
func IsStalled(err error) bool { return endsWith(err, abi.CodeStalled) }

// IsWaiting reports whether a run that ends with err is waiting: see [Waiting].
func IsWaiting(err error) bool { return endsWith(err, abi.CodeWaiting) }

func endsWith(err error, code abi.Code) bool {
	if err == nil {
		return false
	}
	is, _ := failureOf(err)
	return is == code
}
