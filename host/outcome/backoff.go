package outcome

// This file decides when a run that failed or was requeued is repeated.

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sanitize"
)

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

// backoff returns a delay that grows with failed tries and with requeues, unless
// the guest asked for another, or for an earlier run beside groups that failed. A
// plugin that failed itself yields to the other keys, which may still succeed.
func backoff(in Input, e ending) Next {
	next := Next{Kind: Backoff, Reason: abi.ReasonRetry, Outage: e.outage}
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
