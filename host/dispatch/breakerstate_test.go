package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// circuitry is a circuit in a time of its own. Its pauses have no jitter.
type circuitry struct {
	circuit
	now time.Time
}

func newCircuitry() *circuitry {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &circuitry{newCircuit(start), start}
}

func numbered(n int) subject {
	return subject{"c", object.Key{Namespace: "ns", Name: fmt.Sprint(n)}}
}

// run is one run of an object, unless it is not let through.
func (c *circuitry) run(n int, failed bool, took time.Duration) bool {
	epoch, ok := c.admit(c.now)
	if ok {
		c.now = c.now.Add(took)
		c.report(c.now, epoch, numbered(n), failed, took, 0)
	}
	return ok
}

func (c *circuitry) expect(t *testing.T, want BreakerState) {
	t.Helper()
	if got := c.stateAt(c.now); got != want {
		t.Fatalf("it is %s, want %s", got, want)
	}
}

// TestWhatOpensACircuit has a history each: so many objects, so many of them
// bad, each tried so often.
func TestWhatOpensACircuit(t *testing.T) {
	for name, c := range map[string]struct {
		good, bad, tries int
		took             time.Duration // a call of a bad one
		apart            time.Duration // between calls
		opens            string        // "": it does not
	}{
		"ten objects fail":                           {bad: 10, tries: 1, opens: "10 of the last 10 objects failed"},
		"nine are too few":                           {bad: 9, tries: 100, opens: ""},
		"one bad among many good":                    {good: 5000, bad: 1, tries: 1000, opens: ""},
		"one that burns time among many good":        {good: 5000, bad: 1, tries: 100, took: 10 * time.Second, opens: ""},
		"a fifth of the objects is good":             {good: 3, bad: 12, tries: 1, opens: "12 of the last 15 objects failed"},
		"more than a fifth is good":                  {good: 4, bad: 12, tries: 10, opens: ""},
		"a few new bad ones among many old good":     {good: 5000, bad: 79, tries: 10, opens: ""},
		"the plugin goes bad after many good":        {good: 5000, bad: 80, tries: 1, opens: "80 of the last 100 objects failed"},
		"five objects burn their deadline":           {bad: 5, tries: 1, took: 10 * time.Second, opens: "failing calls of 5 objects took 33s of the last 33s"},
		"also beside many good":                      {good: 5000, bad: 5, tries: 1, took: 10 * time.Second, opens: "failing calls of 5 objects"},
		"four do not":                                {bad: 4, tries: 100, took: 10 * time.Second, opens: ""},
		"five that burn little":                      {bad: 5, tries: 100, took: time.Millisecond, opens: ""},
		"five that burn it rarely, each backing off": {bad: 5, tries: 10, took: 10 * time.Second, apart: time.Minute, opens: ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newCircuitry()
			for n := range c.good {
				x.run(-n-1, false, 0)
			}
			for range c.tries {
				for n := range c.bad {
					x.now = x.now.Add(c.apart)
					x.run(n, true, c.took)
				}
			}
			if !strings.HasPrefix(x.reason, c.opens) || x.reason != "" && c.opens == "" {
				t.Errorf("it is %s for %q, want %q", x.stateAt(x.now), x.reason, c.opens)
			}
		})
	}
}

// broken is a circuit that has just opened.
func broken() *circuitry {
	c := newCircuitry()
	for n := range minFailing {
		c.run(n, true, 0)
	}
	return c
}

func TestPausesDoubleUpToTenSeconds(t *testing.T) {
	c := broken()
	for _, seconds := range []int{1, 2, 4, 8, 10, 10} {
		if got := c.probe.until.Sub(c.now); got != time.Duration(seconds)*time.Second {
			t.Fatalf("pause of %s, want %d s", got, seconds)
		}
		c.now = c.probe.until.Add(-1)
		if c.run(0, true, 0) {
			t.Fatal("a run was let through early")
		}
		c.now = c.probe.until
		c.expect(t, BreakerHalfOpen)
		if !c.run(0, true, 0) {
			t.Fatal("no probe was let through")
		}
		c.expect(t, BreakerOpen)
	}
}

func TestAPauseIsLongerThanTheProbeBeforeIt(t *testing.T) {
	c := broken()
	c.now = c.probe.until
	c.run(0, true, 10*time.Second)
	if got := c.probe.until.Sub(c.now); got != 50*time.Second {
		t.Errorf("pause of %s after a call of 10 s", got)
	}
	c.now = c.probe.until
	c.run(0, true, 20*time.Second)
	if got := c.probe.until.Sub(c.now); got != 100*time.Second {
		t.Errorf("pause of %s after a call of 20 s", got)
	}
}

