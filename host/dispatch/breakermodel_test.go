package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCircuitKeepsItsInvariants takes any history: at most one probe and one trial are
// under way, none before its time, and a plugin that is well again runs everything.
func TestCircuitKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCircuitry()
		type underWay struct {
			epoch uint64
			state BreakerState
			trial bool
		}
		var runs []underWay
		take := func(t *rapid.T) underWay {
			if len(runs) == 0 {
				t.Skip("nothing runs")
			}
			i := rapid.IntRange(0, len(runs)-1).Draw(t, "run")
			r := runs[i]
			runs = append(runs[:i], runs[i+1:]...)
			return r
		}
		paced := func(trial bool) (n int) {
			for _, r := range runs {
				if r.state != BreakerClosed && r.epoch == c.epoch && r.trial == trial {
					n++
				}
			}
			return n
		}
		duration := func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "took"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				state, free := c.stateAt(c.now), c.admits(c.now)
				epoch, ok := c.admit(c.now)
				if ok != free || ok && state == BreakerOpen || !ok && state == BreakerClosed {
					t.Fatalf("let through: %v, though it is %s", ok, state)
				}
				if ok {
					runs = append(runs, underWay{epoch: epoch, state: state})
				}
			},
			"admit trial": func(t *rapid.T) {
				state, free := c.stateAt(c.now), c.trial.admits(c.now)
				epoch, ok := c.admitTrial(c.now)
				if ok != (free && state != BreakerClosed) {
					t.Fatalf("a trial is let through: %v, though it is %s", ok, state)
				}
				if ok {
					runs = append(runs, underWay{epoch, state, true})
				}
			},
			"report": func(t *rapid.T) {
				r, failed := take(t), rapid.IntRange(0, 9).Draw(t, "failed") > 0
				if r.trial {
					c.endTrial(c.now, r.epoch, failed, duration(t))
					return
				}
				n := rapid.IntRange(0, 150).Draw(t, "object")
				c.report(c.now, r.epoch, numbered(n), failed, duration(t), rapid.Float64Range(0, 0.99).Draw(t, "jitter"))
			},
			"cancel": func(t *rapid.T) {
				if r := take(t); r.trial {
					c.endTrial(c.now, r.epoch, false, 0)
				} else {
					c.cancel(r.epoch)
				}
			},
			"run well": func(t *rapid.T) {
				state, busy := c.state, c.probe.busy || c.trial.busy
				c.ranWell(c.now, c.epoch-uint64(rapid.IntRange(0, 1).Draw(t, "epochs ago")))
				if c.state != state && (busy || c.state != BreakerClosed) {
					t.Fatalf("it was %s and is %s", state, c.state)
				}
			},
			"advance": func(t *rapid.T) {
				c.now = c.now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "time")))
			},
			"": func(t *rapid.T) {
				if n := paced(false); n > 1 || (n == 1) != c.probe.busy {
					t.Fatalf("%d probes are under way, probing is %v", n, c.probe.busy)
				}
				if n := paced(true); n > 1 || (n == 1) != c.trial.busy {
					t.Fatalf("%d trials are under way, trying is %v", n, c.trial.busy)
				}
				if wait := c.trial.until.Sub(c.now); wait > 10*time.Second {
					t.Fatalf("pause of %s before a trial", wait)
				}
				if wait := c.probe.until.Sub(c.now); wait > maxPause && wait > probeShare*10*time.Second {
					t.Fatalf("pause of %s", wait)
				}
				if e := &c.window; e.recent.Len() > windowObjects || e.recent.Len() != len(e.bySubject) {
					t.Fatalf("%d objects are remembered, %d by name", e.recent.Len(), len(e.bySubject))
				}
			},
		})
		for _, r := range runs {
			if r.trial {
				c.endTrial(c.now, r.epoch, false, 0)
			} else {
				c.report(c.now, r.epoch, numbered(0), false, 0, 0)
			}
		}
		for n := range 1000 { // all is well: nothing is held up but by one pause
			if !c.admits(c.now) {
				if wait := c.probe.until.Sub(c.now); wait <= 0 || n > probesToClose {
					t.Fatalf("run %d is not let through, and a pause of %s", n, wait)
				}
				c.now = c.probe.until
			}
			c.run(n, false, 0)
		}
		if c.state != BreakerClosed {
			t.Fatalf("it is %s", c.state)
		}
	})
}
