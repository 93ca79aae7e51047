package queue

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// This file has what makes a key due, and what that means: how urgent the key is, when it is due, and what a backoff
// makes of it.

// Cause is why a key becomes due. Its reason means:
//
//	primary, request   due at once, fresh, resets the tries
//	owned, read,
//	signal             due 100 ms after the first of a burst, fresh, also during
//	                   a backoff; does not reset the tries
//	status             due at once, fresh; ignored while the key backs off,
//	                   since its deadline will run it
//	plugin             due at once, or after Pause, in the background; if the key
//	                   backs off at once and like an expired deadline: the new
//	                   revision may be the correction that the key needs
//	resync             like status, but in the background
//	timer              timed; does not reset the tries
//	requeue, retry     the reasons with which deadlines expire: timed, or in the
//	                   background if the run is to yield to others; any other
//	                   reason is timed
type Cause struct {
	Reason abi.Reason
	// Own means that runs of the key itself have made the change: it is treated like owned and read, and dropped
	// during a backoff.
	Own bool
	// Bulk means that very many keys become due for it at once: the key waits in the background, unless it backs
	// off. It has no effect beside Own.
	Bulk bool
	// Pause is how long the key waits at least for an own change or, as [Spread] returns it, for the reason plugin.
	// Others do not wait for it.
	Pause time.Duration
}

// edgeDelay is how long a change of an owned or read object waits for more of
// its kind. It is counted from the first one, so that a steady stream of
// changes does not postpone the run for ever.
const edgeDelay = 100 * time.Millisecond

// rule is how the queue treats a cause.
type rule struct {
	lane         lane
	delay        time.Duration // until the key is due, from the first one of a burst, which leads to one run
	spread       time.Duration // until the key is due, unless it backs off
	own          bool          // is dropped while the key backs off, or if a run in progress ends so
	obeysBackoff bool          // is dropped likewise, and waits for the end of a run in progress
	endsBackoff  bool          // is not in the background for a key that backs off
	resetsTries  bool
}

var rules = map[abi.Reason]rule{
	abi.ReasonPrimary: {lane: fresh, resetsTries: true},
	abi.ReasonRequest: {lane: fresh, resetsTries: true},
	abi.ReasonOwned:   {lane: fresh, delay: edgeDelay},
	abi.ReasonRead:    {lane: fresh, delay: edgeDelay},
	abi.ReasonSignal:  {lane: fresh, delay: edgeDelay},
	abi.ReasonStatus:  {lane: fresh, obeysBackoff: true},
	abi.ReasonPlugin:  {lane: background, endsBackoff: true},
	abi.ReasonResync:  {lane: background, obeysBackoff: true},
}

// rule returns how the queue treats a cause.
func (c Cause) rule() rule {
	r := ruleOf(c.Reason)
	switch {
	case c.Own:
		return rule{lane: fresh, delay: max(c.Pause, edgeDelay), own: true}
	case c.Bulk:
		return rule{lane: background, endsBackoff: true, resetsTries: r.resetsTries}
	case c.Reason == abi.ReasonPlugin:
		r.spread = c.Pause
	}
	return r
}

// ruleOf returns the rule of a reason. All others are those of deadlines.
func ruleOf(reason abi.Reason) rule {
	if r, ok := rules[reason]; ok {
		return r
	}
	return rule{lane: timed}
}

// laneFor returns the lane in which a cause makes the key due.
func (e *entry) laneFor(r rule) lane {
	switch {
	case r.endsBackoff && e.backingOff():
		return max(r.lane, timed)
	case e.running || e.backingOff() || e.due && e.lane() == repeated:
		return min(r.lane, repeated)
	default:
		return r.lane
	}
}

// laneOf returns the lane in which the end of the wait after a run makes the key due.
func laneOf(next outcome.Next) lane {
	if next.Yields {
		return background
	}
	return timed
}

// The pace of [Spread]: so many keys at a time, and all of them within spreadWithin.
const (
	spreadSlice  = 100
	spreadPause  = 100 * time.Millisecond
	spreadWithin = time.Minute
)

// Spread returns [Cause.Pause] for the i-th of n keys that become due for the same: in slices, the first one at once.
func Spread(i, n int) time.Duration {
	pause := min(spreadPause, spreadWithin/time.Duration(n/spreadSlice+1))
	return time.Duration(i/spreadSlice) * pause
}
