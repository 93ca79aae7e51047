package catalog

import (
	"testing"
	"testing/synctest"
	"time"
)

// What an administrator takes away is gone at once, and what is given back comes back.
func TestAPolicyThatDeniesWhatRunsStopsIt(t *testing.T) {
	w := newWorld("A")
	rest := func() { time.Sleep(2 * time.Second); synctest.Wait() } // fake time
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(under(module("p", "A/1"), "deny all"))
		w.expect(t, "start p A/1", "with policy p A/1", "with policy p A/1", "close p A/1", "stop p", "close p A/1")
		expectStatus(t, c, "p waiting  the policy does not allow it")
		if w.counters["waits p"] != 1 || w.counters["stopped p, ran: true"] != 1 || len(c.Running()) != 0 {
			t.Errorf("events: %v", w.counters)
		}
		rest()
		w.expect(t)
		update(under(module("p", "A/1"), "less"))
		expectStatus(t, c, "p running A/1")
		w.expect(t, "close p A/1", "start p A/1 less")

		// Beside code that cannot be loaded, or is not allowed itself.
		update(under(module("p", "broken"), "deny all"))
		expectStatus(t, c, "p failed  no module")
		w.expect(t, "with policy p A/1", "close p A/1", "stop p", "close p A/1")
		update(under(module("p", "A/1"), "less"))
		update(under(module("p", "A/2"), "deny /2"))
		w.expect(t, "start p A/1 less", "with policy p A/1", "start p A/1 deny /2", "close p A/1")
		expectStatus(t, c, "p degraded A/1 the policy does not allow it")
	})
}

// After a rollback nothing but the rejected module is left.
func TestAPolicyThatDeniesWhatWasRolledBackToStopsIt(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/2"))
		update(module("p", "A/3"))
		failProbation(c, "p")
		expectStatus(t, c, "p degraded A/2 rolled back to revision 1: it panics; it is tried again when the file changes, or on SIGHUP")
		update(under(module("p", "A/3"), "deny /2"))
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expectRunning(t, "p A/3")
	})
}

// The rollback is reported while the policy is on its way.
func TestARollbackUnderAPolicyThatDeniesEverything(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/3"))
		c.RollBack("p", c.Statuses()[0].Revision, "it panics")
		update(under(module("p", "A/3"), "deny all"))
		w.expectRunning(t)
		update(under(module("p", "A/3"), "less"))
		w.expectRunning(t, "p A/3")
	})
}
