package schedule

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPluginsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		first := s.hold("x")
		for _, plugin := range []string{"a", "a", "a", "b", "b", "c"} {
			s.short(plugin, 0)
		}
		s.holds(1, 6)
		s.expect("")
		first.Release()
		s.expect("a b c a b a")
		s.holds(0, 0)
	})
}

func TestAHundredCallsDelayANeighbourByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		for range 100 {
			s.short("a", quantum)
		}
		s.expect("a")
		pass(10 * quantum)
		s.expect("a a a a a a a a a a")
		s.short("b", quantum)
		pass(2 * quantum)
		s.expect("b a")
		pass(time.Second)
	})
}

func TestTheOneThatUsedLessGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		for range 8 {
			s.short("heavy", 4*quantum)
			s.short("light", quantum)
		}
		pass(24 * quantum)
		s.expect("heavy light light light light heavy light light light light heavy heavy heavy")
		pass(time.Second)
	})
}

// TestQuietIsNoClaim: who was quiet while another one ran does not shut it out
// for as long.
func TestQuietIsNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.short("busy", time.Hour)
		pass(time.Hour)
		s.expect("busy")
		first := s.hold("x")
		for range 3 * credit {
			s.short("quiet", quantum)
		}
		s.short("busy", quantum)
		first.Release()
		pass(credit*quantum + quantum/2)
		if log := s.noted(); log[len(log)-1] != "busy" || len(log) != credit+1 {
			t.Errorf("what happened: %v\nwant busy after %d of quiet", log, credit)
		}
		pass(time.Second)
	})
}

func TestLongCallsTakeTurnsAtTheirTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.spin(t.Context(), "a", 3)
		s.spin(t.Context(), "b", 2)
		pass(quantum - 1)
		s.expect("a")
		pass(1)
		s.expect("b")
		pass(time.Second)
		s.expect("a b a b b. a.")
		s.holds(0, 0)
		if a, b := s.metrics["a"].handovers, s.metrics["b"].handovers; a != 3 || b != 2 {
			t.Errorf("handed over %d and %d times, want 3 and 2", a, b)
		}
	})
}

func TestALoneCallKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slots := range []int{1, 2, 3} {
			s := newScene(t, slots)
			s.spin(t.Context(), "a", 5)
			pass(time.Second)
			s.expect("a a.")
			if m := s.metrics["a"]; m.handovers != 0 || len(m.waits) != 1 || m.waits[0] != 0 {
				t.Errorf("%d slots: %+v", slots, m)
			}
		}
	})
}

// TestCallsOfOnePluginShareItsTurn: a long call holds up those of its own
// plugin no more than those of others.
func TestCallsOfOnePluginShareItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.spin(t.Context(), "a", 3)
		s.short("a", 0)
		pass(quantum)
		s.expect("a a")
		pass(time.Second)
	})
}

func TestLongCallsLeaveASlotToShortOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 3)
		for _, plugin := range []string{"a", "b", "c"} {
			s.spin(t.Context(), plugin, 100)
		}
		s.expect("a b c")
		s.holds(3, 0)
		pass(quantum)
		s.holds(2, 1)
		for range 10 { // at any time
			s.short("e", quantum/20)
			s.began("e")
			s.short("d", 0) // the slot is taken by e
			s.holds(3, 2)
			pass(quantum)
		}
		pass(time.Second)
		s.holds(0, 0)
	})
}

func TestLongCallsUseAllSlotsButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		s.spin(t.Context(), "a", 2)
		s.spin(t.Context(), "b", 2)
		pass(quantum)
		s.holds(1, 1)
		pass(time.Second)
		s.holds(0, 0)
	})
}

func TestWaitsAreReportedOncePerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		turn := s.hold("x")
		s.spin(t.Context(), "a", 2)
		pass(quantum / 2)
		turn.Release()
		synctest.Wait()
		s.short("b", quantum)
		pass(time.Second)
		if waits := s.metrics["a"].waits; len(waits) != 1 || waits[0] != quantum/2+quantum {
			t.Errorf("a waited %v, want half a quantum to begin and one for b", waits)
		}
	})
}