func TestJitterShortensAPauseByAFifthAtMost(t *testing.T) {
	c := broken()
	c.now = c.probe.until
	epoch, _ := c.admit(c.now)
	c.report(c.now, epoch, numbered(0), true, 0, 0.999999)
	if got := c.probe.until.Sub(c.now); got < 1600*time.Millisecond || got > 1601*time.Millisecond {
		t.Errorf("pause of %s", got)
	}
}

func TestThreeSoundProbesInARowClose(t *testing.T) {
	c := broken()
	c.now = c.probe.until
	for _, failed := range []bool{false, false, true} { // not in a row
		c.expect(t, BreakerHalfOpen)
		c.run(0, failed, 0)
	}
	c.expect(t, BreakerOpen)
	c.now = c.probe.until
	for range probesToClose {
		c.expect(t, BreakerHalfOpen)
		if !c.run(0, false, 0) {
			t.Fatal("a successful probe does not admit the next one at once")
		}
	}
	c.expect(t, BreakerClosed)
	if c.reason != "" || !c.probe.until.IsZero() {
		t.Errorf("it is closed, with the reason %q and paused until %s", c.reason, c.probe.until)
	}
	c.run(0, true, 0)
	c.expect(t, BreakerClosed) // what was before counts no more
}

// TestPauseGrowsWhenACircuitOpensAgainSoon: one that was closed for long begins
// anew.
func TestPauseGrowsWhenACircuitOpensAgainSoon(t *testing.T) {
	reopen := func(closedFor time.Duration) time.Duration {
		c := broken()
		for range 3 { // 1 s, 2 s, 4 s
			c.now = c.probe.until
			c.run(0, true, 0)
		}
		c.now = c.probe.until
		for range probesToClose {
			c.run(0, false, 0)
		}
		c.now = c.now.Add(closedFor)
		for n := range minFailing {
			c.run(n, true, 0)
		}
		return c.probe.until.Sub(c.now)
	}
	for closedFor, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, 3 * time.Minute: 2 * time.Second, time.Hour: time.Second,
	} {
		if got := reopen(closedFor); got != want {
			t.Errorf("closed for %s: pause of %s, want %s", closedFor, got, want)
		}
	}
}

func TestRunsOfAnEarlierStateCountForNothing(t *testing.T) {
	c := newCircuitry()
	early, _ := c.admit(c.now)
	for n := range minFailing {
		c.run(n, true, 0)
	}
	c.report(c.now, early, numbered(0), false, 0, 0)
	c.now = c.probe.until
	probe, _ := c.admit(c.now)
	c.cancel(early)
	c.report(c.now, early, numbered(0), true, 0, 0)
	if _, ok := c.admit(c.now); ok {
		t.Fatal("a second probe was let through")
	}
	c.cancel(probe)
	if _, ok := c.admit(c.now); !ok {
		t.Fatal("a probe that said nothing does not lead to another one")
	}
}

// A minute after its last pause nothing has been there to probe, such as when the objects that
// failed were deleted. What runs well on credit closes it.
func TestAQuietCircuitIsClosedByARunThatIsNoProbe(t *testing.T) {
	c := broken()
	c.now = c.probe.until.Add(quietTime - 1)
	c.ranWell(c.now, c.epoch)
	c.expect(t, BreakerHalfOpen)
	trial, _ := c.admitTrial(c.now)
	c.now = c.now.Add(time.Minute)
	c.ranWell(c.now, c.epoch) // the trial may fail
	c.expect(t, BreakerHalfOpen)
	c.endTrial(c.now, trial, true, 0)
	c.now = c.trial.until.Add(quietTime)
	c.ranWell(c.now, c.epoch-1) // it began before the circuit opened
	c.expect(t, BreakerHalfOpen)
	c.ranWell(c.now, c.epoch)
	c.expect(t, BreakerClosed)
}

func TestATrialFollowsAnotherOneAtOnceUnlessThatFailed(t *testing.T) {
	for took, pause := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Second: 10 * time.Second} {
		c := broken()
		for _, failed := range []bool{false, true} {
			epoch, ok := c.admitTrial(c.now)
			if _, second := c.admitTrial(c.now); !ok || second {
				t.Fatalf("admitted are %v and %v at once", ok, second)
			}
			c.now = c.now.Add(took)
			c.endTrial(c.now, epoch, failed, took)
		}
		c.now = c.now.Add(pause - 1)
		if _, ok := c.admitTrial(c.now); ok {
			t.Errorf("after a failure of %s it is admitted in less than %s", took, pause)
		}
		c.now = c.now.Add(1)
		if _, ok := c.admitTrial(c.now); !ok {
			t.Errorf("after a failure of %s it is not admitted in %s", took, pause)
		}
	}
}
