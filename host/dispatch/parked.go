package dispatch

import (
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// This file parks runs whose effects are postponed, because the API server asks for
// it (429) or the plugin's limit of writes is reached. No worker waits for that: the
// run keeps its result and is resumed when the time has come. If something else has
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
// changed since. It returns nil if it is too early: the key is then done. reasons
// are those of the key to run now.
func (r *run) resume(primary *object.Object, reasons []abi.Reason) *run {
	for _, reason := range reasons {
		if reason != abi.ReasonRetry && !slices.Contains(r.missed, reason) {
			r.missed = append(r.missed, reason)
		}
	}
	if r.later = r.state.untilNotBefore(); r.later > 0 {
		r.park()
		return nil
	}
	r.overtaken = r.overtaken || !sameContent(r.primary, primary) // as a read after a lost write may show
	r.primary, r.resumed, r.worked = primary, true, time.Now()
	return r
}

// postpone makes a key that was taken due again after a pause, before anything of
// its run has begun.
func (c *Controller) postpone(item queue.Item, pause time.Duration) {
	c.mu.Lock()
	s := c.keys[item.Key]
	if s != nil && s.carried != nil && item.ResetTries {
		s.tries = s.tries.Reset()
	}
	c.mu.Unlock()
	c.queue.Done(item.Key, outcome.Requeue(pause))
}
