package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestManyShortCallsLeaveASlot: they would else hold all slots for ever, one
// after the other.
func TestManyShortCallsLeaveASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		s.short("light", 0)
		for range 2000 {
			s.short("heavy", quantum/10)
		}
		s.holds(2, 1998)
		pass(light)
		for range 20 {
			before := s.Stats().Waiting
			s.holds(1, before)
			s.short("heavy", quantum/10) // a new one may not have it either
			s.holds(1, before+1)
			s.short("light", 0)
			s.began("light")
			pass(quantum / 10)
		}
		pass(time.Second)
		s.holds(0, 0)
	})
}

// TestWhoIsAloneHasAllSlots: for whom should one be left?
func TestWhoIsAloneHasAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		s.short("light", 0)
		ctx, cancel := context.WithCancel(t.Context())
		s.spin(ctx, "heavy", 100_000)
		s.spin(ctx, "heavy", 100_000)
		pass(aloneAfter)
		s.holds(1, 1)
		pass(2 * quantum)
		s.holds(2, 0)
		s.short("light", 0) // has a slot when the quantum is over
		pass(quantum)
		s.began("light")
		s.holds(1, 1)
		s.short("light", 0)
		s.began("light")
		cancel()
		pass(quantum)
		s.holds(0, 0)
	})
}

// TestLoadDrains: who was heavy is light again after a while, and an even use
// of a little does not make heavy.
func TestLoadDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		heavy := func() bool { return s.heavy(s.plugin("p"), time.Now()) }
		for range 1000 {
			s.short("p", quantum/10)
			pass(quantum / 2)
		}
		if heavy() {
			t.Error("heavy by a fifth of a slot")
		}
		s.short("p", 2*light)
		pass(2 * light)
		if !heavy() {
			t.Error("not heavy after twice as much at once as light plugins may use")
		}
		pass(memory * 3 / 4)
		if heavy() {
			t.Error("still heavy when that was a while ago")
		}
	})
}

// TestLightIsBesideTheHeaviest: on a busy machine calls take longer than they
// should, and who is light in comparison stays so.
func TestLightIsBesideTheHeaviest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		s.spin(t.Context(), "spinner", 1000)
		for range 100 {
			s.short("slow", 3*quantum)
			s.began("slow")
			pass(8 * quantum)
		}
		if load := s.plugin("slow").loadAt(time.Now()); load < light {
			t.Errorf("the load is %s, which is none", load)
		}
		pass(time.Minute)
	})
}
