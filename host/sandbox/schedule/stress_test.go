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

// broken says which of its promises to itself a scheduler has broken, nil if
// none.
func (s *Scheduler) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	long, waiting := 0, 0
	for _, t := range s.holders {
		if !t.held {
			return errors.New("a holder does not know it")
		}
		if t.long {
			long++
		}
	}
	for _, p := range s.line {
		if len(p.waiting) == 0 {
			return errors.New("a plugin without calls is in line")
		}
		waiting += len(p.waiting)
		if slices.ContainsFunc(p.waiting, func(t *Turn) bool { return t.held }) {
			return errors.New("a call waits and has a slot")
		}
	}
	// Loads drain while nothing happens: it is seen a quantum later.
	idle, _ := s.next(time.Now().Add(-s.quantum))
	switch {
	case len(s.holders) > s.slots:
		return fmt.Errorf("%d slots are held, there are %d", len(s.holders), s.slots)
	case long != s.long || long > s.slots:
		return fmt.Errorf("%d long calls hold slots, counted are %d", long, s.long)
	case waiting != s.waiting:
		return fmt.Errorf("%d calls wait, counted are %d", waiting, s.waiting)
	case len(s.holders) < s.slots && idle != nil:
		return errors.New("a slot is free and a call that may have it waits")
	case waiting > 0 && !s.watched:
		return errors.New("calls wait and nobody watches the holders")
	}
	return nil
}

// script is what one call of a generated load does.
type script struct {
	plugin  int
	after   time.Duration // begins
	timeout time.Duration
	steps   []step
}

// step runs for a time, in the guest or in a host function, up to the next tick.
type step struct {
	away bool
	runs time.Duration
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
				return step{away: rapid.Bool().Draw(t, "away"), runs: span(3*quantum).Draw(t, "runs")}
			}), 0, 8).Draw(t, "steps"),
		}
	}), 1, 6*slots)
}

// follow makes the call, and says whether it ended as its script does.
func (sc script) follow(p *Plugin, run func(time.Duration)) (whole bool) {
	run(sc.after)
	ctx, cancel := context.WithTimeout(context.Background(), sc.timeout)
	defer cancel()
	turn, err := p.Acquire(ctx)
	if err != nil {
		return false
	}
	defer turn.Release()
	for _, st := range sc.steps {
		if st.away {
			turn.Leave()
		}
		run(st.runs)
		if st.away {
			_, err = turn.Return(ctx)
		} else {
			_, err = turn.Yield(ctx)
		}
		if err != nil {
			return false
		}
	}
	return true
}

func sleep(d time.Duration) {
	time.Sleep(d) // fake time
}

// work keeps a processor busy.
func work(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// TestNoSlotIsLost runs generated loads in fake time and looks at the
// scheduler's state all along.
func TestNoSlotIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.IntRange(1, 4).Draw(rt, "slots")
		calls := scripts(slots).Draw(rt, "calls")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, slots)
			var all sync.WaitGroup
			for _, c := range calls {
				p := s.plugin(fmt.Sprint(c.plugin))
				all.Go(func() { c.follow(p, sleep) })
			}
			for range 200 {
				pass(quantum / 8)
				broken = cmp.Or(broken, s.broken())
			}
			all.Wait()
			s.holds(0, 0)
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// TestNoSlotIsLostInARace is the same in real time, for the race detector:
// what is checked at the end does not depend on how long things take.
func TestNoSlotIsLostInARace(t *testing.T) {
	s := New(Config{Slots: 2, Quantum: 20 * time.Microsecond})
	var all sync.WaitGroup
	for i := range 16 {
		p := s.Plugin(&counted{})
		all.Go(func() {
			for j := range 200 {
				sc := script{timeout: time.Duration(1+(i*j)%50) * 20 * time.Microsecond}
				for k := range j % 7 {
					sc.steps = append(sc.steps, step{away: k%3 == 1, runs: time.Duration(k) * 5 * time.Microsecond})
				}
				sc.follow(p, work)
				if err := s.broken(); err != nil {
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
