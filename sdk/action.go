package sdk

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// Action says when a run that went well comes again. The zero Action is
// [AwaitChange].
type Action struct {
	outcome abi.Outcome
	after   time.Duration
}

// AwaitChange is the end of a run that reached the wanted state: the next one
// comes with a change of the object, of one that it owns, or of anything that
// this run read; else after the controller's Interval, if it has one.
func AwaitChange() Action { return Action{} }

// RequeueAfter is [AwaitChange], but comes again after d at the latest. The
// wanted state is reached: to wait for it, return [Waiting]. A d of zero or
// less is no time.
func RequeueAfter(d time.Duration) Action { return Action{after: d} }

// Requeue says that the run went well and the wanted state is not reached
// yet: come again soon, and less soon each time.
func Requeue() Action { return Action{outcome: abi.OutcomeRequeue} }

// Empty says that there is nothing to say: the object stays as ready as it
// was, and the next run comes with a change.
func Empty() Action { return Action{outcome: abi.OutcomeEmpty} }

func (a Action) write(out *abi.Result) {
	out.Result = a.outcome
	if a.outcome == "" {
		out.Result = abi.OutcomeSuccess
	}
	out.RequeueAfter = milliseconds(a.after)
}

// milliseconds rounds up, so that no positive duration becomes none.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
