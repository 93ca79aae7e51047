package schedule

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errEnough = errors.New("enough")

func TestAContextThatEndsEndsTheWaitToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		turn := s.hold("x")
		ctx, cancel := context.WithCancelCause(t.Context())
		s.spin(ctx, "a", 1)
		s.short("b", 0)
		s.holds(1, 2)
		cancel(errEnough)
		s.expect("a!")
		s.holds(1, 1)
		turn.Release()
		s.expect("b")
		s.holds(0, 0)
		if _, err := s.plugin("a").Acquire(ctx); !errors.Is(err, errEnough) {
			t.Errorf("after the end: %v, want the cause", err)
		}
	})
}

func TestAContextThatEndsEndsTheWaitToGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		s.spin(ctx, "a", 100)
		s.spin(t.Context(), "b", 1)
		pass(quantum)
		s.expect("a b")
		cancel(errEnough)
		s.expect("a!")
		s.holds(1, 0)
		pass(time.Second)
		s.expect("b.")
		s.holds(0, 0)
	})
}

// TestASlotGivenTooLateGoesOn: the slot and the end of the context come
// together, in either order.
func TestASlotGivenTooLateGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			s := newScene(t, 1)
			turn := s.hold("x")
			ctx, cancel := context.WithCancelCause(t.Context())
			s.spin(ctx, "a", 1)
			s.short("b", 0)
			go turn.Release()
			cancel(errEnough)
			pass(time.Second)
			s.holds(0, 0)
		}
	})
}

func TestReleaseTwiceGivesOneSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		one, two := s.hold("a"), s.hold("a")
		one.Release()
		one.Release()
		s.holds(1, 0)
		two.Release()
		s.holds(0, 0)
		if n := len(s.metrics["a"].waits); n != 2 {
			t.Errorf("%d waits were reported for two calls", n)
		}
	})
}

func TestNoTurnIsNoTrouble(t *testing.T) {
	var turn *Turn
	turn.Leave()
	if _, err := turn.Return(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := turn.Yield(t.Context()); err != nil {
		t.Error(err)
	}
	turn.Release()
}

func TestWhoIsAwayLendsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		turn := s.hold("a")
		turn.Leave()
		pass(time.Hour)
		s.holds(1, 0) // nobody wants it
		s.short("b", 10*quantum)
		s.expect("")
		pass(2 * quantum)
		s.expect("b")
		waited, err := turn.Return(t.Context())
		if err != nil || waited != 10*quantum {
			t.Errorf("waited %s, %v, want until b ended", waited, err)
		}
		s.holds(1, 0)
		turn.Release()
		s.holds(0, 0)
	})
}

func TestAShortAbsenceCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		turn := s.hold("a")
		s.short("b", 0)
		for range 10 {
			turn.Leave()
			time.Sleep(quantum * 9 / 10) // fake time
			if waited, err := turn.Return(t.Context()); waited != 0 || err != nil {
				t.Errorf("waited %s, %v", waited, err)
			}
		}
		s.expect("")
		turn.Release()
		s.expect("b")
	})
}

// TestACallThatEndsWhileAwayHoldsNothing: a panic in a host function ends the
// call without a Return.
func TestACallThatEndsWhileAwayHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			s := newScene(t, 1)
			turn := s.hold("a")
			turn.Leave()
			if lost {
				s.short("b", 0)
				pass(2 * quantum)
				s.expect("b")
			}
			turn.Release()
			s.holds(0, 0)
			pass(time.Second)
			s.holds(0, 0)
		}
	})
}

func TestTheWaitToComeBackEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		turn := s.hold("a")
		turn.Leave()
		s.short("b", time.Second)
		pass(2 * quantum)
		ctx, cancel := context.WithTimeoutCause(t.Context(), quantum, errEnough)
		defer cancel()
		if _, err := turn.Return(ctx); !errors.Is(err, errEnough) {
			t.Errorf("got %v, want the cause", err)
		}
		turn.Release()
		s.holds(1, 0)
		pass(time.Second)
		s.holds(0, 0)
	})
}
