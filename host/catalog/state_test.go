package catalog

import (
	"slices"
	"testing"
)

// TestStateFollowsFromFacts goes through all facts: each set of them has one state, and each state has one.
func TestStateFollowsFromFacts(t *testing.T) {
	reached := map[State]bool{}
	for bits := range 1 << 7 {
		is := func(i int) bool { return bits&(1<<i) != 0 }
		f := facts{is(0), is(1), is(2), is(3), is(4), Impairments{is(5), is(6)}}
		state := f.state()
		reached[state] = true
		want := map[State]bool{
			Draining:    f.draining,
			Loading:     f.loading && !f.draining,
			Waiting:     !f.draining && !f.loading && !f.runs && f.waits,
			Failed:      !f.draining && !f.loading && !f.runs && !f.waits,
			Standby:     !f.draining && !f.loading && f.runs && f.NotLeading,
			Quarantined: !f.draining && !f.loading && f.runs && !f.NotLeading && f.Tripped,
			Degraded:    !f.draining && !f.loading && f.runs && !f.NotLeading && !f.Tripped && f.failed,
			Running:     !f.draining && !f.loading && f.runs && !f.NotLeading && !f.Tripped && !f.failed,
		}
		if !want[state] {
			t.Errorf("%+v: %s", f, state)
		}
		if runs := !f.draining && !f.loading && f.runs; state.Runs() != runs {
			t.Errorf("%+v: %s runs: %v", f, state, state.Runs())
		}
	}
	for _, state := range States() {
		if !reached[state] {
			t.Errorf("%s is reached by no facts", state)
		}
	}
	if len(reached) != len(States()) || slices.Contains(States(), "") {
		t.Errorf("states %v, listed are %v", reached, States())
	}
}

// What capabilities learn of a plugin is what /plugins has.
func TestTheStateIsThatOfWhatRunsNow(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		for state, impaired := range map[State]Impairments{Running: {}, Quarantined: {Tripped: true}, Standby: {NotLeading: true}} {
			w.impaired = impaired
			one, _ := c.Status("p")
			if all := c.Statuses(); one.State != state || all[0].State != state {
				t.Errorf("%+v: %s, and %s in the list", impaired, one.State, all[0].State)
			}
		}
	})
}
