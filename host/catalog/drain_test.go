package catalog

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestNobodyWaitsForCallsOfWhatWasReplaced: a call may take as long as its
// policy lets it, and meanwhile a plugin is replaced, removed and put back,
// and the host may end.
func TestNobodyWaitsForCallsOfWhatWasReplaced(t *testing.T) {
	w := newWorld("A")
	policed := func(text, policy string) Module {
		m := module("p", text)
		m.Policy = []byte(policy)
		return m
	}
	scenario(t, w, func(update func(...Module), c *Catalog) {
		w.busy["A/1"] = make(chan struct{}) // until the controllers stop
		update(policed("A/1", "x"))
		update(policed("A/1", "y"))
		w.expect(t, "start p A/1 x", "reload p A/1", "start p A/1 y")
		expectStatus(t, c, "p running A/1")
		if s := c.Statuses()[0]; s.Generation != 2 {
			t.Errorf("generation %d is shown, 2 runs", s.Generation)
		}
		update(policed("A/2", "y"))
		w.expect(t, "start p A/2 y")
		time.Sleep(DefaultProbation) // fake time
		synctest.Wait()
		update(policed("A/3", "y"))
		w.expect(t, "start p A/3 y")
	})
	w.expect(t, "stop p", "close p A/2", "close p A/3", "close p A/1", "close p A/1")
}

// TestARefusedModuleIsNotLoadedForEachChangeOfOthers: a load may take a minute
// of the processor.
func TestARefusedModuleIsNotLoadedForEachChangeOfOthers(t *testing.T) {
	w := newWorld("A")
	loads := func() int { return w.counters["load p"] }
	scenario(t, w, func(update func(...Module), c *Catalog) {
		bad := module("p", "broken")
		update(bad)
		update(bad, module("q", "A/1"))
		update(bad, module("q", "A/2"))
		update(bad)
		if loads() != 1 {
			t.Errorf("loaded %d times while others changed", loads())
		}
		expectStatus(t, c, "p failed  no module")
		c.Forgive()
		synctest.Wait()
		if loads() != 2 {
			t.Errorf("loaded %d times after it was to be tried again", loads())
		}
		bad.Policy = []byte("x")
		update(bad)
		if loads() != 3 {
			t.Errorf("loaded %d times after its policy changed", loads())
		}
		update(Module{Name: "p", Err: errors.New("permission denied")})
		update(bad)
		if loads() != 3 {
			t.Errorf("loaded %d times after it could not be read for a moment", loads())
		}
		update(module("p", "A/1"))
		update(bad)
		if loads() != 5 {
			t.Errorf("loaded %d times after another one was there", loads())
		}
		update()
		update(bad)
		if loads() != 6 {
			t.Errorf("loaded %d times after it came back", loads())
		}
	})
}
