package dispatch

import (
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// This file has what changes when a run is tried again, beside the decision (package outcome): effects are postponed,
// an outage of the API server begins or ends, or a run cannot begin.
//
// Effects are postponed because the API server asks for it (429) or the plugin's limit of writes is reached. No worker
// waits for that: the run is parked with its result, and is resumed when the time has come. If something else has
// made the key due by then, the result is out of date and the guest is called again.
// What the key's own writes made due meanwhile is due when the run has ended.

// maxRepeated is how often the effects of a key are postponed after a write that
// may have taken place. Then it is a failure.
const maxRepeated = 2

// postpones reports whether a failure postpones the effects. They are then not
// decided again, and no attempt is counted.
func (r *run) postpones(failure *effect.Failure) bool {
	if failure.Later <= 0 {
		return false
	}
	if failure.Uncertain {
		if r.state.repeated++; r.state.repeated > maxRepeated {
			return false
		}
	}
	r.later = failure.Later
	if failure.Outage { // the API server asks, not the limit of the plugin
		r.later = r.state.postponement(failure.Later)
		r.state.postponed++
	}
	return true
}

// maxPostponed bounds what the host adds to the time that the API server asks for.
const maxPostponed = 30 * time.Second

// postponement returns how long the effects of a key are postponed: as the API server
// asks and, when it asks again and again, twice as long each time. From the second
// time on, jitter keeps keys apart that were refused at the same time.
func (s *keyState) postponement(asked time.Duration) time.Duration {
	if s.postponed == 0 {
		return asked
	}
	grown := max(asked, min(asked<<min(s.postponed, 10), maxPostponed))
	return grown + time.Duration(mathrand.Float64()/4*float64(grown))
}

// maxParkedBytes bounds the results of plugins that a controller keeps. A run beyond
// it is not kept, and the guest is called again when its time has come.
const maxParkedBytes = 32 << 20

// park keeps the run until its effects may be performed.
func (r *run) park() {
	r.endReads()
	r.state.notBefore = time.Now().Add(r.later)
	r.c.keep(r)
	r.hand(r.state.writeLoop.copy(), outcome.Resume(r.later))
}

// keep parks a run if there is room for its result.
func (c *Controller) keep(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parkedBytes+len(r.returned.Output) <= maxParkedBytes {
		r.state.parked = r
		c.parkedBytes += len(r.returned.Output)
	}
}

// unpark returns the run of a key that is parked, nil if there is none. Controller.mu
// is held.
func (c *Controller) unpark(s *keyState) (r *run) {
	if s.carried == nil {
		return nil
	}
	if r, s.parked = s.parked, nil; r != nil {
		c.parkedBytes -= len(r.returned.Output)
	}
	return r
}

// dropParked drops the run of a key that is parked, if any.
func (c *Controller) dropParked(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.keys[key]; s != nil {
		c.unpark(s)
	}
}

// untilNotBefore returns how long no effect of the key may be performed yet.
func (s *keyState) untilNotBefore() time.Duration { return max(0, time.Until(s.notBefore)) }

// resume continues a parked run with the primary as it is now, which nobody else has
// changed since. If it is too early, later is how long it is parked again. reasons
// are those of the key to run now.
func (r *run) resume(primary *object.Object, reasons []abi.Reason) {
	for _, reason := range reasons {
		if reason != abi.ReasonRetry && !slices.Contains(r.missed, reason) {
			r.missed = append(r.missed, reason)
		}
	}
	if r.later = r.state.untilNotBefore(); r.later > 0 {
		return
	}
	r.overtaken = r.overtaken || !sameContent(r.primary, primary) // as a read after a lost write may show
	r.primary, r.worked = primary, time.Now()
}

// handBack hands a key back of which no run has begun.
func (c *Controller) handBack(item queue.Item, why instead) {
	if why.putBack {
		c.queue.PutBack(item)
		return
	}
	c.mu.Lock()
	if s := c.keys[item.Key]; s != nil && s.carried != nil && item.ResetTries {
		s.tries = s.tries.Reset()
	}
	c.mu.Unlock()
	c.queue.Done(item.Key, why.next)
}

// fullPause is how long a key waits for informers that are so late that no more
// writes can be remembered.
const fullPause = 100 * time.Millisecond

// forgetTries drops the tries that do not count for the next run. Controller.mu is held.
func (s *keyState) forgetTries(reset bool) {
	if s.outageEnded {
		s.tries, s.outageEnded = s.tries.WithoutBlameless(), false
	}
	if reset {
		s.tries = s.tries.Reset()
	}
}

// OutageEnded makes keys due soon whose last run failed because of the API
// server, which is back. Their next failure backs off as if there had been no
// outage.
func (c *Controller) OutageEnded() {
	c.slowUntil.Store(0)
	c.mu.Lock()
	for _, s := range c.keys {
		s.outageEnded = true
	}
	c.goneOutageEnded()
	c.mu.Unlock()
	c.queue.OutageEnded()
}

// noOutage reports whether a write that is answered with the code 500 is due to what was sent:
// one of the last run was, and refresh has read from the API server what it may have changed.
func (r *run) noOutage() bool {
	from := r.state.internal
	return !from.IsZero() && !time.Now().Before(from)
}

// nextInternal returns [carried.internal] for the next run. A run that has taken an outage for a refusal
// has sent one request more than it needs, and has found out by that. For outageHolds no run does it again.
func (r *run) nextInternal() time.Time {
	switch now := time.Now(); {
	case !r.internal:
		return time.Time{}
	case r.noOutage() && r.decision.Next.Outage:
		return now.Add(outageHolds)
	case r.state.internal.After(now):
		return r.state.internal
	default:
		return now
	}
}

const outageHolds = time.Minute

// errNotHeld is why a run is repeated that has done nothing outside of the cluster.
var errNotHeld = errors.New("nothing was done outside of the cluster, because the finalizer has not been added yet")

// settleWithoutFinalizer ends a run whose object could not get the finalizer, whatever the guest has returned. If the API
// server or the limit of writes has asked for time, the run is repeated after that time, as if it had not taken place.
func (r *run) settleWithoutFinalizer() {
	failure := r.unheld
	if failure == nil || failure.Later <= 0 {
		r.settle(failure)
		return
	}
	if failure.Uncertain {
		r.state.addUncertain(failure.Ref)
	}
	r.incomplete = errNotHeld
	r.decide(nil)
	r.decision.Next.After = max(r.decision.Next.After, failure.Later)
}
