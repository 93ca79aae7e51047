package catalog

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// withLog makes a catalog log to a buffer.
func withLog(c *testCatalog) *bytes.Buffer {
	var out bytes.Buffer
	c.Logger = hclog.New(&hclog.LoggerOptions{Output: &out})
	return &out
}

func TestAModuleThatItsPolicyDoesNotPinIsRefused(t *testing.T) {
	const refused = "the file has the digest sha256:A/2, and p.yaml pins sha256:A/1: put the pinned file there, or write digest: sha256:A/2 into p.yaml"
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(under(module("p", "A/2"), "pin A/1"))
		w.expect(t)
		expectStatus(t, c, "p failed  "+refused)
		if s := c.Statuses()[0]; s.FailedStep != "digest" || s.Rejected != "A/2" || w.counters["refused p digest"] != 1 || w.counters["load p"] != 0 {
			t.Errorf("status %+v, counted %v", s, w.counters)
		}
		update(under(module("p", "A/1"), "pin A/1"))
		w.expect(t, "start p A/1 pin A/1")
		expectStatus(t, c, "p running A/1")

		// The pinned revision goes on, under the new policy.
		update(under(module("p", "A/2"), "less, pin A/1"))
		w.expect(t, "with policy p A/1", "start p A/1 less, pin A/1", "close p A/1")
		expectStatus(t, c, "p degraded A/1 "+refused)
		update(under(module("p", "A/2"), "deny all, pin A/1"))
		expectStatus(t, c, "p failed  "+refused)
		update(module("p", "A/2"))
		expectStatus(t, c, "p running A/2")
	})
}

// Nothing of the plugin runs, whatever the state of the code that should.
func TestARunningRevisionThatIsNotPinnedIsHalted(t *testing.T) {
	unreadable := Module{Name: "p", Err: errors.New("permission denied")}
	for name, m := range map[string]Module{
		"the file is that of the running one": under(module("p", "A/1"), "pin A/2"),
		"the file is another one":             under(module("p", "A/3"), "pin A/2"),
		"the file cannot be read":             under(unreadable, "pin A/2"),
		"the file cannot be loaded":           under(module("p", "broken"), "pin broken"),
		"the file is not pinned nor loadable": under(module("p", "broken"), "pin A/2"),
		"the file waits":                      under(module("p", "Late"), "pin Late"),
		"the file overlaps":                   under(module("p", "B/1"), "pin B/1"),
		"the file does not start":             under(module("p", "A/slow"), "pin A/slow"),
		"the policy does not fit":             under(module("p", "A/1"), "unfit, pin A/2"),
		"the file was rolled back":            under(module("p", "A/9"), "pin A/2"),
		"the file is that of the fallback":    under(module("p", "A/0"), "unfit, pin A/0"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld("A", "B")
			scenario(t, w, func(update func(...Module), c *testCatalog) {
				log, other := withLog(c), module("o", "B/0")
				switch m.Digest {
				case "A/9":
					update(other, module("p", "A/1"))
					update(other, module("p", "A/9"))
					c.RollBack("p", 2, "it panics")
					synctest.Wait()
				case "A/0":
					update(other, module("p", "A/0"))
					fallthrough
				default:
					update(other, module("p", "A/1"))
				}
				w.expectRunning(t, "o B/0", "p A/1")
				update(other, m)
				time.Sleep(pinGrace + time.Second) // fake time
				synctest.Wait()
				w.expectRunning(t, "o B/0")
				if len(c.Running()) != 1 || !strings.Contains(log.String(), "it pins "+m.Policy.Digest+", and sha256:A/1 runs") {
					t.Errorf("%d run, logged:\n%s", len(c.Running()), log)
				}
				// As soon as both fit it goes on.
				update(other, under(module("p", "A/2"), "pin A/2"))
				w.expectRunning(t, "o B/0", "p A/2")
			})
		})
	}
}

func TestAModuleThatIsNotPinnedFreesThePendingRevision(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), _ *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "Late"))
		w.expect(t, "start p A/1")
		update(under(module("p", "A/2"), "pin A/1"))
		w.expect(t, "close p Late", "with policy p A/1", "start p A/1 pin A/1", "close p A/1")
	})
}

// Its objects keep their place in the queue.
func TestThePinnedModuleReplacesTheRunningRevision(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(under(module("p", "A/1"), "pin A/1"))
		update(under(module("p", "A/2"), "pin A/2"))
		w.expect(t, "start p A/1 pin A/1", "start p A/2 pin A/2", "close p A/1")

		// It may take some time.
		w.hold("A/3")
		update(under(module("p", "A/3"), "pin A/3"))
		time.Sleep(pinGrace - time.Second) // fake time
		w.expectRunning(t, "p A/2")
		w.release("A/3")
		synctest.Wait()
		w.expect(t, "start p A/3 pin A/3", "close p A/2")
		w.hold("A/4")
		update(under(module("p", "A/4"), "pin A/4"))
		time.Sleep(pinGrace + time.Second) // fake time
		w.expect(t, "stop p", "close p A/3")
		w.release("A/4")
		synctest.Wait()
		w.expect(t, "start p A/4 pin A/4")
		expectStatus(t, c, "p running A/4")
	})
}

