package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
)

func TestFiveWritingRunsWithinTenSecondsAreAWriteLoop(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		wrote   string // a run each: w wrote, . did not
		apart   time.Duration
		looping bool
	}{
		"four writing runs are none":            {"wwww", time.Second, false},
		"five within 10 s are one":              {"wwwww", time.Second, true},
		"a run that writes nothing ends it":     {"wwwww.", time.Second, false},
		"and restarts the count":                {"wwww.wwww", time.Second, false},
		"five within 11 s are none":             {"wwwww", 2750 * time.Millisecond, false},
		"more than five are one":                {"wwwwwwww", time.Second, true},
		"a loop that was slowed down stays one": {"wwwwww", 2500 * time.Millisecond, true},
	} {
		var loop writeLoop
		looping := false
		for i, run := range c.wrote {
			looping = loop.ended(start.Add(time.Duration(i)*c.apart), run == 'w')
		}
		if looping != c.looping {
			t.Errorf("%s: looping is %v", name, looping)
		}
	}
}

// The cleanup removes the finalizer, which is a write, and no run follows it.
func TestTheRemovalOfTheFinalizerIsNoPartOfAWriteLoop(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	for range loopRuns - 1 {
		f.run(abi.ReasonOwned)
	}
	f.put(string(mergePatch(t, f.store[widget][testKey].Raw, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	f.log = nil
	f.run(abi.ReasonPrimary)
	if !slices.Contains(f.log, "remove finalizer") || slices.Contains(f.log, "event Warning WriteLoop") {
		t.Errorf("what happened: %q", f.log)
	}
	if f.loops != 0 {
		t.Errorf("%d loops counted", f.loops)
	}
}

// A new revision runs at once, and is in a write loop only after five writing runs
// of its own.
func TestANewRevisionIsNotPausedForTheWritesOfTheOld(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	for range loopRuns {
		f.run(abi.ReasonOwned)
	}
	f.swap(func(*Revision) {})
	for run := range loopRuns - 1 {
		f.request = nil
		f.run(abi.ReasonOwned)
		if f.request == nil {
			t.Fatalf("run %d of the new revision is paused", run)
		}
	}
	if f.loops != 1 {
		t.Errorf("%d loops counted", f.loops)
	}
}

func TestAKeyInAWriteLoopIsPausedCountedAndReported(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	for range loopRuns {
		f.run(abi.ReasonOwned) // the fake server writes a status in every run
	}
	if f.loops != 1 {
		t.Errorf("%d loops counted", f.loops)
	}
	if last := f.log[len(f.log)-2]; last != "event Warning WriteLoop" {
		t.Errorf("reported %q", last)
	}
	f.log = nil
	f.run(abi.ReasonOwned)
	if len(f.log) != 1 || !strings.HasPrefix(f.log[0], "cache has") {
		t.Errorf("not paused: %q", f.log)
	}
	if next := f.done[len(f.done)-1]; next.After <= 0 || next.After > loopPause {
		t.Errorf("done with %+v", next)
	}
	o := f.store[widget][testKey]
	f.put(string(mergePatch(t, o.Raw, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	f.run(abi.ReasonPrimary)
	if !f.request.Deleting {
		t.Error("the cleanup of a key in a write loop is paused")
	}
	f.store[widget][testKey] = o
	f.run(abi.ReasonRequest)
	if got := f.request.Reasons; !slices.Contains(got, abi.ReasonRequest) {
		t.Errorf("the requested run has the reasons %v", got)
	}
}
