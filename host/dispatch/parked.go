package dispatch

import (
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

// maxRepeated is how often the effects of one run are postponed after a write that
// may have taken place. Then it is a failure.
const maxRepeated = 2

// postpones reports whether a failure postpones the effects. They are then not
// decided again, and no attempt is counted.
func (r *run) postpones(failure *effect.Failure) bool {
	if failure.Later <= 0 {
		return false
	}
	if failure.Uncertain {
		if r.repeated++; r.repeated > maxRepeated {
			return false
		}
	}
	r.later = failure.Later
	return true
}

// park keeps the run until its effects may be performed.
func (r *run) park() {
	r.endReads()
	r.notBefore = time.Now().Add(r.later)
	r.state.parked = r
	r.c.Logger.Debug("effects are postponed", "object", r.item.Key.String(), "for", r.later.String())
	r.hand(r.state.writeLoop, outcome.Next{Kind: outcome.After, After: r.later, Reason: abi.ReasonRetry})
}

// resume continues a parked run with the primary as it is now, which nobody else has
// changed since. It returns nil if it is too early: the key is then done. reasons
// are those of the key to run now.
func (r *run) resume(primary *object.Object, reasons []abi.Reason) *run {
	for _, reason := range reasons {
		if reason != abi.ReasonRetry && !slices.Contains(r.missed, reason) {
			r.missed = append(r.missed, reason)
		}
	}
	if early := time.Until(r.notBefore); early > 0 {
		r.later = early
		r.park()
		return nil
	}
	r.overtaken = r.overtaken || !sameInput(r.primary, primary) // as a read after a lost write may show
	r.primary, r.resumed, r.worked = primary, true, time.Now()
	return r
}

// postpone makes a key that was taken due again after a pause, before anything of
// its run has begun.
func (c *Controller) postpone(item queue.Item, pause time.Duration) {
	c.mu.Lock()
	s := c.keys[item.Key]
	if s != nil && item.ResetTries {
		s.tries = s.tries.Reset()
	}
	c.mu.Unlock()
	c.Queue.Done(item.Key, outcome.Next{Kind: outcome.After, After: pause, Reason: abi.ReasonRequeue})
}
