package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// check returns an invariant that does not hold, or nil.
//
// late means that the timer that notices what time changes may be late, as in real time.
func (s *Scheduler) check(late bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now().Add(-s.quantum)
	if late {
		at = s.assigned
	}
	long, waiting := 0, 0
	for _, t := range s.running {
		if !t.holding {
			return errors.New("a running task is not marked as holding a slot")
		}
		if t.long {
			long++
		}
	}
	for _, p := range s.queue {
		if len(p.waiting) == 0 {
			return errors.New("a plugin without waiting calls is in the queue")
		}
		waiting += len(p.waiting)
		if slices.ContainsFunc(p.waiting, func(t *Task) bool { return t.holding }) {
			return errors.New("a call waits and holds a slot")
		}
	}
	// Loads decrease while nothing happens, which the scheduler notices up to a
	// quantum later.
	idle, _ := s.next(at)
	switch {
	case len(s.running) > s.slots:
		return fmt.Errorf("%d slots are held, there are %d", len(s.running), s.slots)
	case long != s.long || long > s.slots:
		return fmt.Errorf("%d long calls hold slots, counted are %d", long, s.long)
	case waiting != s.waiting:
		return fmt.Errorf("%d calls wait, counted are %d", waiting, s.waiting)
	case len(s.running) < s.slots && idle != nil:
		return errors.New("a slot is free and a call that may have it waits")
	case waiting > 0 && !s.watching:
		return errors.New("calls wait and no timer watches blocked ones")
	}
	return nil
}

// script is one call of a generated load.
type script struct {
	plugin  int
	after   time.Duration // begins
	timeout time.Duration
	steps   []step
}

// step runs for a time, in the guest or in a host function, up to the next tick.
type step struct {
	inHost bool
	runs   time.Duration
}

func scripts(slots int) *rapid.Generator[[]script] {
	span := func(most time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, int(most/(quantum/4))), func(n int) time.Duration { return time.Duration(n) * quantum / 4 })
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) script {
		return script{
			plugin:  rapid.IntRange(0, 3).Draw(t, "plugin"),
			after:   span(10*quantum).Draw(t, "after"),
			timeout: span(40*quantum).Draw(t, "timeout"),
			steps: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
				return step{inHost: rapid.Bool().Draw(t, "inHost"), runs: span(3*quantum).Draw(t, "runs")}
			}), 0, 8).Draw(t, "steps"),
		}
	}), 1, 6*slots)
}

// play makes the call. It stops early if the context ends.
func (sc script) play(p *Plugin, run func(time.Duration)) {
	run(sc.after)
	ctx, cancel := context.WithTimeout(context.Background(), sc.timeout)
	defer cancel()
	task, err := p.Acquire(ctx)
	if err != nil {
		return
	}
	defer task.Release()
	for _, st := range sc.steps {
		if st.inHost && st.runs > quantum {
			task.Leave()
		} else if st.inHost {
			task.Block()
		}
		run(st.runs)
		if st.inHost {
			_, err = task.Unblock(ctx)
		} else {
			_, err = task.Yield(ctx)
		}
		if err != nil {
			return
		}
	}
}

func sleep(d time.Duration) {
	time.Sleep(d) // fake time
}

// work keeps a processor busy.
func work(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// TestInvariantsHoldUnderGeneratedLoads, at every moment and at the end, in fake
// time.
func TestInvariantsHoldUnderGeneratedLoads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.IntRange(1, 4).Draw(rt, "slots")
		calls := scripts(slots).Draw(rt, "calls")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, slots)
			var all sync.WaitGroup
			for _, c := range calls {
				p := s.plugin(fmt.Sprint(c.plugin))
				all.Go(func() { c.play(p, sleep) })
			}
			for range 200 {
				pass(quantum / 8)
				broken = cmp.Or(broken, s.check(false))
			}
			all.Wait()
			s.expectStats(0, 0)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// TestInvariantsHoldUnderParallelLoad is the same in real time, for the race
// detector: the invariants do not depend on how long things take.
func TestInvariantsHoldUnderParallelLoad(t *testing.T) {
	s := New(2)
	s.quantum = 20 * time.Microsecond
	var all sync.WaitGroup
	for i := range 16 {
		p := s.Plugin(&counted{})
		all.Go(func() {
			for j := range 200 {
				sc := script{timeout: time.Duration(1+(i*j)%50) * 20 * time.Microsecond}
				for k := range j % 7 {
					sc.steps = append(sc.steps, step{inHost: k%3 == 1, runs: time.Duration(k) * 5 * time.Microsecond})
				}
				sc.play(p, work)
				if err := s.check(true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := s.Stats(); got != (Stats{Slots: 2}) {
		t.Errorf("at the end: %+v", got)
	}
}
