package catalog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A directory of three plugins changes at random, mostly before the previous change
// has had its effect, with failed probations and RetryRefused in between. Every
// guest that was loaded is closed once and not used afterwards, no more are kept
// than may be needed, the running revisions follow the newest policy that fits, no
// code gets a policy that pins other code, and no two write the same condition at any time. In the end the first of them by name
// runs.
func TestRandomChangesKeepTheInvariants(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld("A", "B")
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				c := New(Config[*guest]{Loader: w, Runner: w, Events: w, Logger: hclog.NewNullLogger(), Probation: testProbation})
				o := &others{}
				c.Replicas = o
				h := randomChanges{t: t, w: w, c: c, others: o, random: rand.New(rand.NewPCG(seed, 5)), has: map[string]*Module{}}
				for range 40 {
					h.step(ctx)
				}
				cancel()
				c.Wait()
			})
			for _, g := range w.guests {
				if g.closed != 1 {
					t.Errorf("%s %s was closed %d times", g.name, g.manifest.Version, g.closed)
				}
			}
			if len(w.runs) != 0 || len(w.misused) != 0 {
				t.Errorf("still running: %v; used after they were closed: %q", w.runs, w.misused)
			}
		})
	}
}

type randomChanges struct {
	t      *testing.T
	w      *world
	c      *testCatalog
	random *rand.Rand
	has    map[string]*Module // the directory
	others *others
}

func pick[T any](h *randomChanges, from ...T) T { return from[h.random.IntN(len(from))] }

func (h *randomChanges) step(ctx context.Context) {
	name := pick(h, "p", "q", "r")
	switch h.random.IntN(12) {
	default:
		m := module(name, pick(h, "A/1", "A/2", "A/3", "B/1", "A+B/1", "A+B/2", "Late", "broken", "A/slow"))
		m.Policy = policy(pick(h, "", "less", "least", "unfit", "deny all", "deny /2", "deny all, pin A/1", "pin A/1", "pin A/2", "less, pin A/2", "pin "+m.Digest, "unfit, pin A/1"))
		h.has[name] = &m
	case 0:
		delete(h.has, name)
	case 1:
		m := under(Module{Name: name, Err: fmt.Errorf("permission denied")}, pick(h, "", "less", "pin A/1", "pin A/2"))
		if h.random.IntN(2) == 0 {
			m.Policy, m.PolicyUnknown = policy(""), true
		}
		h.has[name] = &m
	case 2:
		h.c.RetryRefused()
	case 3, 4:
		for _, g := range h.c.Running() {
			h.c.RollBack(g.Plugin, g.Number, "it panics")
		}
	case 5:
		time.Sleep(pick(h, time.Second, testProbation)) // fake time
	case 6:
		h.others.record(pick(h, Record{}, rejects("A/1"), rejects("A/2", "B/1"), Record{Running: "A/1"}, Record{Running: "A/2", Rejected: []string{"A+B/1"}}))
	case 7:
		h.c.Restart(name, "another replica may lead it")
	}
	var modules []Module
	for _, m := range h.has {
		modules = append(modules, *m)
	}
	h.c.Update(ctx, modules)
	if h.random.IntN(3) == 0 {
		rest := pick(h, 3*time.Second, pinGrace+3*time.Second)
		time.Sleep(rest)          // fake time
		for name := range h.has { // what one has rolled back the fake records for all
			h.c.Reconsider(name)
		}
		time.Sleep(3 * time.Second) // fake time
		synctest.Wait()
		h.check(rest > pinGrace)
	}
}

// check compares what runs with the directory. late states that the last change is more
// than pinGrace ago.
func (h *randomChanges) check(late bool) {
	h.t.Helper()
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	open := map[string]int{}
	for _, g := range h.w.guests {
		if g.closed == 0 {
			open[g.name]++
		}
	}
	for name, n := range open {
		if n > 3 { // the running one, the fallback and the pending one
			h.t.Errorf("%d guests of %s are open", n, name)
		}
	}
	for name, m := range h.has {
		if h.runnable(name, m) && h.w.runs[name] != m.Digest {
			if !h.overruled(name, m.Digest) {
				h.t.Errorf("%s %s does not run, and no plugin before it writes the same: %v", name, m.Digest, h.w.runs)
			}
		}
	}
	recorded, _ := h.others.Recorded(nil)
	for name, m := range h.has {
		digest, runs := h.w.runs[name]
		if runs && slices.Contains(recorded.Rejected, digest) {
			h.t.Errorf("%s %s runs, and another replica has rolled it back", name, digest)
		}
		if runs && !m.PolicyUnknown && !m.Policy.Pins(digest) && (late || m.Digest != "A/slow") {
			h.t.Errorf("%s %s runs, and its policy pins %s", name, digest, m.Policy.Digest)
		}
		if !runs || m.PolicyUnknown || m.Digest == "A/slow" || unfit(m.Policy) {
			continue
		}
		if got := h.w.policies[name]; got != string(m.Policy.Config) {
			h.t.Errorf("%s %s runs under %q, want %s under %q", name, h.w.runs[name], got, m.Digest, m.Policy.Config)
		}
	}
}

// runnable reports whether a module could run if it were alone.
func (h *randomChanges) runnable(name string, m *Module) bool {
	for _, s := range h.c.Statuses() {
		if s.Name == name && s.FailedStep == StepProbation {
			return false
		}
	}
	return m.Err == nil && !slices.Contains([]string{"Late", "broken", "A/slow"}, m.Digest) && !unfit(m.Policy) && m.Policy.Pins(m.Digest) && !denies(m.Policy, m.Digest)
}

func (h *randomChanges) overruled(name, digest string) bool {
	for other, runs := range h.w.runs {
		if other < name && overlap(runs, digest) {
			return true
		}
	}
	return false
}
