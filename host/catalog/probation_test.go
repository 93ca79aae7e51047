package catalog

import (
	"testing"
	"testing/synctest"
	"time"
)

// lose says that the running generation does worse than the one before.
func lose(c *Catalog, plugin string) {
	c.RollBack(plugin, c.Statuses()[0].Generation, "it panics")
	synctest.Wait()
}

const rolledBack = "rolled back to generation 1: it panics; it is tried again when the file changes, or on SIGHUP"

func TestAGenerationThatDoesWorseIsRolledBack(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		lose(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
		expectStatus(t, c, "p degraded A/1 "+rolledBack)
		s := c.Statuses()[0]
		if s.Generation != 1 || s.Loads != 3 || s.Rollbacks != 1 || s.RejectedFor != "probation" || s.Rejected != "A/2" {
			t.Errorf("status: %+v", s)
		}
		if w.counters["rolled back p 2 to 1: it panics"] != 1 || w.counters["failed p probation"] != 1 {
			t.Errorf("counted %v", w.counters)
		}
		update(module("p", "A/2"), module("q", "broken"))
		time.Sleep(DefaultProbation) // fake time
		synctest.Wait()
		expectStatus(t, c, "p degraded A/1 "+rolledBack, "q failed  no module")
		if n := w.counters["failed p probation"]; n != 1 {
			t.Errorf("told %d times", n)
		}
		// Other code is tried, and the same again after it.
		update(module("p", "A/3"))
		w.expect(t, "start p A/3")
		lose(c, "p")
		w.expect(t, "start p A/1", "close p A/3")
		update(module("p", "A/2"))
		w.expect(t, "start p A/2")
	})
}

func TestARejectedModuleIsTriedAgainWhenToldTo(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		lose(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
		c.Forgive()
		synctest.Wait()
		w.expect(t, "start p A/2")
		expectStatus(t, c, "p running A/2")
		time.Sleep(DefaultProbation) // fake time
		synctest.Wait()
		w.expect(t, "close p A/1")
		lose(c, "p") // too late
		w.expect(t)
		expectStatus(t, c, "p running A/2")
	})
}

// TestAVerdictOnWhatNoLongerRunsIsNone: it came while the file was replaced.
func TestAVerdictOnWhatNoLongerRunsIsNone(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		lose(c, "p") // it has no probation
		update(module("p", "A/2"))
		update(module("p", "A/3"))
		c.RollBack("p", 2, "it panics")
		c.RollBack("other", 1, "it panics")
		synctest.Wait()
		expectStatus(t, c, "p running A/3")
		// A/2 had not passed: A/1 is what to go back to.
		w.expect(t, "start p A/1", "start p A/2", "start p A/3", "close p A/2")
		lose(c, "p")
		w.expect(t, "start p A/1", "close p A/3")
	})
}

// TestThePolicyHoldsForWhatRuns: what an administrator takes away is gone,
// whatever becomes of the code beside it.
func TestThePolicyHoldsForWhatRuns(t *testing.T) {
	w := newWorld("A")
	under := func(m Module, policy string) Module { m.Policy = []byte(policy); return m }
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(under(module("p", "broken"), "less"))
		w.expect(t, "start p A/1", "reload p A/1", "start p A/1 less", "close p A/1")
		expectStatus(t, c, "p degraded A/1 no module")
		update(under(module("p", "broken"), "unfit"))
		w.expect(t)

		update(under(module("p", "A/2"), "less"))
		w.expect(t, "start p A/2 less")
		update(under(module("p", "A/2"), "nothing"))
		w.expect(t, "reload p A/2", "start p A/2 nothing", "close p A/2")
		lose(c, "p")
		w.expect(t, "reload p A/1", "start p A/1 nothing", "close p A/1", "close p A/2")
		update(under(module("p", "A/2"), "more"))
		w.expect(t, "reload p A/1", "start p A/1 more", "close p A/1")
		if s := c.Statuses()[0]; s.State != Degraded || s.RejectedFor != "probation" {
			t.Errorf("status: %+v", s)
		}
	})
}

// TestGoingBackIsNoProbation: the file before was put back.
func TestGoingBackIsNoProbation(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		update(module("p", "A/1"))
		w.expect(t, "start p A/1", "start p A/2", "reload p A/1", "start p A/1", "close p A/2", "close p A/1")
		lose(c, "p")
		w.expect(t)
		expectStatus(t, c, "p running A/1")
	})
}

// TestAPluginThatComesBackWhileItStops begins anew when the old one has ended.
func TestAPluginThatComesBackWhileItStops(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		w.stopping = make(chan struct{})
		update(module("p", "A/1"))
		update()
		expectStatus(t, c, "p draining A/1")
		update(module("p", "A/2"))
		expectStatus(t, c, "p draining A/1")
		close(w.stopping)
		synctest.Wait()
		w.expect(t, "start p A/1", "stop p", "close p A/1", "start p A/2")
		if s := c.Statuses()[0]; s.State != Running || s.Generation != 1 || s.Loads != 1 {
			t.Errorf("status: %+v", s)
		}
		if len(c.Running()) != 1 || w.counters["stopped p"] != 1 || w.counters["started p"] != 2 {
			t.Errorf("%d run, counted %v", len(c.Running()), w.counters)
		}
	})
}
