package dispatch

import (
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// This file runs objects by the timers of the controller (abi/SPEC.md, "Timer"). When they are
// due is computed by [outcome.Timers] at the begin and at the end of each run. Between two runs
// the queue has the time of the earliest one. A run that is parked has not ended.

// objectTimers are the timers of one object. Controller.mu guards them.
type objectTimers struct {
	outcome.Timers
	uid object.Hash
}

// beginTimers makes the run name the timers that are due. Those of an object that is being
// deleted rest for ever.
func (r *run) beginTimers() {
	c, all := r.c, r.revision.Controller.Timers
	if len(all) == 0 || r.gone != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.given.Deleting() {
		delete(c.timers, r.item.Key)
		return
	}
	if r.revision == c.revision.Load() { // else the next run names them
		r.timers = c.timersOf(r.item.Key, r.given, r.start)
		r.due = r.timers.Begin(all, c.followed, r.start, mathrand.Float64())
	}
}

// timersOf returns the timers of an object, for a run that begins now. Controller.mu is held.
func (c *Controller) timersOf(key object.Key, o *object.Object, now time.Time) *objectTimers {
	uid := o.Identity()
	t := c.timers[key]
	if t == nil || t.uid != uid {
		t = &objectTimers{outcome.NewTimers(o.CreationTimestamp.Time, c.followed, now), uid}
		if c.timers == nil {
			c.timers = map[object.Key]*objectTimers{}
		}
		c.timers[key] = t
	}
	return t
}

// reasons are those of the request.
func (r *run) reasons() []abi.Reason {
	if len(r.due) == 0 || slices.Contains(r.item.Reasons, abi.ReasonTimer) {
		return r.item.Reasons
	}
	return append(slices.Clip(r.item.Reasons), abi.ReasonTimer)
}

// endTimers returns the time until the next timer of the object is due, 0 if there is none. So
// it is if the timers were dropped during the run: the key is due again then.
func (r *run) endTimers() time.Duration {
	if r.timers == nil {
		return 0
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.timers[r.item.Key] != r.timers {
		return 0
	}
	return r.timers.End(&r.decision, time.Now(), mathrand.Float64())
}

// untilTimer returns the time until the next timer of the object is due, for a run that has named
// none; 0 if there is none.
func (r *run) untilTimer() time.Duration {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if t := r.c.timers[r.item.Key]; t != nil {
		return t.Until(time.Now())
	}
	return 0
}

// restTimers makes the timers of a key rest until its next run.
func (c *Controller) restTimers(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.timers[key]; t != nil {
		t.Rest()
	}
}

// noteIdle records for the timers of a key that somebody else has changed its object, if that
// is what the reason means. It must be called before the key is made due.
func (c *Controller) noteIdle(key object.Key, reason abi.Reason) {
	if len(c.revision.Load().Controller.Timers) == 0 || reason != abi.ReasonPrimary && reason != abi.ReasonRequest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.timers[key]; t != nil {
		t.Changed(time.Now())
	}
}

// timersReplaced prepares the timers for another revision: what it changes or adds starts now.
// Controller.mu is held.
func (c *Controller) timersReplaced(before, next []abi.Timer) {
	switch {
	case len(next) == 0:
		c.timers = nil
	case !slices.Equal(before, next):
		c.followed = time.Now()
	}
}
