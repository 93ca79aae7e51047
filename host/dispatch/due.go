package dispatch

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// This file makes keys due: nothing else calls Add of the queue. Which keys an event concerns is in triggers.go and
// watches.go, and what a reason means for when and in which order they run is in queue/rules.go. A key is also due at the
// time that its last run has ended with: outcome/next.go decides that, hand in end.go gives it to the queue, and
// queue/deadlines.go makes the key due then.

// cause is why keys become due.
type cause struct {
	reason abi.Reason
	sees   verbs // what the account of the plugin must be allowed for the object that has changed; none: nothing
	bulk   int   // of more keys than that at once others go first; 0: they never do
	spread bool  // keys become due over time, so that others may run meanwhile
}

var (
	// Changes of objects. If runs of the key itself have made the change, the key is due after the pause of its write
	// loop, or not at all: see [keyState.wakeUp]. A change that comes while the key runs waits for the end of the run.
	primaryEdited    = cause{reason: abi.ReasonPrimary} // its creation, or a change of spec, labels, annotations or deletion
	primaryRequested = cause{reason: abi.ReasonRequest} // the annotation RequestedAt has another value
	primaryStatus    = cause{reason: abi.ReasonStatus}  // nothing else has changed
	ownedChanged     = cause{reason: abi.ReasonOwned, sees: toWatch}
	watchedChanged   = cause{reason: abi.ReasonRead, sees: toWatch, bulk: 256}
	readChanged      = cause{reason: abi.ReasonRead, sees: toRead} // the cache reports whether it is bulk

	// The work of others than the runs of the key.
	primaryGone   = cause{reason: abi.ReasonPrimary}           // and again when a run for an object that is gone has ended
	resynced      = cause{reason: abi.ReasonResync}            // listed, in each period, or events may have been missed
	signalled     = cause{reason: abi.ReasonSignal}            // by a capability
	foundByTurn   = cause{reason: abi.ReasonSignal, bulk: 100} // see [Turn]
	swapped       = cause{reason: abi.ReasonPlugin, spread: true}
	rightsGranted = cause{reason: abi.ReasonPlugin, spread: true}
	turnBegun     = cause{reason: abi.ReasonTimer} // the key is that of a turn
)

// of returns the cause of so many keys for the queue.
func (why cause) of(keys int) queue.Cause {
	return queue.Cause{Reason: why.reason, Bulk: why.bulk > 0 && keys > why.bulk}
}

// Resync makes keys due without any change.
func (c *Controller) Resync(keys []object.Key) { c.due(resynced, keys...) }

// Granted makes keys due after the plugin was given rights that it lacked.
func (c *Controller) Granted(keys []object.Key) { c.due(rightsGranted, keys...) }

// due makes keys due for something that is not the work of their own runs.
func (c *Controller) due(why cause, keys ...object.Key) {
	made := why.of(len(keys))
	for i, key := range keys {
		if why.spread {
			made.Pause = queue.Spread(i, len(keys))
		}
		c.mu.Lock()
		if s := c.keys[key]; s != nil {
			s.wokenByOthers = true
		}
		c.mu.Unlock()
		c.queue.Add(key, made)
	}
}

// dueAgain makes a key due for what its own runs have changed.
func (c *Controller) dueAgain(key object.Key, reason abi.Reason, pause time.Duration) {
	c.queue.Add(key, queue.Cause{Reason: reason, Own: true, Pause: pause})
}

// changedFor handles the change of an object that keys depend on, unless the account may not
// see the object. If that is not known the change waits for the answer.
func (c *Controller) changedFor(why cause, o *object.Object, made change, keys ...object.Key) {
	if a := c.revision.Load().Access; a != nil && len(keys) > 0 {
		of, _ := cache.SourceOf(o.Kind)
		q := questionOf(why.sees, of, o.Key())
		allowed, known := q.known(a)
		if !known {
			c.unanswered.add(q, made, keys)
		}
		if !allowed || !known {
			return
		}
	}
	for _, key := range keys {
		c.changed(key, made)
	}
}

// changed handles the change of an object that a key depends on. While a run of
// the key is in progress, which may have made the change, it waits for the end of
// the run. What a turn has read makes the turn due, and may be the work of runs of its object.
func (c *Controller) changed(key object.Key, made change) {
	c.mu.Lock()
	if isTurn(key) {
		t := c.objectTurns[key]
		if t == nil || made.Reason != abi.ReasonRead { // the name in an owner reference may be that of a turn
			c.mu.Unlock()
			return
		}
		t.woken = t.woken.and(Woken{Reads: !made.index, Index: made.index})
		made.turn, key = key, t.object
	}
	s := c.keys[key]
	if s != nil && s.running && len(s.deferred) < maxDeferred {
		s.deferred = append(s.deferred, made)
		c.mu.Unlock()
		return
	}
	w := s.wakeUp(made)
	c.mu.Unlock()
	c.wake(key, w)
}

// maxDeferred bounds the changes that wait for the end of a run. Those beyond it
// count as the work of others.
const maxDeferred = 1000

// wakeUp is what a change means for a key.
type wakeUp struct {
	queue.Cause
	ignored bool       // nothing has to run
	turn    object.Key // the key of the turn of the object that has read what has changed; the zero value: a run has
}

// wakeUp returns what a change means, and notes whether others made it.
// Controller.mu is held.
func (s *keyState) wakeUp(made change) wakeUp {
	w := wakeUp{Cause: made.Cause, turn: made.turn}
	if s == nil {
		return w
	}
	w.Own, w.ignored = s.own.find(made.uid, made.version)
	switch {
	case w.Own:
		w.Pause = s.writeLoop.pause()
	case made.turn == (object.Key{}): // what a turn has read does not make the result of a parked run out of date
		s.wokenByOthers = true
	}
	return w
}

// wake makes a key due, or the key of the turn that has read what has changed.
func (c *Controller) wake(key object.Key, w wakeUp) {
	if w.turn != (object.Key{}) {
		c.mu.Lock()
		t := c.objectTurns[w.turn]
		if t != nil {
			t.byOthers = t.byOthers || !w.Own
		}
		c.mu.Unlock()
		if w.Own = w.Pause > 0; t != nil {
			c.queue.Add(w.turn, w.Cause)
		}
		return
	}
	if w.ignored {
		return
	}
	if !w.Own {
		c.callRequested(key, w.Reason)
	}
	c.queue.Add(key, w.Cause)
}
