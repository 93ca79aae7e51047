package dispatch

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
)

// This file ends runs: what the next one has to know is recorded, and the key goes back to the queue.

// endedWell reports whether the run has led to what it was for.
func (r *run) endedWell() bool { return r.result != nil && r.decision.EndedWell() }

// end records what the next run needs, and hands the key back to the queue.
func (r *run) end() {
	r.endReads()
	s := r.state
	s.tries, s.postponed, s.repeated = r.decision.Tries, 0, 0
	s.internal = r.nextInternal()
	if r.decision.KeepMemo {
		s.memo = r.result.Memo
	}
	r.endSignals()
	s.previous = nil
	if r.decision.Class != abi.ClassNone {
		s.previous = &abi.Previous{Class: r.decision.Class, Failures: r.failures}
	}
	loop := s.writeLoop.copy()
	if r.decision.RemoveFinalizer {
		r.writes = nil // the finalizer is removed once
	}
	if loop.ended(r.own, r.writes) {
		r.warn("the object is reconciled again and again because of its own writes, slowing down", "writes", len(r.writes))
		if r.decision.Event == nil {
			r.decision.Event = writeLoopEvent()
		}
	}
	if r.decision.Event == nil {
		r.decision.Event = r.event
	}
	if loop.slowed > 0 {
		r.c.Metrics.Looped()
	}
	r.decision.Next.Latest = r.deadline()
	gone := r.endsGone()
	if gone {
		r.decision.Next = outcome.Next{}
	}
	reported := r.report()
	r.keepLast(&reported)
	if gone {
		r.endGone()
	}
	for _, reason := range r.missed {
		r.c.dueAgain(r.item.Key, reason, loop.pause())
	}
	r.lookAtTurns()
	r.hand(loop, r.decision.Next)
}

// endReads ends the reads of the run. Those of a call that did not return may be
// fewer than the plugin depends on.
func (r *run) endReads() {
	if r.fault != nil || r.incomplete != nil {
		r.reads.Abandon()
	} else {
		r.reads.Commit()
	}
}

// hand hands the key back to the queue. The changes that came during the run are
// added before it ends there, so that they are less urgent than those of other keys.
func (r *run) hand(loop writeLoop, next outcome.Next) {
	for _, w := range r.c.endRun(r.state, loop) {
		r.c.wake(r.item.Key, w)
	}
	r.c.queue.Done(r.item.Key, next)
}

// endRun marks a key as not running, and returns what the changes mean that came
// during the run. The run must not use what is carried over after that.
func (c *Controller) endRun(s *keyState, loop writeLoop) (wakeUps []wakeUp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.running, s.writeLoop = false, loop.kept()
	for _, made := range s.deferred {
		wakeUps = append(wakeUps, s.wakeUp(made))
	}
	if s.deferred = nil; s.isEmpty() {
		s.carried = nil
	}
	return wakeUps
}

// report reports the end of the run to the observers, and emits the Kubernetes
// Event of the decision.
func (r *run) report() events.RunEnded {
	d := &r.decision
	e := events.RunEnded{
		Run:         r.identity(),
		Result:      string(d.Metric),
		Since:       r.worked,
		Duration:    time.Since(r.worked),
		Resumed:     r.resumed,
		Reasons:     r.reasons(),
		Writes:      len(r.writes),
		Attempt:     d.Tries.Attempt,
		Next:        d.Next.Soonest(),
		Fuel:        r.returned.Usage.Fuel,
		MemoryBytes: r.returned.Usage.MemoryBytes,
		Repeated:    d.Uncounted,
		Failure:     events.Failure{Class: d.Class, Reason: d.Reason, Message: d.Message},
	}
	if r.guestFault != nil {
		e.Failure.Stack, e.Failure.Printed, e.Failure.PrintedStack = r.guestFault.Stack, r.printed(), r.guestFault.PrintedStack
	}
	e.Muted = r.mute(e.Failure)
	r.c.Events.Observe(e)
	r.callEnded(e)
	r.revision.Effects.EmitEvent(r.target(), d.Event)
	return e
}
