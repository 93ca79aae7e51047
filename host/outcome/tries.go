package outcome

import "math"

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
	// object: outages of the API server, failures of the host, conflicts, limits
	// of bytes that the plugin has reached. They
	// increase the backoff, but do not use up the attempts that the controller
	// grants.
	Blameless int
}

// persistentConflicts is how many conflicts in a row are no race any more. A
// run after a conflict is given the newer object, so that five in a row need a
// writer that is faster than the runs, or a cache that does not follow.
const persistentConflicts = 5

// sum returns the number of tries that the backoff grows with. It is bounded, so
// that it does not overflow.
func (t Tries) sum() int {
	const bound = math.MaxInt32
	return min(max(t.Attempt, 0), bound/2) + min(max(t.Requeues, 0), bound/2)
}

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
// and waiting are decisions of the guest and clear them. That the attempts are
// used up is none: the next run is again the last one, until somebody changes the
// object. A requeue is no failure either, but counts for its own backoff: a guest
// that returns it in every run would run twice a second for ever.
func (t Tries) after(e ending) Tries {
	switch {
	case e.outcome == requeue:
		return Tries{Requeues: increment(t.Requeues)}
	case e.outcome == retry || e.exhausted:
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