// Otherwise what is not pinned would run on for as long as the directory changes.
func TestChangesDoNotProlongTheTimeOfARevisionThatIsNotPinned(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), _ *testCatalog) {
		update(module("p", "A/1"))
		for i := range 4 {
			update(under(module("p", "A/slow"), strings.Repeat("x", i)+"pin A/slow"))
			time.Sleep(pinGrace / 3) // fake time
		}
		w.expectRunning(t)
	})
}

func TestAPinnedRevisionIsNotRolledBack(t *testing.T) {
	const logged = "which cannot be started: it keeps running"
	for name, change := range map[string]func(update func(...Module)){
		"pinned from the start": func(update func(...Module)) { update(under(module("p", "A/2"), "pin A/2")) },
		"pinned later":          func(update func(...Module)) { update(module("p", "A/2")); update(under(module("p", "A/2"), "pin A/2")) },
		"pinned by a policy that is unfit": func(update func(...Module)) {
			update(module("p", "A/2"))
			update(under(module("p", "A/2"), "unfit, pin A/2"))
		},
		"not pinned any more": func(update func(...Module)) {
			update(under(module("p", "A/2"), "pin A/2"))
			update(under(module("p", "A/2"), "less"))
		},
		"pinned, and the file is unreadable": func(update func(...Module)) {
			update(module("p", "A/2"))
			update(under(Module{Name: "p", Err: errors.New("no")}, "pin A/2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld("A")
			scenario(t, w, func(update func(...Module), c *testCatalog) {
				log := withLog(c)
				update(module("p", "A/1"))
				change(update)
				for _, g := range w.guests { // nothing is kept that can never run
					if g.manifest.Version == "A/1" && g.closed == 0 {
						t.Error("the fallback is kept")
					}
				}
				failProbation(c, "p")
				w.expectRunning(t, "p A/2")
				if n := strings.Count(log.String(), logged); n != 1 || !strings.Contains(log.String(), "a policy has pinned the digest of another one") {
					t.Errorf("logged:\n%s", log)
				}
				time.Sleep(testProbation) // fake time
				update(under(module("p", "A/2"), "least"))
				failProbation(c, "p")
				if n := strings.Count(log.String(), logged); n != 1 {
					t.Errorf("after its probation %d lines:\n%s", n, log)
				}
				update(module("p", "A/3"))
				failProbation(c, "p")
				w.expectRunning(t, "p A/2") // it has passed
			})
		})
	}
}

// Neither has passed its probation.
func TestARevisionThatFailedWhilePinnedIsNoFallback(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(under(module("p", "A/2"), "pin A/2"))
		failProbation(c, "p")
		update(module("p", "A/3"))
		failProbation(c, "p")
		w.expectRunning(t, "p A/3")
		w.expect(t, "start p A/1", "start p A/2 pin A/2", "close p A/1", "start p A/3", "close p A/2")
	})
}

// The rollback and the policy are reported at the same time.
func TestNothingIsRolledBackToWhatIsNotPinned(t *testing.T) {
	for text, want := range map[string][]string{"pin A/2": {"p A/2"}, "unfit, pin A/2": {"p A/2"}, "pin A/3": nil} {
		w := newWorld("A")
		scenario(t, w, func(update func(...Module), c *testCatalog) {
			update(module("p", "A/1"))
			update(module("p", "A/2"))
			c.RollBack("p", 2, "it panics")
			update(under(module("p", "A/2"), text))
			w.expectRunning(t, want...)
		})
	}
}

func TestAModuleThatWasRolledBackRunsIfItIsPinned(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "A/2"))
		failProbation(c, "p")
		w.expect(t, "start p A/1", "start p A/2", "start p A/1", "close p A/2")

		// What it was rolled back to is pinned, and the file is not.
		update(under(module("p", "A/2"), "pin A/1"))
		w.expect(t, "with policy p A/1", "start p A/1 pin A/1", "close p A/1")
		if s := c.Statuses()[0]; s.State != Degraded || s.FailedStep != "digest" {
			t.Errorf("status: %+v", s)
		}
		update(under(module("p", "A/2"), "less"))
		w.expect(t, "with policy p A/1", "start p A/1 less", "close p A/1")
		expectStatus(t, c, "p degraded A/1 "+rolledBack)

		update(under(module("p", "A/2"), "pin A/2"))
		w.expect(t, "start p A/2 pin A/2", "close p A/1")
		expectStatus(t, c, "p running A/2")
	})
}

// Somebody copies one file after the other.
func TestAPluginGoesOnWhenModuleAndPolicyFit(t *testing.T) {
	first, second := under(module("p", "A/1"), "pin A/1"), under(module("p", "A/2"), "pin A/2")
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(first)
		update(under(module("p", "A/2"), "pin A/1"))
		w.expectRunning(t, "p A/1")
		update(second)
		w.expect(t, "start p A/1 pin A/1", "start p A/2 pin A/2", "close p A/1")
		update(under(module("p", "A/2"), "pin A/1"))
		w.expectRunning(t)
		update(first)
		w.expect(t, "stop p", "close p A/2", "start p A/1 pin A/1")
		expectStatus(t, c, "p running A/1")
	})
}
