package catalog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// failProbation reports that the running revision fails for more objects than the
// one before it.
func failProbation(c *testCatalog, plugin string) {
	c.RollBack(plugin, c.Statuses()[0].Revision, "it panics")
	synctest.Wait()
}

const rolledBack = "rolled back to revision 1: it panics; it is tried again when the file changes, or on SIGHUP"

func TestARevisionThatFailsItsProbationIsRolledBack(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		failProbation(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
		expectStatus(t, c, "p degraded A/1 "+rolledBack)
		s := c.Statuses()[0]
		if s.Revision != 1 || s.Loads != 3 || s.Rollbacks != 1 || s.FailedStep != "probation" || s.Rejected != "A/2" {
			t.Errorf("status: %+v", s)
		}
		if w.counters["rolled back p 2 to 1: it panics"] != 1 || w.counters["refused p probation"] != 1 {
			t.Errorf("counted %v", w.counters)
		}
		update(module("p", "A/2"), module("q", "broken"))
		time.Sleep(testProbation) // fake time
		synctest.Wait()
		expectStatus(t, c, "p degraded A/1 "+rolledBack, "q failed  no module")
		if n := w.counters["refused p probation"]; n != 1 {
			t.Errorf("reported %d times", n)
		}
		// Other code is tried, and after that the rejected code again.
		update(module("p", "A/3"))
		w.expect(t, "start p A/3")
		failProbation(c, "p")
		w.expect(t, "start p A/1", "close p A/3")
		update(module("p", "A/2"))
		w.expect(t, "start p A/2")
	})
}

func TestRetryRefusedTriesARejectedModuleAgain(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		failProbation(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
		c.RetryRefused()
		synctest.Wait()
		w.expect(t, "start p A/2")
		expectStatus(t, c, "p running A/2")
		time.Sleep(testProbation) // fake time
		synctest.Wait()
		w.expect(t, "close p A/1")
		failProbation(c, "p") // its probation has ended
		w.expect(t)
		expectStatus(t, c, "p running A/2")
	})
}

// probationRunner records whether any revision was on probation when it started.
type probationRunner struct {
	*world
	onProbation bool
}

func (r *probationRunner) Start(ctx context.Context, g *Revision[*guest], claim func() error) error {
	r.onProbation = r.onProbation || !g.Probation.IsZero()
	return r.world.Start(ctx, g, claim)
}

func TestWithoutProbationTheReplacedRevisionIsClosedAtOnce(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		runner := &probationRunner{world: w}
		c.Runner, c.Probation = runner, 0
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		failProbation(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "close p A/1")
		expectStatus(t, c, "p running A/2")
		if runner.onProbation {
			t.Error("the revision was on probation")
		}
	})
}

// The failure is reported while the file is being replaced.
func TestAFailureOfAReplacedRevisionIsIgnored(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		failProbation(c, "p") // it is not on probation
		update(module("p", "A/2"))
		update(module("p", "A/3"))
		c.RollBack("p", 2, "it panics")
		c.RollBack("other", 1, "it panics")
		synctest.Wait()
		expectStatus(t, c, "p running A/3")
		// A/2 did not pass its probation, so A/1 stays the fallback.
		w.expect(t, "start p A/1", "start p A/2", "start p A/3", "close p A/2")
		failProbation(c, "p")
		w.expect(t, "start p A/1", "close p A/3")
	})
}

func TestAHealthyRevisionOnProbationBecomesTheFallback(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		w.mu.Lock()
		w.healthy["p"] = true
		w.mu.Unlock()
		update(module("p", "A/3"))
		w.expect(t, "start p A/1", "start p A/2", "start p A/3", "close p A/1")
		failProbation(c, "p")
		w.expect(t, "start p A/2", "close p A/3")
		time.Sleep(2 * testProbation) // fake time
		failProbation(c, "p")
		w.expect(t)
		if s := c.Statuses()[0]; s.Revision != 2 || s.State != Degraded {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestANewPolicyOfAHealthyRevisionKeepsTheFallback(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		w.mu.Lock()
		w.healthy["p"] = true
		w.mu.Unlock()
		update(under(module("p", "A/2"), "less"))
		failProbation(c, "p")
		w.expectRunning(t, "p A/1")
	})
}

