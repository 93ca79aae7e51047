package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
)

func TestAWriteLoopIsToldFromALotOfWork(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		wrote   string // a run each: w wrote, . did not
		apart   time.Duration
		looping bool
	}{
		"four writes are none":                  {"wwww", time.Second, false},
		"five running within 10 s are one":      {"wwwww", time.Second, true},
		"a run that writes nothing ends it":     {"wwwww.", time.Second, false},
		"and begins the count anew":             {"wwww.wwww", time.Second, false},
		"five within 11 s are none":             {"wwwww", 2750 * time.Millisecond, false},
		"more of them still are":                {"wwwwwwww", time.Second, true},
		"slowed down it is still the same loop": {"wwwwww", 2500 * time.Millisecond, true},
	} {
		var g guard
		looping := false
		for i, run := range c.wrote {
			looping = g.ran(start.Add(time.Duration(i)*c.apart), run == 'w')
		}
		if looping != c.looping {
			t.Errorf("%s: looping is %v", name, looping)
		}
	}
}

// TestAnotherGenerationIsNotHeld by what its predecessor wrote: new code runs
// at once, and for a loop it takes five writes of its own.
func TestAnotherGenerationIsNotHeld(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	for range loopRuns {
		b.run(abi.ReasonOwned)
	}
	g := *b.c.Generation()
	g.Number++
	b.c.Swap(&g, nil)
	for run := range loopRuns - 1 {
		b.request = nil
		b.run(abi.ReasonOwned)
		if b.request == nil {
			t.Fatalf("run %d of the new code is held", run)
		}
	}
	if b.loops != 1 {
		t.Errorf("%d loops counted", b.loops)
	}
}

func TestAKeyInALoopIsSlowedCountedAndReported(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	for range loopRuns {
		b.run(abi.ReasonOwned) // the fake server writes a status in every run
	}
	if b.loops != 1 {
		t.Errorf("%d loops counted", b.loops)
	}
	if last := b.log[len(b.log)-2]; last != "event Warning WriteLoop" {
		t.Errorf("reported %q", last)
	}
	b.log = nil
	b.run(abi.ReasonOwned)
	if len(b.log) != 1 || !strings.HasPrefix(b.log[0], "cache shows") {
		t.Errorf("not held: %q", b.log)
	}
	if next := b.settled[len(b.settled)-1]; next.After <= 0 || next.After > loopPause {
		t.Errorf("settled with %+v", next)
	}
	o := b.store[widget][testKey]
	b.put(string(mergePatch(t, o.Raw, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	b.run(abi.ReasonPrimary)
	if !b.request.Deleting {
		t.Error("the cleanup of a key in a loop is held up")
	}
	b.store[widget][testKey] = o
	b.run(abi.ReasonRequest)
	if got := b.request.Reasons; !slices.Contains(got, abi.ReasonRequest) {
		t.Errorf("the run that was asked for has the reasons %v", got)
	}
}
