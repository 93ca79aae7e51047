package schedule

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// Turn is one call's claim on a slot. Its methods are called by one goroutine
// at a time; those of a nil turn do nothing.
type Turn struct {
	plugin *Plugin
	since  time.Time     // since when the quantum runs
	waited time.Duration // in all
	away   away
	ended  bool

	// Written with the scheduler's lock, by the call's own goroutine; held is
	// also written by whoever gives or takes the slot.
	long bool
	held bool

	granted chan struct{} // capacity 1; made when first needed, with the lock
}

// settles is the part of a quantum in which a call does not step aside for the
// host's own work: behind a garbage collection a short call would wait for
// longer than it takes.
const settles = 8

// Yield is for a point at which the call can wait. It returns soon while the
// quantum lasts or nobody else is to have the slot; else it returns when the
// call has a slot again, with the time that this took. If ctx ends first it
// answers ctx's cause, and the call holds no slot.
func (t *Turn) Yield(ctx context.Context) (waited time.Duration, err error) {
	if t == nil {
		return 0, nil
	}
	s := t.plugin.scheduler
	now := time.Now()
	ran := now.Sub(t.since)
	if ran < s.quantum/settles {
		return 0, nil
	}
	if ran < s.quantum || s.pass(t, now) {
		runtime.Gosched() // the host's own work: native code is never preempted
		return 0, nil
	}
	t.plugin.metrics.HandedOver()
	before := t.waited
	err = t.wait(ctx)
	return t.waited - before, err
}

// pass ends t's quantum: it says whether t goes on with another one. If not,
// t has been queued.
func (s *Scheduler) pass(t *Turn, now time.Time) (goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(t, now)
	t.long, t.since = true, now
	s.queue(t)
	return s.settled(t, now)
}

// Release gives the slot back, if the call holds one, and ends the turn. It
// may be called again.
func (t *Turn) Release() {
	if t == nil || t.ended {
		return
	}
	t.ended = true
	t.plugin.scheduler.release(t)
	t.plugin.metrics.Waited(t.waited)
}

func (s *Scheduler) release(t *Turn) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.held {
		s.take(t, now)
	}
	s.settle(now)
}

// Ended says whether the turn was released.
func (t *Turn) Ended() bool { return t.ended }

// Waited is how long the call has waited so far, to begin and to go on.
func (t *Turn) Waited() time.Duration {
	if t == nil {
		return 0
	}
	return t.waited
}

// wait returns when the queued turn has a slot, or ctx's cause.
func (t *Turn) wait(ctx context.Context) error {
	began := time.Now()
	var err error
	select {
	case <-t.granted:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.since = time.Now()
	t.waited += t.since.Sub(began)
	if err != nil {
		t.plugin.scheduler.giveUp(t, t.since)
	}
	return err
}

// giveUp ends the wait of a turn that may have been given a slot meanwhile.
func (s *Scheduler) giveUp(t *Turn, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.held {
		<-t.granted
		s.take(t, now) // unused
		s.settle(now)
		return
	}
	s.unqueue(t, slices.Index(t.plugin.waiting, t))
}