// What an administrator takes away is gone, whatever the state of the new code.
func TestThePolicyOfARefusedModuleAppliesToTheRunningRevision(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(under(module("p", "broken"), "less"))
		w.expect(t, "start p A/1", "with policy p A/1", "start p A/1 less", "close p A/1")
		expectStatus(t, c, "p degraded A/1 no module")
		update(under(module("p", "broken"), "unfit"))
		w.expect(t)

		update(under(module("p", "A/2"), "less"))
		w.expect(t, "start p A/2 less")
		update(under(module("p", "A/2"), "nothing"))
		w.expect(t, "with policy p A/2", "start p A/2 nothing", "close p A/2")
		failProbation(c, "p")
		w.expect(t, "with policy p A/1", "start p A/1 nothing", "close p A/1", "close p A/2")
		update(under(module("p", "A/2"), "more"))
		w.expect(t, "with policy p A/1", "start p A/1 more", "close p A/1")
		if s := c.Statuses()[0]; s.State != Degraded || s.FailedStep != "probation" {
			t.Errorf("status: %+v", s)
		}
	})
}

// The policy is known although the module is not.
func TestThePolicyOfAModuleThatCannotBeReadAppliesToTheRunningRevision(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		unreadable := Module{Name: "p", Err: errors.New("permission denied")}
		update(module("p", "A/1"))
		update(under(unreadable, "less"))
		w.expect(t, "start p A/1", "with policy p A/1", "start p A/1 less", "close p A/1")
		expectStatus(t, c, "p degraded A/1 permission denied")
		unreadable.PolicyUnknown = true
		update(unreadable)
		w.expect(t)

		// Also while the failing module is rolled back, and after that.
		unreadable.PolicyUnknown = false
		update(under(module("p", "A/2"), "less"))
		failProbation(c, "p")
		w.expect(t, "start p A/2 less", "start p A/1 less", "close p A/2")
		update(under(unreadable, "least"))
		w.expect(t, "with policy p A/1", "start p A/1 least", "close p A/1")
		update(under(unreadable, "deny all"))
		w.expectRunning(t)
	})
}

func TestPuttingTheFallbacksFileBackEndsTheProbation(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		update(module("p", "A/1"))
		w.expect(t, "start p A/1", "start p A/2", "with policy p A/1", "start p A/1", "close p A/2", "close p A/1")
		failProbation(c, "p")
		w.expect(t)
		expectStatus(t, c, "p running A/1")
	})
}

func TestAPluginThatIsPutBackWhileItStopsStartsAfterwards(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		w.stopping = make(chan struct{})
		update(module("p", "A/1"))
		update()
		expectStatus(t, c, "p draining A/1")
		update(module("p", "A/2"))
		expectStatus(t, c, "p draining A/1")
		close(w.stopping)
		synctest.Wait()
		w.expect(t, "start p A/1", "stop p", "close p A/1", "start p A/2")
		if s := c.Statuses()[0]; s.State != Running || s.Revision != 1 || s.Loads != 1 {
			t.Errorf("status: %+v", s)
		}
		if len(c.Running()) != 1 || w.counters["stopped p, ran: true"] != 1 || w.counters["started p"] != 2 {
			t.Errorf("%d are running, counted %v", len(c.Running()), w.counters)
		}
	})
}

// However long the module has waited before.
func TestProbationBeginsWithTheStart(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "Late"))
		time.Sleep(2 * testProbation) // fake time
		w.serve("Late")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p A/1", "start p Late")
		failProbation(c, "p")
		w.expect(t, "start p A/1", "close p Late")
	})
}

func TestThePolicyOfAWaitingModuleAppliesToTheRunningRevision(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(under(module("p", "Late"), "less"))
		w.expect(t, "start p A/1", "with policy p A/1", "start p A/1 less", "close p A/1")
		time.Sleep(time.Minute) // fake time
		expectStatus(t, c, "p degraded A/1 kind Late is not served")
		w.expect(t)
		w.serve("Late")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p Late less")
		if s := c.Statuses()[0]; s.Revision != 4 { // higher than that of the revision that it replaces
			t.Errorf("revision %d", s.Revision)
		}
		// The same for a module that overlaps with a plugin before it by name.
		update(module("o", "B/1"), under(module("p", "Late"), "less"))
		update(module("o", "B/1"), under(module("p", "B/2"), "least"))
		w.expect(t, "start o B/1", "with policy p Late", "start p Late least", "close p Late")
	})
}

// Other plugins change meanwhile, and the fallback has to wait for its kind.
func TestAFailedProbationIsKeptUntilTheFallbackCanStart(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "B/2"))
		w.withdraw("A")
		failProbation(c, "p")
		expectStatus(t, c, "p running B/2")
		c.RollBack("p", 1, "late") // of a revision that is gone
		update(module("p", "B/2"), module("q", "broken"))
		c.RetryRefused()
		w.serve("A")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p A/1", "start p B/2", "start p A/1", "close p B/2")
	})
}

// The file changes while the fallback is being started.
func TestARollbackThatIsInterruptedIsRepeated(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		w.hold("A/1")
		failProbation(c, "p")
		update(module("p", "broken"))
		w.release("A/1")
		synctest.Wait()
		update(module("p", "broken"))
		expectStatus(t, c, "p degraded A/1 no module")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
	})
}

