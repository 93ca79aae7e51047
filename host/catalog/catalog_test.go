package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scenario runs a catalog in a bubble of virtual time.
func scenario(t *testing.T, w *world, steps func(update func(modules ...Module), c *Catalog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(Config{Loader: w, Runner: w, Observer: w, Logger: hclog.NewNullLogger()})
		steps(func(modules ...Module) {
			c.Update(ctx, modules)
			synctest.Wait()
		}, c)
		cancel()
		c.Wait()
	})
}

func module(name, text string) Module { return Module{Name: name, Digest: text, Read: file(text)} }

func file(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

// expect compares what happened; which of two guests was closed first does not
// count.
func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	sortCloses(w.log)
	sortCloses(want)
	if got := strings.Join(w.log, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("what happened:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	w.log = nil
}

// sortCloses sorts each run of closes.
func sortCloses(log []string) {
	for begin := 0; begin < len(log); begin++ {
		end := begin
		for end < len(log) && strings.HasPrefix(log[end], "close ") {
			end++
		}
		slices.Sort(log[begin:end])
		begin = max(begin, end-1)
	}
}

func expectStatus(t *testing.T, c *Catalog, want ...string) {
	t.Helper()
	var got []string
	for _, s := range c.Statuses() {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", s.Name, s.State, s.Digest, s.LastError)))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("statuses:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAPluginIsLoadedReplacedAndRemoved(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		if c.Settled() {
			t.Error("settled before the first snapshot")
		}
		update(module("p", "A/1"))
		w.expect(t, "start p A/1")
		expectStatus(t, c, "p running A/1")
		update(module("p", "A/1"))
		w.expect(t)
		update(module("p", "A/2"))
		w.expect(t, "start p A/2") // on probation: the one before is kept
		if s := c.Statuses()[0]; s.Generation != 2 || !c.Settled() {
			t.Errorf("generation %d, settled %v", s.Generation, c.Settled())
		}
		policed := module("p", "A/2")
		policed.Policy = []byte("x: y")
		update(policed)
		w.expect(t, "reload p A/2", "start p A/2 x: y", "close p A/2")
		time.Sleep(DefaultProbation) // fake time
		synctest.Wait()
		w.expect(t, "close p A/1")
		update()
		w.expect(t, "stop p", "close p A/2")
		expectStatus(t, c)
	})
}

func TestABadModuleChangesNothing(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		update(module("p", "broken"))
		expectStatus(t, c, "p degraded A/1 no module")
		update(Module{Name: "p", Err: errors.New("permission denied")})
		expectStatus(t, c, "p degraded A/1 permission denied")
		update(module("p", "A/1"))
		expectStatus(t, c, "p running A/1")
		w.expect(t, "start p A/1")
		if w.counters["failed p parse"] != 1 || w.counters["failed p read"] != 1 {
			t.Errorf("counted %v", w.counters)
		}
	})
}

// TestEachBadModuleIsToldOnce: who tries to correct one wants to know how that
// went, also if it is wrong in the same way.
func TestEachBadModuleIsToldOnce(t *testing.T) {
	w := newWorld("Good")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		bad := Module{Name: "a", Digest: "first", Read: file("broken")}
		update(bad)
		update(bad, module("b", "Good"))
		if n := w.counters["failed a parse"]; n != 1 {
			t.Errorf("told %d times of one module", n)
		}
		bad.Digest = "second"
		update(bad, module("b", "Good"))
		if n := w.counters["failed a parse"]; n != 2 {
			t.Errorf("told %d times of two modules", n)
		}
	})
}

// TestANewGenerationThatWaitsHasNotFailed: the one before goes on meanwhile.
func TestANewGenerationThatWaitsHasNotFailed(t *testing.T) {
	w := newWorld("Good")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("a", "Good"))
		update(module("a", "Late"))
		time.Sleep(5 * time.Second) // fake time
		if s := c.Statuses()[0]; s.State != Degraded || s.Digest != "Good" || s.LastError != "kind Late is not served" || s.RejectedFor != "waiting" {
			t.Errorf("while it waits: %+v", s)
		}
		w.mu.Lock()
		w.present["Late"] = true
		w.mu.Unlock()
		time.Sleep(2 * time.Second) // fake time
		if s := c.Statuses()[0]; s.State != Running || s.Digest != "Late" || s.LastError != "" {
			t.Errorf("when its kind is there: %+v", s)
		}
	})
	if n := w.counters["failed a waiting"]; n != 0 {
		t.Errorf("counted as failed %d times", n)
	}
}

func TestAPluginWaitsForItsKindWithoutHoldingUpOthers(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("later", "B/1"), module("now", "A/1"))
		expectStatus(t, c, "later waiting  kind B is not served", "now running A/1")
		w.mu.Lock()
		w.present["B"] = true
		w.mu.Unlock()
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		expectStatus(t, c, "later running B/1", "now running A/1")
		w.expect(t, "start now A/1", "start later B/1")
	})
}

func TestANewerModuleEndsAnAttempt(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/slow"))
		expectStatus(t, c, "p loading")
		update(module("p", "A/2"))
		w.expect(t, "close p A/slow", "start p A/2")
		update(module("p", "A/slow"))
		update()
		w.expect(t, "stop p", "close p A/slow", "close p A/2")
	})
}

func TestTwoPluginsMayNotWriteOneCondition(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("first", "A/1"))
		update(module("first", "A/1"), module("second", "A/2"))
		last := c.Statuses()[1]
		if last.State != Failed || !strings.Contains(last.LastError, `"second/c" and "first/c" both write the condition Ready`) {
			t.Errorf("%s: %s", last.State, last.LastError)
		}
		// When the first one goes, the second takes its place.
		update(module("second", "A/2"))
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		expectStatus(t, c, "second running A/2")
	})
}

// TestWhatRunsKeepsItsClaim while another version of it is being started, which
// may take long and fail.
func TestWhatRunsKeepsItsClaim(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *Catalog) {
		update(module("p", "A/1"))
		w.hold("B/1")
		update(module("p", "B/1"))
		update(module("p", "B/1"), module("q", "A/2"))
		w.expect(t, "start p A/1")
		if s := c.Statuses()[1]; s.State != Failed || s.RejectedFor != "overlap" {
			t.Errorf("status: %+v", s)
		}
		w.release("B/1")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p B/1", "start q A/2")
	})
}

// TestTwoPluginsMayShareAKindWithoutConditions: on Kubernetes' own kinds the
// host writes none unless the manifest asks, so there is nothing to overlap.
func TestTwoPluginsMayShareAKindWithoutConditions(t *testing.T) {
	generation := func(plugin string, conditions abi.Conditions) *Generation {
		return &Generation{Plugin: plugin, Manifest: &abi.Manifest{Name: plugin, Controllers: []abi.Controller{{
			Name: "c", For: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}, Conditions: conditions,
		}}}}
	}
	silent, asking := abi.Conditions{}, abi.Conditions{Target: "Copied"}
	if err := overlap(generation("b", silent), []*Generation{generation("a", silent)}); err != nil {
		t.Error(err)
	}
	if err := overlap(generation("b", asking), []*Generation{generation("a", silent)}); err != nil {
		t.Error(err)
	}
	if err := overlap(generation("b", asking), []*Generation{generation("a", asking)}); err == nil {
		t.Error("two that write the condition Copied pass")
	}
}

func TestTheEndStopsEverything(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), _ *Catalog) {
		update(module("a", "A/1"), module("b", "B/1"))
	})
	if len(w.runs) != 0 {
		t.Errorf("still runs: %v", w.runs)
	}
}
