package schedule

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Task is one call. It holds a slot, waits for one, or has lost its slot in a
// host function. Its methods must be called by one goroutine at a time; those
// of a nil task do nothing.
type Task struct {
	plugin   *Plugin
	since    time.Time     // when the current quantum began
	waited   time.Duration // for slots, in all
	state    taskState
	released bool

	// Written with the scheduler's lock by the call's own goroutine. holding
	// is also written by the goroutine that grants or revokes the slot.
	long    bool
	holding bool

	granted chan struct{} // of capacity 1; made when first needed, with the lock
}

// noYieldFraction is the part of a quantum, as its inverse, for which a call
// does not yield the processor to the host's own goroutines: behind a garbage
// collection a short call would wait for longer than it takes.
const noYieldFraction = 8

// Yield must be called where the call can wait. While the quantum lasts, or no
// other call is to have the slot, it returns soon. Otherwise it blocks until
// the call has a slot again and returns how long that took. If ctx ends first
// it returns the cause, and the call holds no slot.
func (t *Task) Yield(ctx context.Context) (waited time.Duration, err error) {
	if t == nil {
		return 0, nil
	}
	s := t.plugin.scheduler
	now := time.Now()
	ran := now.Sub(t.since)
	if ran < s.quantum/noYieldFraction {
		return 0, nil
	}
	if ran < s.quantum || s.nextQuantum(t, now) {
		runtime.Gosched() // for the host's own goroutines: the runtime cannot preempt native code
		return 0, nil
	}
	t.plugin.metrics.HandedOver()
	return t.wait(ctx)
}

// nextQuantum ends t's quantum and reports whether t has a slot for another
// one. If not, t has been queued.
func (s *Scheduler) nextQuantum(t *Task, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoke(t, now)
	t.long, t.since = true, now
	return s.enqueueAndAssign(t, now)
}

// Block marks the begin of a host function in which the call may block: from
// then on its slot may be given to another call.
func (t *Task) Block() {
	if t != nil {
		t.state.block()
	}
}

// Leave is [Task.Block] for a host function that waits for something outside of the
// host: the slot is given to another call at once, and not after a quantum.
func (t *Task) Leave() {
	if t != nil {
		t.state.leave()
		t.plugin.scheduler.leave(t)
	}
}

func (s *Scheduler) leave(t *Task) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoke(t, now)
	s.assign(now)
}

// Unblock marks the end of what [Task.Block] or [Task.Leave] began. If the call has lost its
// slot, Unblock waits for another one as [Task.Yield] does.
func (t *Task) Unblock(ctx context.Context) (waited time.Duration, err error) {
	if t == nil || t.state.unblock() {
		return 0, nil
	}
	t.plugin.scheduler.requeue(t)
	return t.wait(ctx)
}

// requeue queues a task that has lost its slot.
func (s *Scheduler) requeue(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue(t)
	s.assign(time.Now())
}

// Release ends the task and frees its slot, if it holds one. It may be called
// again.
func (t *Task) Release() {
	if t == nil || t.released {
		return
	}
	t.released = true
	t.plugin.scheduler.release(t)
	t.plugin.metrics.Waited(t.waited)
}

func (s *Scheduler) release(t *Task) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoke(t, now)
	s.assign(now)
}

// Released reports whether the task was released.
func (t *Task) Released() bool { return t.released }

// Waited returns how long the call has waited for slots so far.
func (t *Task) Waited() time.Duration {
	if t == nil {
		return 0
	}
	return t.waited
}

// wait blocks until the queued task has a slot and returns how long that took. If
// ctx ends first it returns the cause, and the task is not queued any more.
func (t *Task) wait(ctx context.Context) (waited time.Duration, err error) {
	began := time.Now()
	select {
	case <-t.granted:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.since = time.Now()
	waited = t.since.Sub(began)
	t.waited += waited
	if err != nil {
		t.plugin.scheduler.cancelWait(t, t.since)
	}
	return waited, err
}

// cancelWait ends the wait of a task that may have been granted a slot in the
// meantime.
func (s *Scheduler) cancelWait(t *Task, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.holding {
		<-t.granted
		s.revoke(t, now) // it was not used
		s.assign(now)
		return
	}
	s.dequeue(t.plugin, slices.Index(t.plugin.waiting, t))
}

// taskState is whether a task runs guest code, is in a host function, or has
// lost its slot in one. The two low bits are the state, the others count the
// host functions. The call changes the state without the scheduler's lock, so
// that a host function that returns at once pays two atomic operations.
type taskState struct {
	value atomic.Uint64
	seen  uint64 // value when revokeBlocked ran last; guarded by the scheduler's lock
}

const (
	stateRunning = iota
	stateBlocked
	stateRevoked
	states = 4
)

func (s *taskState) block() { s.value.Add(stateBlocked) }
func (s *taskState) leave() { s.value.Add(stateRevoked) }

// unblock reports whether the task still has its slot.
func (s *taskState) unblock() bool {
	count := s.value.Load() / states
	if s.value.CompareAndSwap(count*states+stateBlocked, (count+1)*states) {
		return true
	}
	s.value.Store((count + 1) * states)
	return false
}

// revokeIfBlocked reports whether the task has been in the same host function
// since the last call, so that its slot must be revoked.
func (s *taskState) revokeIfBlocked() bool {
	value := s.value.Load()
	if value%states != stateBlocked {
		return false
	}
	before := s.seen
	s.seen = value
	return before == value && s.value.CompareAndSwap(value, value-stateBlocked+stateRevoked)
}
