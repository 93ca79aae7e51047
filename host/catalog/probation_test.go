package catalog

import (
	"context"
	"errors"
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

// trials notes whether a generation that starts is on probation: it is by that
// that its runs are judged.
type trials struct {
	*world
	begun bool
}

func (r *trials) Start(ctx context.Context, g *Generation) error {
	r.begun = r.begun || !g.Probation.IsZero()
	return r.world.Start(ctx, g)
}

// TestWithoutProbationNewCodeStays: the one before goes at once.
func TestWithoutProbationNewCodeStays(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		runner := &trials{world: w}
		c.Runner, c.Probation = runner, NoProbation
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		lose(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "close p A/1")
		expectStatus(t, c, "p running A/2")
		if runner.begun {
			t.Error("it was on probation")
		}
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

// TestASoundGenerationIsGoneBackTo although it is on probation: it is the one
// before.
func TestASoundGenerationIsGoneBackTo(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		w.mu.Lock()
		w.sound["p"] = true
		w.mu.Unlock()
		update(module("p", "A/3"))
		w.expect(t, "start p A/1", "start p A/2", "start p A/3", "close p A/1")
		lose(c, "p")
		w.expect(t, "start p A/2", "close p A/3")
		time.Sleep(2 * DefaultProbation) // fake time
		lose(c, "p")
		w.expect(t)
		if s := c.Statuses()[0]; s.Generation != 2 || s.State != Degraded {
			t.Errorf("status: %+v", s)
		}
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

// TestProbationBeginsWithTheStart: a module that has waited for long is as new
// as any other.
func TestProbationBeginsWithTheStart(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "Late"))
		time.Sleep(2 * DefaultProbation) // fake time
		w.serve("Late")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p A/1", "start p Late")
		lose(c, "p")
		w.expect(t, "start p A/1", "close p Late")
	})
}

// TestThePolicyHoldsWhileANewModuleWaits, and is not lost when it starts.
func TestThePolicyHoldsWhileANewModuleWaits(t *testing.T) {
	w := newWorld("A", "B")
	under := func(m Module, policy string) Module { m.Policy = []byte(policy); return m }
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(under(module("p", "Late"), "less"))
		w.expect(t, "start p A/1", "reload p A/1", "start p A/1 less", "close p A/1")
		time.Sleep(time.Minute) // fake time
		expectStatus(t, c, "p degraded A/1 kind Late is not served")
		w.expect(t)
		w.serve("Late")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p Late less")
		if s := c.Statuses()[0]; s.Generation != 4 { // later than the one that it replaces
			t.Errorf("generation %d", s.Generation)
		}
		// The same for one that writes what another plugin writes.
		update(module("q", "B/1"), under(module("p", "Late"), "less"))
		update(module("q", "B/1"), under(module("p", "B/2"), "least"))
		w.expect(t, "start q B/1", "reload p Late", "start p Late least", "close p Late")
	})
}

// TestAVerdictOutlivesWhatDisturbsIt: what happens to other plugins, or
// something that the generation before has to wait for.
func TestAVerdictOutlivesWhatDisturbsIt(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "B/2"))
		w.withdraw("A")
		lose(c, "p")
		expectStatus(t, c, "p running B/2")
		c.RollBack("p", 1, "late") // of a generation that is gone
		update(module("p", "B/2"), module("q", "broken"))
		c.Forgive()
		w.serve("A")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p A/1", "start p B/2", "start p A/1", "close p B/2")
	})
}

// TestARollbackThatIsInterruptedIsMade: the file changes while the generation
// before is being started, and back.
func TestARollbackThatIsInterruptedIsMade(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		w.hold("A/1")
		lose(c, "p")
		update(module("p", "broken"))
		w.release("A/1")
		synctest.Wait()
		update(module("p", "broken"))
		expectStatus(t, c, "p degraded A/1 no module")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
	})
}

// TestARejectedModuleThatCannotBeReadForAMomentStaysRejected.
func TestARejectedModuleThatCannotBeReadForAMomentStaysRejected(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		lose(c, "p")
		update(Module{Name: "p", Err: errors.New("permission denied")})
		expectStatus(t, c, "p degraded A/1 permission denied")
		update(module("p", "A/2"))
		expectStatus(t, c, "p degraded A/1 "+rolledBack)
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")
	})
}

// TestARejectedModuleLeavesNothingWaiting: another one was loaded, and its
// file was put back, when the verdict came.
func TestARejectedModuleLeavesNothingWaiting(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		update(module("p", "Late"))
		s := c.slots["p"]
		s.mu.Lock() // both at once
		s.wanted, s.lost = &Module{Name: "p", Digest: "A/2", Read: file("A/2")}, &verdict{generation: 2, reason: "it panics"}
		s.interrupt()
		s.mu.Unlock()
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2", "close p Late")
	})
}

// TestARefusedModuleIsToldOnceWhateverRuns: its policy changes what runs, and
// not what is wrong with it.
func TestARefusedModuleIsToldOnceWhateverRuns(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "broken"))
		before := c.Statuses()[0]
		time.Sleep(time.Minute) // fake time
		less := module("p", "broken")
		less.Policy = []byte("less")
		update(less)
		after := c.Statuses()[0]
		if after.Generation != 2 || !after.Since.Equal(before.Since) || w.counters["failed p parse"] != 1 {
			t.Errorf("before %+v, after %+v, counted %v", before, after, w.counters)
		}
	})
}

// TestAnAttemptGoesOnWhenOtherPluginsChange: else one that takes long to load
// would never run beside one that changes all the time.
func TestAnAttemptGoesOnWhenOtherPluginsChange(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), _ *Catalog) {
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
