package queue

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// entry is the state of a key that is running or waits for something. Its fields
// are guarded by Queue.mu unless stated otherwise.
type entry struct {
	key Key

	running   bool         // returned by Next, and neither Done, PutBack nor Hold was called
	forgotten bool         // the object was deleted during the run
	takenFrom lane         // by Next
	deferred  []abi.Reason // reasons that obey a backoff and came during the run

	own time.Time // when an own change that came during the run makes the key due; zero: none

	outageEnded bool // during the run

	// due reports whether the key has a reason to run now. Next returns a key
	// only if it is due, whatever the workqueue holds: see [Queue.start].
	due        bool
	resetTries bool         // for the next run
	reasons    []abi.Reason // for the next run

	edge     time.Time    // when a delayed reason makes the key due; zero: none is pending
	spread   time.Time    // when a cause with a pause makes the key due; zero: not pending
	deadline time.Time    // when the key becomes due by itself; zero: never, or it is running
	latest   time.Time    // when the key becomes due at the latest, see [outcome.Next]; zero: never, or it is running
	next     outcome.Next // what deadline and latest were set for

	wake time.Time // the earliest of edge, spread, deadline and latest, as it is in Queue.deadlines
	slot int       // index in Queue.deadlines; -1: not there

	// wanted is the lane, an atomic because [priorityQueue] reads it without
	// Queue.mu. It is set before the entry is added to the workqueue.
	wanted atomic.Int32

	position // in the workqueue, whose lock guards it

	held *held // not nil: the key is due, and Next does not return it
}

func (e *entry) lane() lane     { return lane(e.wanted.Load()) }
func (e *entry) setLane(l lane) { e.wanted.Store(int32(l)) }

// deferReason keeps a reason that obeys a backoff until the run ends: only then
// it is known whether the key backs off.
func (e *entry) deferReason(reason abi.Reason) {
	if !slices.Contains(e.deferred, reason) {
		e.deferred = append(e.deferred, reason)
	}
}

func (e *entry) addReason(reason abi.Reason, r rule) {
	if !slices.Contains(e.reasons, reason) {
		e.reasons = append(e.reasons, reason)
	}
	e.resetTries = e.resetTries || r.resetsTries
}

// delayOwn is delay for an own change that came during the run, and is dropped if that ends in a backoff.
func (e *entry) delayOwn(until time.Time) {
	if e.own.IsZero() || until.Before(e.own) {
		e.own = until
	}
}

// delay makes the key due at a time, unless it is due earlier, or for a change
// anyway.
func (e *entry) delay(until time.Time) {
	if (e.edge.IsZero() || until.Before(e.edge)) && !(e.due && e.lane() >= repeated) {
		e.edge = until
	}
}

// spreadTo makes the key due at a time, unless it is due before.
func (e *entry) spreadTo(until time.Time) {
	if !e.due && (e.spread.IsZero() || until.Before(e.spread)) {
		e.spread = until
	}
}

func (e *entry) backingOff() bool { return !e.deadline.IsZero() && e.next.Kind == outcome.Backoff }

// start marks a due key as running. Everything that is pending is served by this
// run: it reads the cache after all of it happened.
func (e *entry) start() {
	e.running, e.due, e.takenFrom = true, false, e.lane()
	e.reasons, e.resetTries = nil, false
	e.edge, e.spread, e.deadline, e.latest = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// putBack ends the run of a key that was not run. It has its reasons again, with what was added
// meanwhile, and is due in the lane that is returned.
func (e *entry) putBack(item Item) lane {
	added, deferred, l := e.reasons, e.deferred, e.takenFrom
	e.running, e.forgotten, e.deferred, e.pushFront = false, false, nil, true
	e.outageEnded, e.own = false, time.Time{}
	e.reasons, e.resetTries = item.Reasons, e.resetTries || item.ResetTries
	for _, reason := range added {
		e.addReason(reason, rule{})
	}
	for _, reason := range deferred {
		e.addReason(reason, ruleOf(reason))
		l = max(l, min(ruleOf(reason).lane, repeated))
	}
	return l
}

// end marks a running key as idle, with a deadline unless it awaits a change, and with
// its latest time if there is one.
func (e *entry) end(next outcome.Next, now time.Time) {
	e.running, e.forgotten, e.deferred = false, false, nil
	e.next, e.deadline, e.latest = next, time.Time{}, time.Time{}
	if next.Kind != outcome.AwaitChange && next.After > 0 {
		e.deadline = now.Add(next.After)
	}
	if next.Latest > 0 {
		e.latest = now.Add(next.Latest)
	}
	if e.backingOff() && !e.spread.IsZero() {
		e.spread = now
	}
	if !e.backingOff() && !e.own.IsZero() {
		e.delay(e.own)
	}
	e.own = time.Time{}
	e.endOutage(now)
}

// disposable reports whether the entry holds nothing that must be remembered.
func (e *entry) disposable() bool { return !e.running && !e.due && e.wakeTime().IsZero() }

// wakeTime returns when the entry needs attention: the earliest of edge, spread,
// deadline and latest. It is zero for none, and while the key runs.
func (e *entry) wakeTime() (wake time.Time) {
	if e.running {
		return wake
	}
	for _, t := range [...]time.Time{e.edge, e.spread, e.deadline, e.latest} {
		if wake.IsZero() || !t.IsZero() && t.Before(wake) {
			wake = t
		}
	}
	return wake
}
