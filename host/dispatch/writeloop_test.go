package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// A run is written as its objects and their content: "a1 b1" wrote content 1 of the
// objects a and b. A run that others woke begins with "!".
func TestWhatIsAWriteLoop(t *testing.T) {
	// counting returns runs that each write new content of the same objects.
	counting := func(n int, objects ...string) (runs []string) {
		for i := range n {
			var run []string
			for _, o := range objects {
				run = append(run, o+fmt.Sprint(i))
			}
			runs = append(runs, strings.Join(run, " "))
		}
		return runs
	}
	// growing returns runs that each write one more object.
	growing := func(n int) (runs []string) {
		for i := range n {
			runs = append(runs, string(rune('A'+i))+"1 s"+fmt.Sprint(i))
		}
		return runs
	}
	woken := func(runs []string) (all []string) {
		for _, r := range runs {
			all = append(all, "!"+r)
		}
		return all
	}
	alternating := func(n int) (runs []string) {
		for i := range n {
			runs = append(runs, []string{"a", "b"}[i%2]+fmt.Sprint(i))
		}
		return runs
	}
	for name, c := range map[string]struct {
		runs []string
		loop bool
	}{
		"19 runs on the same object are none":            {counting(19, "a"), false},
		"20 are one":                                     {counting(20, "a"), true},
		"20 on the same two objects are one":             {counting(20, "a", "b"), true},
		"20 on two objects in turn are one":              {alternating(22), true},
		"a run that writes nothing ends the row":         {slices.Concat(counting(19, "a"), []string{""}, counting(19, "a")), false},
		"a run that others woke ends the row":            {slices.Concat(counting(19, "a"), []string{"!a99"}, counting(19, "a")), false},
		"any number of runs that others woke are none":   {woken(counting(200, "a")), false},
		"any number of runs with one more object each":   {growing(50), false},
		"content that the row had replaced is one":       {[]string{"a1", "a2", "a1"}, true},
		"also that of the run before it":                 {[]string{"!a1", "a2", "a1"}, true},
		"the same content again is none":                 {[]string{"a1", "a1", "a1"}, false},
		"content that others made the run replace":       {[]string{"a1", "!a2", "!a1", "!a2"}, false},
		"the same content of another object is none":     {[]string{"a1 b2", "a2 b1"}, false},
		"a loop that was slowed down stays one":          {counting(40, "a"), true},
		"and ends with the first run that writes none":   {append(counting(40, "a"), ""), false},
		"and does not end because others wake the key":   {append(counting(40, "a"), "!a99"), true},
		"patch and status of one object are not one":     {[]string{"a1 A1", "a1 A1", "a1 A1"}, false},
		"an object that is gone and made again and gone": {[]string{"a1", "a-", "a1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var loop writeLoop
			told := 0
			for _, run := range c.runs {
				others := strings.HasPrefix(run, "!")
				if loop.ended(!others, writesOf(strings.TrimPrefix(run, "!"))) {
					told++
				}
			}
			if looping := loop.slowed > 0; looping != c.loop || c.loop && told != 1 {
				t.Errorf("loop: %v, told %d times", looping, told)
			}
		})
	}
}

func writesOf(run string) (writes []effect.Write) {
	for w := range strings.FieldsSeq(run) {
		verb := abi.VerbApply
		if strings.ToLower(w) != w {
			verb = abi.VerbStatus
		}
		wrote := effect.Write{Verb: verb, Kind: gadget, Key: object.Key{Name: strings.ToLower(w[:1])}}
		copy(wrote.Content[:], w[1:])
		writes = append(writes, wrote)
	}
	return writes
}

func TestAWriteLoopIsSlowedGradually(t *testing.T) {
	var loop writeLoop
	var pauses []time.Duration
	for n := range loopRuns + 9 {
		loop.ended(true, writesOf("a"+fmt.Sprint(n)))
		if pause := loop.pause(); pause > 0 {
			pauses = append(pauses, pause)
		}
	}
	want := []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
		1600 * time.Millisecond, 3200 * time.Millisecond, 6400 * time.Millisecond, 10 * time.Second, 10 * time.Second, 10 * time.Second,
	}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
}

