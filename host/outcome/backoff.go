package outcome

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// Bounds of the backoff.
const (
	MinDelay = 500 * time.Millisecond
	MaxDelay = 15 * time.Minute

	spread    = 0.2 // the share of a delay that jitter takes off at most
	saturated = 11  // MinDelay doubled this many times exceeds MaxDelay
)

// Delay returns the backoff before the next run of a key after so many tries:
// [MinDelay] doubling up to [MaxDelay] for any number of tries, less up to a
// fifth by jitter in [0,1). Because jitter takes off less than half, each
// delay is longer than every possible delay of the step before, until the
// delays saturate.
func Delay(tries int, jitter float64) time.Duration {
	d := min(MinDelay<<min(max(tries, 0), saturated), MaxDelay)
	return d - time.Duration(spread*min(max(jitter, 0), 1)*float64(d))
}

// backoff returns a delay that grows with failed tries and with requeues. A
// plugin that failed itself yields to the other keys, which may still succeed.
func backoff(in Input, e ending) Next {
	reason := abi.ReasonRetry
	if e.outcome == requeue {
		reason = abi.ReasonRequeue
	}
	tries := min(max(in.Tries.Attempt, 0), saturated) + min(max(in.Tries.Requeues, 0), saturated)
	yields := e.failure != nil && PluginFault(e.failure.class)
	return Next{Kind: Backoff, After: Delay(tries, in.Jitter), Reason: reason, Yields: yields}
}
