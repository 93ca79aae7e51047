package schedule

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// away says where a call is: in the guest, in a host function, or in one for
// so long that it has lost its slot. The two low bits are the place, the
// others number the visits. The call moves it without the scheduler's lock,
// so that a host function that answers at once costs next to nothing.
type away struct {
	state atomic.Uint64
	seen  uint64 // by the last look; guarded by the scheduler's lock
}

const (
	inGuest = iota
	inHost
	taken
	places = 4
)

func (a *away) leave() { a.state.Add(inHost) }

// back says whether the call still has its slot.
func (a *away) back() bool {
	visit := a.state.Load() / places
	if a.state.CompareAndSwap(visit*places+inHost, (visit+1)*places) {
		return true
	}
	a.state.Store((visit + 1) * places)
	return false
}

// overdue says whether the call has not been back since the look before; then
// its slot is to be taken.
func (a *away) overdue() bool {
	state := a.state.Load()
	if state%places != inHost {
		return false
	}
	before := a.seen
	a.seen = state
	return before == state && a.state.CompareAndSwap(state, state-inHost+taken)
}

// Leave says that the call enters a host function in which it may block: from
// then on others may be given its slot.
func (t *Turn) Leave() {
	if t != nil {
		t.away.leave()
	}
}

// Return is the end of what [Turn.Leave] began. If the call has lost its slot
// it waits for another one, as [Turn.Yield] does.
func (t *Turn) Return(ctx context.Context) (waited time.Duration, err error) {
	if t == nil || t.away.back() {
		return 0, nil
	}
	t.plugin.scheduler.again(t)
	before := t.waited
	err = t.wait(ctx)
	return t.waited - before, err
}

// again queues a turn that has lost its slot.
func (s *Scheduler) again(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(t)
	s.settle(time.Now())
}

// watch looks at the holders in a quantum's time if somebody waits.
func (s *Scheduler) watch() {
	if s.waiting == 0 || s.watched {
		return
	}
	s.watched = true
	time.AfterFunc(s.quantum, s.retake)
}

// retake takes the slots of those who are not there to use them.
func (s *Scheduler) retake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = false
	now := time.Now()
	for _, t := range slices.Clone(s.holders) {
		if t.away.overdue() {
			s.take(t, now)
		}
	}
	s.settle(now)
}
