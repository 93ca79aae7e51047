package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestCreditOfANamespace(t *testing.T) {
	type ran struct {
		before standing
		fails  bool
		took   time.Duration
	}
	times := func(n int, r ran) (all []ran) {
		for range n {
			all = append(all, r)
		}
		return all
	}
	good := ran{before: ranWell}
	for name, c := range map[string]struct {
		runs           []ran
		notRun, proven int
	}{
		"nothing has run":                         {nil, 0, 0},
		"one run is worth one that fails":         {times(1, good), 1, 1},
		"many are worth five":                     {times(100, good), 5, 5},
		"new objects fail":                        {append(times(9, good), times(3, ran{notRun, true, 0})...), 2, 5},
		"objects fail that ran well":              {append(times(9, good), times(9, ran{ranWell, true, 0})...), 5, 0},
		"objects fail that have failed":           {append(times(9, good), times(99, ran{failed, true, 0})...), 5, 5},
		"an object is corrected":                  {times(1, ran{failed, false, 0}), 1, 1},
		"a failing run of three seconds costs it": {append(times(9, good), ran{notRun, true, 3 * time.Second}), 1, 5},
		"no more than there is":                   {append(times(9, good), ran{notRun, true, time.Hour}), 0, 5},
		"a good run may take long":                {times(2, ran{notRun, false, time.Hour}), 2, 2},
		"nothing has run well":                    {times(9, ran{notRun, true, 0}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			all := credits{"other": {5, 5}}
			for _, r := range c.runs {
				all.add("ns", r.before, r.fails, r.took)
			}
			if a, b := all.left("ns", notRun), all.left("ns", ranWell); a != c.notRun || b != c.proven || all.left("ns", failed) != 0 {
				t.Errorf("credit %d for new objects and %d for others, want %d and %d", a, b, c.notRun, c.proven)
			}
			if _, known := all["ns"]; known != (c.notRun+c.proven > 0) {
				t.Errorf("it is remembered: %v", known)
			}
			if all["other"] != (credit{5, 5}) {
				t.Error("the credit of another namespace has changed")
			}
		})
	}
}

// However runs follow each other: of those that there was credit for, at most two have failed for each
// that has not.
func TestRunsOnCreditArePaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, good, bad := credits{}, 0, 0
		for range rapid.IntRange(0, 200).Draw(t, "runs") {
			s := standing(rapid.IntRange(0, int(failed)).Draw(t, "standing"))
			fails := rapid.Bool().Draw(t, "fails")
			if fails && all.left("ns", s) > 0 {
				bad++
			} else if !fails {
				good++
			}
			all.add("ns", s, fails, time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "took")))
		}
		if bad > 2*good {
			t.Fatalf("%d runs have failed on credit, and %d not", bad, good)
		}
	})
}

func TestCreditsAreBounded(t *testing.T) {
	all := credits{}
	for n := range 2 * maxTenants {
		all.add(fmt.Sprint("ns", n), notRun, false, 0)
	}
	if len(all) != maxTenants || all.left(fmt.Sprint("ns", 2*maxTenants-1), notRun) != 1 {
		t.Errorf("%d namespaces have credit", len(all))
	}
}

// The standing of an object follows its own last run that counts, under the running revision.
func TestStandingOfAnObject(t *testing.T) {
	f, _ := newFixtureWithBreaker(t)
	f.put(aWidget)
	expect := func(what string, want standing) {
		t.Helper()
		if got := f.c.standingOf(testKey); got != want {
			t.Errorf("%s: standing %d, want %d", what, got, want)
		}
	}
	expect("before the first run", notRun)
	f.run()
	expect("after a success", ranWell)
	f.reconcile = panics
	f.run()
	expect("after a panic", failed)
	f.reconcile = returnsCode(abi.CodeRetry)
	f.run()
	expect("after a retry that the plugin asks for", ranWell)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, sandbox.ErrClosed
	}
	f.run()
	expect("after a run that does not count", ranWell)
	f.swap(func(r *Revision) { r.Breaker = NewBreaker(func(BreakerStatus) {}) })
	expect("with another revision", notRun)
	f.reconcile = panics
	f.run()
	expect("after it has failed with that", failed)
}

// A turn that has run well goes on while a breaker is open because of objects, also of objects
// without a namespace. One that fails again and again waits like an object.
func TestATurnHasACreditOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFixtureWithBreaker(t)
		turn := object.Key{Name: "turn/s"}
		p, _ := f.admit(turn, notRun)
		p.report(nil, 0)
		f.breakDown()
		for range 3 * maxCredit {
			p, ok := f.admit(turn, notRun)
			if !ok {
				t.Fatal("the turn is held")
			}
			p.report(nil, 0)
		}
		if _, ok := f.admit(object.Key{Name: "cluster-scoped"}, notRun); ok {
			t.Error("an object without a namespace has the credit of the turn")
		}
		for range maxCredit {
			p, _ := f.admit(turn, notRun)
			p.report(&FaultReport{}, 0)
		}
		if _, ok := f.admit(turn, notRun); ok {
			t.Error("a turn that fails runs on")
		}
	})
}

// Keys are held when their namespace has no credit. When it has, as many are released as it has
// credit for, and more with the end of each, although the breaker pauses.
func TestHeldKeysAreReleasedWhenTheirNamespaceHasCredit(t *testing.T) {
	f, _ := newFixtureWithBreaker(t)
	early, _ := f.admit(object.Key{Namespace: "new", Name: "early"}, notRun)
	f.breakDown()
	for n := range 20 {
		f.admit(object.Key{Namespace: "new", Name: fmt.Sprint(n)}, notRun)
	}
	if len(f.due) > 0 {
		t.Fatalf("%v are not held", f.due)
	}
	early.report(nil, 0)
	for n := range 20 {
		if len(f.due) == 0 || len(f.due) > maxCredit*(n+1) {
			t.Fatalf("%d keys are released after %d runs", len(f.due), n)
		}
		var item queue.Item
		item, f.due = f.due[0], f.due[1:]
		p, ok := f.admit(item.Key, notRun)
		switch {
		case !ok:
			t.Fatalf("%s is held again", item.Key)
		case n%2 == 0:
			p.cancel()
		default:
			p.report(nil, 0)
		}
	}
	if len(f.due)+len(f.held["not run/new"]) > 0 {
		t.Errorf("%v are due, %v are held", f.due, f.held)
	}
}
