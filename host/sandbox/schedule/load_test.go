package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestShortCallsOfAHeavyPluginLeaveASlot, which they would otherwise hold all
// the time, one after the other.
func TestShortCallsOfAHeavyPluginLeaveASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		s.short("light", 0)
		for range 2000 {
			s.short("heavy", quantum/10)
		}
		s.expectStats(2, 1998)
		pass(lightLoad)
		for range 20 {
			before := s.Stats().Waiting
			s.expectStats(1, before)
			s.short("heavy", quantum/10) // a new call may not have it either
			s.expectStats(1, before+1)
			s.short("light", 0)
			s.expectLast("light")
			pass(quantum / 10)
		}
		pass(time.Second)
		s.expectStats(0, 0)
	})
}

// TestAHeavyPluginWithoutWaitingCallsLeavesASlot: its next call waits for its last one.
func TestAHeavyPluginWithoutWaitingCallsLeavesASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		s.short("light", 0)
		s.short("heavy", 2*lightLoad)
		pass(2 * lightLoad)
		s.short("heavy", quantum/10)
		s.expectStats(1, 0)
		s.short("heavy", quantum/10)
		s.expectStats(1, 1)
		s.short("light", 0)
		s.expectLast("light")
		pass(time.Second)
		s.expectStats(0, 0)
	})
}

// TestPluginThatIsAloneGetsAllSlots after aloneAfter, until another one begins a
// call.
func TestPluginThatIsAloneGetsAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		s.short("light", 0)
		ctx, cancel := context.WithCancel(t.Context())
		s.spin(ctx, "heavy", 100_000)
		s.spin(ctx, "heavy", 100_000)
		pass(aloneAfter)
		s.expectStats(1, 1)
		pass(2 * quantum)
		s.expectStats(2, 0)
		s.short("light", 0) // gets a slot when the quantum is over
		pass(quantum)
		s.expectLast("light")
		s.expectStats(1, 1)
		s.short("light", 0)
		s.expectLast("light")
		cancel()
		pass(quantum)
		s.expectStats(0, 0)
	})
}

// TestLoadDecreasesWithTime: a heavy plugin becomes light again, and a plugin
// that uses little all the time never becomes heavy.
func TestLoadDecreasesWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		heavy := func() bool { return s.heavy(s.plugin("p"), time.Now()) }
		for range 1000 {
			s.short("p", quantum/10)
			pass(quantum / 2)
		}
		if heavy() {
			t.Error("heavy with a fifth of a slot")
		}
		s.short("p", 2*lightLoad)
		pass(2 * lightLoad)
		if !heavy() {
			t.Error("not heavy after twice the load of a light plugin at once")
		}
		pass(loadWindow * 3 / 4)
		if heavy() {
			t.Error("still heavy after most of the window")
		}
	})
}

// TestHeavyIsRelativeToTheHighestLoad: on a busy machine all calls take longer,
// and a plugin that is light in comparison stays light.
func TestHeavyIsRelativeToTheHighestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		s.spin(t.Context(), "spinner", 1000)
		for range 100 {
			s.short("slow", 3*quantum)
			s.expectLast("slow")
			pass(8 * quantum)
		}
		if load := s.plugin("slow").loadAt(time.Now()); load < lightLoad {
			t.Errorf("the load is %s, which is none", load)
		}
		pass(time.Minute)
	})
}
