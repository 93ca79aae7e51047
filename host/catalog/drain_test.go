package catalog

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call may take as long as its policy allows. Meanwhile the plugin can be
// replaced, removed and put back, and the host can stop.
func TestCallsOfAReplacedRevisionDelayNothing(t *testing.T) {
	w := newWorld("A")
	moduleUnder := func(text, policyText string) Module { return under(module("p", text), policyText) }
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		w.busy["A/1"] = make(chan struct{}) // until the controllers have stopped
		update(moduleUnder("A/1", "x"))
		update(moduleUnder("A/1", "y"))
		w.expect(t, "start p A/1 x", "with policy p A/1", "start p A/1 y")
		expectStatus(t, c, "p running A/1")
		if s := c.Statuses()[0]; s.Revision != 2 {
			t.Errorf("the status has revision %d, and 2 is running", s.Revision)
		}
		update(moduleUnder("A/2", "y"))
		w.expect(t, "start p A/2 y")
		time.Sleep(testProbation) // fake time
		synctest.Wait()
		update(moduleUnder("A/3", "y"))
		w.expect(t, "start p A/3 y")
	})
	w.expect(t, "stop p", "close p A/2", "close p A/3", "close p A/1", "close p A/1")
}

// To load a module may take a minute of processor time.
func TestARefusedModuleIsNotLoadedAgainWhenOthersChange(t *testing.T) {
	w := newWorld("A")
	loads := func() int { return w.counters["load p"] }
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		bad := module("p", "broken")
		update(bad)
		update(bad, module("q", "A/1"))
		update(bad, module("q", "A/2"))
		update(bad)
		if loads() != 1 {
			t.Errorf("loaded %d times while others changed", loads())
		}
		expectStatus(t, c, "p failed  no module")
		c.RetryRefused()
		synctest.Wait()
		if loads() != 2 {
			t.Errorf("loaded %d times after RetryRefused", loads())
		}
		bad.Policy = policy("x")
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
			t.Errorf("loaded %d times after another one replaced it", loads())
		}
		update()
		update(bad)
		if loads() != 6 {
			t.Errorf("loaded %d times after it was removed and put back", loads())
		}
	})
}