// loop runs a widget whose plugin writes something else in every run, until it is
// in a write loop, and returns the event of its last own write.
func (f *fixture) loop() (before, after *object.Object) {
	n := 0
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		n++
		return returns(&abi.Result{Apply: []abi.Apply{{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g","labels":{"n":"%d"}}}`, n)}}})
	}
	f.put(aWidget)
	for range loopRuns + 1 { // others woke the first one
		f.run(abi.ReasonOwned)
	}
	f.log = nil
	return f.store[widget][testKey], f.child(f.version - 1) // the last write is of the status
}

// child is the gadget of the widget, at a resourceVersion.
func (f *fixture) child(version int) *object.Object {
	f.t.Helper()
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"child","resourceVersion":"%d",
		"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}]}}`, version), abi.Kind{})
	if err != nil {
		f.t.Fatal(err)
	}
	return o
}

func TestAWriteLoopIsToldOnce(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.loop()
	f.run(abi.ReasonOwned)
	if f.loops != 2 {
		t.Errorf("%d runs are counted", f.loops)
	}
	if n := strings.Count(strings.Join(f.log, "\n"), "WriteLoop"); n != 0 {
		t.Errorf("told %d times more", n)
	}
}

func TestOnlyOwnWritesWaitInAWriteLoop(t *testing.T) {
	f := newFixture(t)
	primary, own := f.loop()
	f.c.ObserveOwned(nil, own)
	f.expect("add own ns/w owned after 100ms")
	f.c.ObserveOwned(own, f.child(900)) // by somebody else
	f.expect("add ns/w owned")
	f.c.Observe(primary, patched(t, primary, `{"metadata":{"resourceVersion":"901","generation":2}}`), false)
	f.expect("add ns/w primary")
	f.c.Observe(primary, patched(t, primary, `{"metadata":{"resourceVersion":"902","annotations":{"`+RequestedAt+`":"now"}}}`), false)
	f.expect("add ns/w request")
	f.swap(func(*Revision) {})
	f.run(abi.ReasonPlugin)
	f.log = nil
	f.c.ObserveOwned(nil, f.child(f.version-1))
	f.expect("add own ns/w owned after 0s") // a new revision is in no loop
}

func TestTheRunOfANewRevisionIsNotWokenByOwnWrites(t *testing.T) {
	f := newFixture(t)
	f.loop()
	f.swap(func(*Revision) {})
	f.run(abi.ReasonPlugin)
	if n := f.c.keys[testKey].writeLoop.runs; n != 0 {
		t.Errorf("it counts as run %d of a row", n)
	}
}

// The cleanup removes the finalizer, which is a write, and no run follows it.
func TestTheRemovalOfTheFinalizerIsNoPartOfAWriteLoop(t *testing.T) {
	f := newFixture(t)
	f.loop()
	f.put(string(mergePatch(t, f.store[widget][testKey].Raw, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	f.reconcile = succeed
	f.loops = 0
	f.run(abi.ReasonPrimary)
	if !slices.Contains(f.log, "remove finalizer") || f.loops != 0 {
		t.Errorf("%d loops counted; what happened: %q", f.loops, f.log)
	}
}

// A plugin that requests its own reconcile is woken by its own write.
func TestAPluginThatPatchesItsOwnRequestedAtIsInAWriteLoop(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	n := 0
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		n++
		return returns(&abi.Result{Patch: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, RequestedAt, n)})
	}
	f.run(abi.ReasonPrimary)
	for range loopRuns {
		f.log = nil
		before := f.store[widget][testKey]
		f.run(abi.ReasonRequest)
		after := f.patches[len(f.patches)-1]
		f.log = nil
		f.c.Observe(before, after, false)
		if !strings.HasPrefix(strings.Join(f.log, ""), "add own ns/w request after ") {
			t.Fatalf("its own request: %q", f.log)
		}
	}
	if f.c.keys[testKey].writeLoop.slowed == 0 {
		t.Error("not slowed")
	}
}

func TestWhatIsRememberedOfARowOfWritesIsBounded(t *testing.T) {
	var l writeLoop
	for i := range 2 * maxContents {
		l.ended(true, []effect.Write{{Verb: abi.VerbApply, Kind: gadget, Key: object.Key{Name: fmt.Sprint(i)}}})
	}
	if len(l.contents) != maxContents {
		t.Errorf("%d contents are remembered", len(l.contents))
	}
	if l.ended(true, nil); l.kept() != nil {
		t.Errorf("%+v is kept of a key that writes nothing", l)
	}
}
