package schedule

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingPluginsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		first := s.acquire("x")
		for _, plugin := range []string{"a", "a", "a", "b", "b", "c"} {
			s.short(plugin, 0)
		}
		s.expectStats(1, 6)
		s.expect("")
		first.Release()
		s.expect("a b c a b a")
		s.expectStats(0, 0)
	})
}

func TestHundredWaitingCallsDelayAnotherPluginByOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
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

func TestPluginWithLeastSlotTimeIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		for range 8 {
			s.short("heavy", 4*quantum)
			s.short("light", quantum)
		}
		pass(24 * quantum)
		s.expect("heavy light light light light heavy light light light light heavy heavy heavy")
		pass(time.Second)
	})
}

// TestCreditIsBounded: a plugin that was idle while another one ran does not
// keep that one waiting for as long.
func TestCreditIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.short("busy", time.Hour)
		pass(time.Hour)
		s.expect("busy")
		first := s.acquire("x")
		for range 3 * credit {
			s.short("quiet", quantum)
		}
		s.short("busy", quantum)
		first.Release()
		pass(credit*quantum + quantum/2)
		if log := s.events(); log[len(log)-1] != "busy" || len(log) != credit+1 {
			t.Errorf("events: %v\nwant busy after %d calls of quiet", log, credit)
		}
		pass(time.Second)
	})
}

func TestLongCallsHandOverAtTheirTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.spin(t.Context(), "a", 3)
		s.spin(t.Context(), "b", 2)
		pass(quantum - 1)
		s.expect("a")
		pass(1)
		s.expect("b")
		pass(time.Second)
		s.expect("a b a b b. a.")
		s.expectStats(0, 0)
		if a, b := s.metrics["a"].handovers, s.metrics["b"].handovers; a != 3 || b != 2 {
			t.Errorf("handed over %d and %d times, want 3 and 2", a, b)
		}
	})
}

func TestOnlyCallKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slots := range []int{1, 2, 3} {
			s := newSimulation(t, slots)
			s.spin(t.Context(), "a", 5)
			pass(time.Second)
			s.expect("a a.")
			if m := s.metrics["a"]; m.handovers != 0 || len(m.waits) != 1 || m.waits[0] != 0 {
				t.Errorf("%d slots: %+v", slots, m)
			}
		}
	})
}

// TestLongCallHandsOverToItsOwnPlugin: it delays the other calls of its plugin
// no more than those of other plugins.
func TestLongCallHandsOverToItsOwnPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		s.spin(t.Context(), "a", 3)
		s.short("a", 0)
		pass(quantum)
		s.expect("a a")
		pass(time.Second)
	})
}

func TestLongCallsLeaveASlotForShortOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 3)
		for _, plugin := range []string{"a", "b", "c"} {
			s.spin(t.Context(), plugin, 100)
		}
		s.expect("a b c")
		s.expectStats(3, 0)
		pass(quantum)
		s.expectStats(2, 1)
		for range 10 { // at any time
			s.short("e", quantum/20)
			s.expectLast("e")
			s.short("d", 0) // the slot is taken by e
			s.expectStats(3, 2)
			pass(quantum)
		}
		pass(time.Second)
		s.expectStats(0, 0)
	})
}

func TestLongCallsUseAllSlotsButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		s.spin(t.Context(), "a", 2)
		s.spin(t.Context(), "b", 2)
		pass(quantum)
		s.expectStats(1, 1)
		pass(time.Second)
		s.expectStats(0, 0)
	})
}

func TestWaitsAreReportedOncePerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 1)
		task := s.acquire("x")
		s.spin(t.Context(), "a", 2)
		pass(quantum / 2)
		task.Release()
		synctest.Wait()
		s.short("b", quantum)
		pass(time.Second)
		if waits := s.metrics["a"].waits; len(waits) != 1 || waits[0] != quantum/2+quantum {
			t.Errorf("a waited %v, want half a quantum to begin and one for b", waits)
		}
	})
}
