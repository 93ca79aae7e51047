package outcome

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file has when a key runs again without a trigger: what it may wait for, and what a run leads to by its outcome.

// Kind is what a key waits for.
type Kind int

// The kinds of waiting.
const (
	AwaitChange Kind = iota // only a trigger starts the next run
	After                   // a duration that was asked for
	Backoff                 // a duration that grows with the tries; a resync does not shorten it
)

// Next is when the key runs again without a trigger. The zero value is never.
type Next struct {
	Kind   Kind
	After  time.Duration // positive unless Kind is AwaitChange
	Reason abi.Reason    // the reason in that run's request: requeue or retry
	// Yields means that all other keys go first once the key is due: the plugin
	// itself failed, and may fail again.
	Yields bool
	// Outage means that the wait has nothing to do with the object: it ends
	// early when the API server is back.
	Outage bool
	// Latest is when the key runs again at the latest, whatever Kind is; 0: there is no such time. It does not
	// come from the result of the run, but from a capability.
	Latest time.Duration
}

// Soonest returns the time until the object is reconciled without a trigger, 0 for never.
func (n Next) Soonest() time.Duration {
	if n.Latest > 0 && (n.Kind == AwaitChange || n.Latest < n.After) {
		return n.Latest
	}
	return n.After
}

// Requeue returns a run after a duration that was asked for.
func Requeue(after time.Duration) Next {
	return Next{Kind: After, After: after, Reason: abi.ReasonRequeue}
}

// Resume returns the continuation of a run whose effects are postponed. It is no failure.
func Resume(after time.Duration) Next {
	return Next{Kind: After, After: after, Reason: abi.ReasonRetry}
}

// Turn returns the next call of the guest beside the runs of objects, none for 0.
func Turn(after time.Duration) Next {
	if after == 0 {
		return Next{}
	}
	return Next{Kind: After, After: max(after, 1), Reason: abi.ReasonTimer}
}

// Retry returns a run after a failure, which comes earlier if the API server caused it and is back.
func Retry(after time.Duration, outage bool) Next {
	return Next{Kind: Backoff, After: after, Reason: abi.ReasonRetry, Outage: outage}
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
	switch {
	case in.Object.Deleting && !in.Object.Unheld:
		return Next{}
	case in.Result.RequeueAfter > 0:
		return Requeue(Asked(in.Result.RequeueAfter))
	case in.Controller.Interval > 0 && !in.Object.Deleting:
		return Requeue(AddJitter(Asked(in.Controller.Interval), IntervalJitter, in.Jitter))
	default:
		return Next{}
	}
}

// defaultWait is for a guest that returns waiting without a duration. A change
// of what it read starts a run at once, so this is only the fallback for what
// the host cannot watch: short enough for a user who watches the object, and
// a thousand waiting objects cost 33 runs per second.
const defaultWait = 30 * time.Second

// afterWaiting returns the duration that the guest gave, else defaultWait, or what the guest asked for
// beside groups that wait, if that is earlier.
func afterWaiting(in Input, e ending) Next {
	next := Requeue(defaultWait)
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

// backoff returns a delay that grows with failed tries and with requeues, unless
// the guest asked for another, or for an earlier run beside groups that failed. A
// plugin that failed itself yields to the other keys, which may still succeed.
func backoff(in Input, e ending) Next {
	next := Retry(0, e.outage)
	if e.outcome == requeue {
		next.Reason = abi.ReasonRequeue
	}
	next.Yields = e.failure != nil && PluginFault(e.failure.class)
	policy := in.Controller.Retry
	switch {
	case e.exhausted:
		next.After = shorten(policy, longest(policy), in.Jitter)
	case e.failure != nil && e.failure.after > 0:
		next.After = Asked(e.failure.after)
	default:
		next.After = Delay(policy, in.Tries.sum(), in.Jitter)
		if e.outage {
			next.After = min(next.After, shorten(policy, max(first(policy), MaxOutageDelay), in.Jitter))
		}
	}
	if after := askedBesideGroups(in, e); after > 0 && after < next.After {
		next.After, next.Reason = after, abi.ReasonRequeue
	}
	return next
}

// askedBesideGroups returns the time that a result asked for which succeeded but for groups of its intents, 0 if
// it asked for none. The backoff is for what has failed; what did succeed has a time of its own.
func askedBesideGroups(in Input, e ending) time.Duration {
	if !e.honoured || in.Code != abi.CodeOK || in.Result.Result != abi.OutcomeSuccess || in.Result.RequeueAfter <= 0 {
		return 0
	}
	return Asked(in.Result.RequeueAfter)
}

// exhaust returns the ending of a run that used up the attempts that the
// controller grants.
func exhaust(in Input, e ending) ending {
	policy := in.Controller.Retry
	used := max(in.Tries.Attempt, 0) - max(in.Tries.Blameless, 0)
	if e.outcome != retry || e.blameless || policy.Attempts == 0 || used < policy.Attempts-1 {
		return e
	}
	e.exhausted = true
	if policy.Then != abi.ThenCap {
		e.outcome = stalled
		given := *e.failure
		given.message = sanitize.Truncate(fmt.Sprintf("%s (not tried again after %d attempts)", given.message, policy.Attempts), maxMessage)
		e.failure = &given
	}
	return e
}

// The backoff of a controller that asks for no other.
const (
	MinDelay = 500 * time.Millisecond
	MaxDelay = 15 * time.Minute
	// MaxOutageDelay is that of failures which the API server caused, or the first
	// delay of the controller if that is longer.
	MaxOutageDelay = time.Minute

	defaultFactor = 200 // percent
	defaultJitter = 20  // percent
)

// shortest is the shortest time until the next run that a guest gets, however it
// asks for it. Ten runs a second of one object are as many as a status that
// changes can be read.
const shortest = 100 * time.Millisecond

// Delay returns the backoff before the next run of a key after so many tries: by
// default [MinDelay] doubling up to [MaxDelay], less up to a fifth by jitter in
// [0,1). It saturates for any number of tries. Because the default jitter takes
// off less than half, each default delay is longer than every possible delay of
// the step before, until the delays saturate.
func Delay(r abi.Retry, tries int, jitter float64) time.Duration {
	limit := longest(r)
	d := limit
	factor := float64(cmp.Or(r.Factor, defaultFactor)) / 100
	if grown := float64(first(r)) * math.Pow(factor, float64(max(tries, 0))); grown < float64(limit) {
		d = time.Duration(grown)
	}
	return shorten(r, d, jitter)
}

// AddJitter adds to a duration up to that share of it, by jitter in [0,1). A sum that
// does not fit becomes the longest duration.
func AddJitter(d time.Duration, share, jitter float64) time.Duration {
	if sum := d + time.Duration(share*min(max(jitter, 0), 1)*float64(d)); sum >= d {
		return sum
	}
	return math.MaxInt64
}

// shorten takes off a part of a delay that jitter in [0,1) chooses.
func shorten(r abi.Retry, d time.Duration, jitter float64) time.Duration {
	share := float64(cmp.Or(r.Jitter, defaultJitter)) / 100
	return max(d-time.Duration(share*min(max(jitter, 0), 1)*float64(d)), shortest)
}

// first returns the delay after the first try, without jitter.
func first(r abi.Retry) time.Duration {
	if r.Initial == 0 {
		return MinDelay
	}
	return max(milliseconds(r.Initial), shortest)
}

// longest returns the delay that all further ones are equal to.
func longest(r abi.Retry) time.Duration {
	if r.Cap == 0 {
		return max(first(r), MaxDelay)
	}
	return max(milliseconds(r.Cap), shortest)
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
