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
	"github.com/thole-dev/thole/host/events"
)

// testProbation is as long as that of a host.
const testProbation = 10 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scenario runs a catalog in a synctest bubble. update also waits until the
// catalog has come to rest.
func scenario(t *testing.T, w *world, steps func(update func(modules ...Module), c *testCatalog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(Config[*guest]{Loader: w, Runner: w, Events: w, Logger: hclog.NewNullLogger(), Probation: testProbation})
		steps(func(modules ...Module) {
			c.Update(ctx, modules)
			synctest.Wait()
		}, c)
		cancel()
		c.Wait()
	})
}

func module(name, text string) Module { return Module{Name: name, Digest: text, Read: file(text)} }

func under(m Module, policyText string) Module {
	m.Policy = policy(policyText)
	return m
}

func file(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

// expect compares what happened since the last call. Guests that are closed one
// after the other may be closed in any order.
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

// sortCloses sorts the entries of guests that are closed one after the other.
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

func expectStatus(t *testing.T, c *testCatalog, want ...string) {
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
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		if c.Updated() {
			t.Error("updated before the first snapshot")
		}
		update(module("p", "A/1"))
		w.expect(t, "start p A/1")
		expectStatus(t, c, "p running A/1")
		update(module("p", "A/1"))
		w.expect(t)
		update(module("p", "A/2"))
		w.expect(t, "start p A/2") // on probation: the one before it is kept
		if s := c.Statuses()[0]; s.Revision != 2 || s.State != Running {
			t.Errorf("revision %d, %s", s.Revision, s.State)
		}
		update(under(module("p", "A/2"), "x: y"))
		w.expect(t, "with policy p A/2", "start p A/2 x: y", "close p A/2")
		time.Sleep(testProbation) // fake time
		synctest.Wait()
		w.expect(t, "close p A/1")
		update()
		w.expect(t, "stop p", "close p A/2")
		expectStatus(t, c)
	})
}

func TestARefusedModuleChangesNothing(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		update(module("p", "broken"))
		expectStatus(t, c, "p degraded A/1 no module")
		update(Module{Name: "p", Err: errors.New("permission denied")})
		expectStatus(t, c, "p degraded A/1 permission denied")
		update(module("p", "A/1"))
		expectStatus(t, c, "p running A/1")
		w.expect(t, "start p A/1")
		if w.counters["refused p parse"] != 1 || w.counters["refused p read"] != 1 {
			t.Errorf("counted %v", w.counters)
		}
	})
}

// Somebody who corrects a module wants to see that the new one is wrong too, even
// if it is wrong in the same way.
func TestEachRefusedModuleIsReportedOnce(t *testing.T) {
	w := newWorld("Good")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		bad := Module{Name: "a", Digest: "first", Read: file("broken")}
		update(bad)
		update(bad, module("b", "Good"))
		if n := w.counters["refused a parse"]; n != 1 {
			t.Errorf("one module was reported %d times", n)
		}
		bad.Digest = "second"
		update(bad, module("b", "Good"))
		if n := w.counters["refused a parse"]; n != 2 {
			t.Errorf("two modules were reported %d times", n)
		}
		update(module("b", "Good"))
		update()
		synctest.Wait()
		if w.counters["stopped a, ran: false"] != 1 || w.counters["stopped b, ran: true"] != 1 {
			t.Errorf("counted %v", w.counters)
		}
	})
}

func TestAModuleThatWaitsIsNotCountedAsFailed(t *testing.T) {
	w := newWorld("Good")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("a", "Good"))
		update(module("a", "Late"))
		time.Sleep(5 * time.Second) // fake time
		if s := c.Statuses()[0]; s.State != Degraded || s.Digest != "Good" || s.LastError != "kind Late is not served" || s.FailedStep != "waiting" {
			t.Errorf("while it waits: %+v", s)
		}
		w.serve("Late")
		time.Sleep(2 * time.Second) // fake time
		if s := c.Statuses()[0]; s.State != Running || s.Digest != "Late" || s.LastError != "" {
			t.Errorf("when its kind is there: %+v", s)
		}
	})
	if n := w.counters["refused a waiting"]; n != 0 {
		t.Errorf("counted as failed %d times", n)
	}
}

func TestAWaitingPluginDoesNotDelayOthers(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("later", "B/1"), module("now", "A/1"))
		expectStatus(t, c, "later waiting  kind B is not served", "now running A/1")
		w.serve("B")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		expectStatus(t, c, "later running B/1", "now running A/1")
		w.expect(t, "start now A/1", "start later B/1")
	})
}

func TestANewerModuleInterruptsAnAttempt(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/slow"))
		expectStatus(t, c, "p loading")
		update(module("p", "A/2"))
		w.expect(t, "close p A/slow", "start p A/2")
		update(module("p", "A/slow"))
		update()
		w.expect(t, "stop p", "close p A/slow", "close p A/2")
	})
}

func TestASecondPluginThatWritesTheSameConditionIsRefused(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("first", "A/1"))
		update(module("first", "A/1"), module("second", "A/2"))
		last := c.Statuses()[1]
		if last.State != Failed || !strings.Contains(last.LastError, `"second/c" and "first/c" both write the condition Ready`) {
			t.Errorf("%s: %s", last.State, last.LastError)
		}
		// When the first one is removed, the second starts.
		update(module("second", "A/2"))
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		expectStatus(t, c, "second running A/2")
	})
}

// The new revision may take long to start, and may fail.
func TestARunningRevisionKeepsItsConditionWhileItIsReplaced(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		update(module("p", "A/1"))
		w.hold("B/1")
		update(module("p", "B/1"))
		update(module("p", "B/1"), module("q", "A/2"))
		w.expect(t, "start p A/1")
		if s := c.Statuses()[1]; s.State != Failed || s.FailedStep != "overlap" {
			t.Errorf("status: %+v", s)
		}
		w.release("B/1")
		time.Sleep(2 * time.Second) // fake time
		synctest.Wait()
		w.expect(t, "start p B/1", "start q A/2")
	})
}

// On Kubernetes' own kinds the host writes no conditions unless the manifest names
// some, so there is no conflict.
func TestPluginsWithoutConditionsMayShareABuiltInKind(t *testing.T) {
	revision := func(plugin string, conditions abi.Conditions) *Revision[*guest] {
		return &Revision[*guest]{Revision: events.Revision{Plugin: plugin}, Manifest: &abi.Manifest{Name: plugin, Controllers: []abi.Controller{{
			Name: "c", For: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}.All(), Conditions: conditions,
		}}}}
	}
	silent, asking := abi.Conditions{}, abi.Conditions{Target: "Copied"}
	if err := conflict(revision("b", silent), revision("a", silent)); err != nil {
		t.Error(err)
	}
	if err := conflict(revision("b", asking), revision("a", silent)); err != nil {
		t.Error(err)
	}
	if err := conflict(revision("b", asking), revision("a", asking)); err == nil {
		t.Error("two plugins that write the condition Copied are not refused")
	}
}

func TestTheEndOfTheContextStopsEverything(t *testing.T) {
	w := newWorld("A", "B")
	scenario(t, w, func(update func(...Module), _ *testCatalog) {
		update(module("a", "A/1"), module("b", "B/1"))
	})
	if len(w.runs) != 0 {
		t.Errorf("still running: %v", w.runs)
	}
}