func TestARejectedModuleThatCannotBeReadForAMomentStaysRejected(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		failProbation(c, "p")
		update(Module{Name: "p", Err: errors.New("permission denied")})
		expectStatus(t, c, "p degraded A/1 permission denied")
		update(module("p", "A/2"))
		expectStatus(t, c, "p degraded A/1 "+rolledBack)
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
	})
}

// Another module was loaded and waits; then the rejected file is put back and its
// probation fails at the same time.
func TestARejectedModuleFreesThePendingRevision(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		update(module("p", "Late"))
		s := c.supervisors["p"]
		s.mu.Lock() // both at once
		s.wanted, s.failed = &Module{Name: "p", Digest: "A/2", Read: file("A/2")}, &probationFailure{revision: 2, reason: "it panics"}
		s.interrupt()
		s.mu.Unlock()
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2", "close p Late")
	})
}

// The policy of the refused module changes the running revision, and not what is
// wrong with the module.
func TestARefusedModuleIsReportedOnce(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "broken"))
		before := c.Statuses()[0]
		time.Sleep(time.Minute) // fake time
		update(under(module("p", "broken"), "less"))
		after := c.Statuses()[0]
		if after.Revision != 2 || !after.Since.Equal(before.Since) || w.counters["refused p parse"] != 1 {
			t.Errorf("before %+v, after %+v, counted %v", before, after, w.counters)
		}
	})
}

// Otherwise a plugin that takes long to load would never run beside one that
// changes all the time.
func TestAnAttemptContinuesWhenOtherPluginsChange(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), _ *testCatalog) {
		w.hold("A/1")
		update(module("p", "A/1"))
		update(module("p", "A/1"), module("q", "B/1"))
		w.release("A/1")
		synctest.Wait()
		w.expect(t, "start q B/1", "start p A/1")
		if w.attempts["A/1"] != 1 {
			t.Errorf("started %d times", w.attempts["A/1"])
		}
	})
}

// Code that takes long to start is wanted meanwhile.
func TestARollbackThatDisplacesAPluginComesFirst(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		w.hold("B/2")
		update(module("p", "A/1"))
		update(module("p", "B/1"))
		update(module("p", "B/1"), module("q", "A/1"))
		w.expect(t, "start p A/1", "start p B/1", "start q A/1")
		update(module("p", "B/2"), module("q", "A/1"))
		failProbation(c, "p")
		w.expect(t, "stop q", "close q A/1", "start p A/1", "close p B/1")
		w.release("B/2")
		synctest.Wait()
		w.expect(t, "start p B/2")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start q A/1")
	})
}

// rollBackBeside begins a rollback of plugin p from kind B to A, which waits for plugin q
// until stopped is called.
func rollBackBeside(w *world, update func(...Module), c *testCatalog) (stopped func()) {
	update(module("p", "A/1"))
	update(module("p", "B/1"))
	update(module("p", "B/1"), module("q", "A/1"))
	stopping := make(chan struct{})
	w.stopping = stopping
	failProbation(c, "p")
	return func() { close(stopping) }
}

// The plugin that is displaced may end its last runs after the probation. Until then there
// is an attempt now and then.
func TestARollbackWaitsForLongerThanTheProbation(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		stopped := rollBackBeside(w, update, c)
		time.Sleep(testProbation + time.Minute) // fake time
		synctest.Wait()
		w.expectRunning(t, "p B/1", "q A/1")
		stopped()
		synctest.Wait()
		w.expectRunning(t, "p A/1")
	})
}

// What an administrator takes away is gone, although the rollback has to wait, and does not
// come back because the file cannot be read.
func TestAPolicyDoesNotWaitForARollback(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		stopped := rollBackBeside(w, update, c)
		unreadable := Module{Name: "p", Err: errors.New("permission denied")}
		unknown := unreadable
		unknown.PolicyUnknown = true
		for _, m := range []Module{under(module("p", "B/1"), "less"), under(unreadable, `{"n":1}`), unknown} {
			update(m, module("q", "A/1"))
			rest()
			w.expectRunning(t, "p B/1", "q A/1")
			want := string(m.Policy.Config)
			if m.PolicyUnknown {
				want = `{"n":1}`
			}
			if got := w.policies["p"]; got != want {
				t.Errorf("the policy is %q", got)
			}
		}
		stopped()
		rest()
		w.expectRunning(t, "p A/1")
		if starts := w.counters["started p"]; starts != 5 || w.policies["p"] != `{"n":1}` {
			t.Errorf("after %d starts the policy is %q", starts, w.policies["p"])
		}
	})
}
