package outcome

import (
	"math"
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
	return Next{Kind: Backoff, After: Delay(tries, in.Jitter), Reason: reason, Yields: yields, Outage: e.outage}
}

// Tries counts runs of a key since the last end that was no failure, or reset.
type Tries struct {
	Attempt  int // ended in retry or in a failure; the request's attempt
	Requeues int // ended in requeue: not failures, but they increase the backoff too
	// Conflicts is how many runs in a row, up to the last one, ended in a
	// conflict. Those before the fifth are no attempts: each is a race with
	// another writer, which the next run decides. From the fifth on they count,
	// and are told, as other failures are.
	Conflicts int
	// Blameless is how many of Attempt say nothing about the plugin and the
	// object: outages of the API server, failures of the host, conflicts. They
	// increase the backoff, but do not use up the attempts that the controller
	// grants.
	Blameless int
}

// persistentConflicts is how many conflicts in a row are no race any more. A
// run after a conflict is given the newer object, so that five in a row need a
// writer that is faster than the runs, or a cache that does not follow.
const persistentConflicts = 5

// conflictsPersist reports whether one more conflict is no race any more.
func (t Tries) conflictsPersist() bool { return t.Conflicts >= persistentConflicts-1 }

// Reset returns the tries of a key that somebody has changed or requested. The
// conflicts in a row are kept: the change may be what the next one is with.
func (t Tries) Reset() Tries { return Tries{Conflicts: t.Conflicts} }

// WithoutBlameless returns the tries without those that say nothing about the
// plugin and the object.
func (t Tries) WithoutBlameless() Tries {
	t.Attempt, t.Blameless = max(t.Attempt-t.Blameless, 0), 0
	return t
}

// after returns the tries after a run that was counted. Success, empty, stalled
// and waiting are decisions of the guest and clear them. A requeue is no failure
// either, but counts for its own backoff: a guest that returns it in every run
// would run twice a second for ever.
func (t Tries) after(e ending) Tries {
	switch e.outcome {
	case requeue:
		return Tries{Requeues: increment(t.Requeues)}
	case retry:
		t.Attempt = increment(t.Attempt)
		if e.blameless {
			t.Blameless = increment(t.Blameless)
		}
		if t.Conflicts = increment(t.Conflicts); !e.conflict {
			t.Conflicts = 0
		}
		return t
	default:
		return Tries{}
	}
}

// increment adds one to a counter, which stays at the largest int.
func increment(n int) int { return min(max(n, 0), math.MaxInt-1) + 1 }
