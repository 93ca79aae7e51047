package schedule

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errEnough = errors.New("enough")

func TestContextEndsTheWaitToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		task := s.acquire("x")
		ctx, cancel := context.WithCancelCause(t.Context())
		s.spin(ctx, "a", 1)
		s.short("b", 0)
		s.expectStats(1, 2)
		cancel(errEnough)
		s.expect("a!")
		s.expectStats(1, 1)
		task.Release()
		s.expect("b")
		s.expectStats(0, 0)
		if _, err := s.plugin("a").Acquire(ctx); !errors.Is(err, errEnough) {
			t.Errorf("after the end: %v, want the cause", err)
		}
	})
}

func TestContextEndsTheWaitToContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		s.spin(ctx, "a", 100)
		s.spin(t.Context(), "b", 1)
		pass(quantum)
		s.expect("a b")
		cancel(errEnough)
		s.expect("a!")
		s.expectStats(1, 0)
		pass(time.Second)
		s.expect("b.")
		s.expectStats(0, 0)
	})
}

// TestSlotGrantedToAnEndedCallIsPassedOn: the grant and the end of the context
// race, in either order.
func TestSlotGrantedToAnEndedCallIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			s := newSimulation(t, 1)
			task := s.acquire("x")
			ctx, cancel := context.WithCancelCause(t.Context())
			s.spin(ctx, "a", 1)
			s.short("b", 0)
			go task.Release()
			cancel(errEnough)
			pass(time.Second)
			s.expectStats(0, 0)
		}
	})
}

func TestSecondReleaseDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		one, two := s.acquire("a"), s.acquire("a")
		one.Release()
		one.Release()
		s.expectStats(1, 0)
		two.Release()
		s.expectStats(0, 0)
		if n := len(s.metrics["a"].waits); n != 2 {
			t.Errorf("%d waits were reported for two calls", n)
		}
	})
}

func TestMethodsOfANilTaskDoNothing(t *testing.T) {
	var task *Task
	task.Block()
	task.Leave()
	if _, err := task.Unblock(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := task.Yield(t.Context()); err != nil {
		t.Error(err)
	}
	task.Release()
}

func TestBlockedCallLosesItsSlotToAWaitingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		task := s.acquire("a")
		task.Block()
		pass(time.Hour)
		s.expectStats(1, 0) // no call waits for it
		s.short("b", 10*quantum)
		s.expect("")
		pass(2 * quantum)
		s.expect("b")
		waited, err := task.Unblock(t.Context())
		if err != nil || waited != 10*quantum {
			t.Errorf("waited %s, %v, want until b ended", waited, err)
		}
		s.expectStats(1, 0)
		task.Release()
		s.expectStats(0, 0)
	})
}

func TestCallThatLeavesGivesItsSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		task := s.acquire("a")
		s.short("b", quantum)
		s.expect("")
		task.Leave()
		s.expect("b")
		s.expectStats(1, 0)
		pass(time.Hour)
		s.expectStats(0, 0)
		if waited, err := task.Unblock(t.Context()); waited != 0 || err != nil {
			t.Errorf("waited %s, %v", waited, err)
		}
		s.expectStats(1, 0)
		task.Leave() // a panic in the host function ends the call without Unblock
		task.Release()
		s.expectStats(0, 0)
	})
}

func TestCallThatBlocksBrieflyKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		task := s.acquire("a")
		s.short("b", 0)
		for range 10 {
			task.Block()
			time.Sleep(quantum * 9 / 10) // fake time
			if waited, err := task.Unblock(t.Context()); waited != 0 || err != nil {
				t.Errorf("waited %s, %v", waited, err)
			}
		}
		s.expect("")
		task.Release()
		s.expect("b")
	})
}

// TestReleaseOfABlockedCallFreesItsSlot: a panic in a host function ends the
// call without Unblock.
func TestReleaseOfABlockedCallFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, revoked := range []bool{false, true} {
			s := newSimulation(t, 1)
			task := s.acquire("a")
			task.Block()
			if revoked {
				s.short("b", 0)
				pass(2 * quantum)
				s.expect("b")
			}
			task.Release()
			s.expectStats(0, 0)
			pass(time.Second)
			s.expectStats(0, 0)
		}
	})
}

func TestContextEndsTheWaitToUnblock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		task := s.acquire("a")
		task.Block()
		s.short("b", time.Second)
		pass(2 * quantum)
		ctx, cancel := context.WithTimeoutCause(t.Context(), quantum, errEnough)
		defer cancel()
		if _, err := task.Unblock(ctx); !errors.Is(err, errEnough) {
			t.Errorf("got %v, want the cause", err)
		}
		task.Release()
		s.expectStats(1, 0)
		pass(time.Second)
		s.expectStats(0, 0)
	})
}

// TestCallWithoutASlotGoesOn: a guest whose memory was refused since its context ended
// runs until its next tick, or calls a host function before.
func TestCallWithoutASlotGoesOn(t *testing.T) {
	for name, next := range map[string]func(context.Context, *Task) error{
		"tick": func(ctx context.Context, task *Task) error {
			_, err := task.Yield(ctx)
			return err
		},
		"leave": func(ctx context.Context, task *Task) error {
			task.Leave()
			_, err := task.Unblock(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, 1)
				task := s.acquire("a")
				task.Block()
				s.short("b", time.Second)
				pass(2 * quantum)
				ctx, cancel := context.WithTimeoutCause(t.Context(), quantum, errEnough)
				defer cancel()
				if _, err := task.Unblock(ctx); !errors.Is(err, errEnough) {
					t.Fatalf("got %v, want the cause", err)
				}
				pass(2 * quantum)
				s.expectStats(1, 0)
				if err := next(ctx, task); !errors.Is(err, errEnough) {
					t.Errorf("got %v, want the cause", err)
				}
				s.expectStats(1, 0)
				task.Release()
				s.expectStats(1, 0)
				pass(time.Second)
				s.expectStats(0, 0)
			})
		})
	}
}
