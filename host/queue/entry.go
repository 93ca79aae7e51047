package queue

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/abi"
)

// debounce is how long a changed edge waits for more of its kind. It runs
// from the first, so that a steady stream of changes does not hold up a run.
const debounce = 100 * time.Millisecond

// rule is what a trigger's reason means.
type rule struct {
	level     level
	debounced bool // coalesced with others of a burst
	patient   bool // does not shorten a backoff
	reset     bool // forgets the tries
}

var rules = map[abi.Reason]rule{
	abi.ReasonPrimary: {level: urgent, reset: true},
	abi.ReasonRequest: {level: urgent, reset: true},
	abi.ReasonPlugin:  {level: background, reset: true},
	abi.ReasonOwned:   {level: urgent, debounced: true},
	abi.ReasonRead:    {level: urgent, debounced: true},
	abi.ReasonStatus:  {level: urgent, patient: true},
	abi.ReasonResync:  {level: background, patient: true},
}

func ruleOf(reason abi.Reason) rule {
	if r, ok := rules[reason]; ok {
		return r
	}
	return rule{level: urgent}
}

// levelFor lifts what would help a key that backs off.
func (r rule) levelFor(e *entry) level {
	if r.reset && e.backingOff() {
		return urgent
	}
	return r.level
}

// entry is the state of a key that runs or waits for something. Fields are
// guarded by Queue.mu unless they say otherwise.
type entry struct {
	key Key

	running   bool         // handed out and not yet settled
	forgotten bool         // the object went during the run
	held      []abi.Reason // patient ones that came during the run
	taken     level        // it was handed out with

	// queued says that the key is due and in work. It decides, not work,
	// whether the key is handed out: see handOut.
	queued  bool
	reasons []abi.Reason // for the next run
	reset   bool         // for the next run

	edge     time.Time // when a changed edge is due; zero: none
	deadline time.Time // when the key runs by itself; zero: never. Not while it runs
	next     Next      // what the deadline is for

	wake  time.Time // the earlier of both, as in timers
	place int       // in timers; -1: not there

	// lane state, guarded by the lock inside work; the wish is set before
	// work.Add, which reads it.
	wish          atomic.Int32
	back          bool // goes to the head of its lane
	lane          *lane
	since         time.Time
	ahead, behind *entry
}

func (e *entry) level() level     { return level(e.wish.Load()) }
func (e *entry) setLevel(l level) { e.wish.Store(int32(l)) }

// hold keeps a patient reason until the run ends.
func (e *entry) hold(reason abi.Reason) {
	if !slices.Contains(e.held, reason) {
		e.held = append(e.held, reason)
	}
}

func (e *entry) note(reason abi.Reason, r rule) {
	if !slices.Contains(e.reasons, reason) {
		e.reasons = append(e.reasons, reason)
	}
	e.reset = e.reset || r.reset
}

// debounce lets a changed edge wait; a key that is due urgently takes it along.
func (e *entry) debounce(now time.Time) {
	if e.edge.IsZero() && !(e.queued && e.level() == urgent) {
		e.edge = now.Add(debounce)
	}
}

func (e *entry) backingOff() bool { return !e.deadline.IsZero() && e.next.Backoff }

// start turns a due key into a running one. What it waited for is served by
// this run: it reads the world after all of it happened.
func (e *entry) start() {
	e.running, e.queued, e.taken = true, false, e.level()
	e.reasons, e.reset = nil, false
	e.edge, e.deadline = time.Time{}, time.Time{}
}

// putBack turns a running key back into a due one, with what came meanwhile.
func (e *entry) putBack(item Item) {
	since := e.reasons
	e.running, e.forgotten, e.held, e.back = false, false, nil, true
	e.reasons, e.reset = item.Reasons, e.reset || item.Reset
	for _, reason := range since {
		e.note(reason, rule{})
	}
}

func (e *entry) end(next Next, now time.Time) {
	e.running, e.forgotten, e.held = false, false, nil
	e.next, e.deadline = next, time.Time{}
	if next.After > 0 {
		e.deadline = now.Add(next.After)
	}
}

// idle says that nothing is known of the key that was worth keeping.
func (e *entry) idle() bool {
	return !e.running && !e.queued && e.edge.IsZero() && e.deadline.IsZero()
}

// wakes returns when the key is to be looked at; never while it runs.
func (e *entry) wakes() time.Time {
	switch {
	case e.running:
		return time.Time{}
	case e.edge.IsZero(), !e.deadline.IsZero() && e.deadline.Before(e.edge):
		return e.deadline
	default:
		return e.edge
	}
}

func (n Next) level() level {
	if n.Yields {
		return background
	}
	return urgent
}

func (n Next) reason() abi.Reason {
	switch {
	case n.Reason != "":
		return n.Reason
	case n.Backoff:
		return abi.ReasonRetry
	default:
		return abi.ReasonRequeue
	}
}
