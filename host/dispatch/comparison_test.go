package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// swapOnProbation swaps to a revision on probation that reconciles with the given
// function, and returns the reasons for which it failed.
func (f *fixture) swapOnProbation(reconcile reconcileFunc) *[]string {
	var reasons []string
	f.swap(func(r *Revision) {
		r.Comparison = NewRevisionComparison(time.Now().Add(time.Hour), func(reason string) { reasons = append(reasons, reason) })
	})
	f.reconcile = reconcile
	return &reasons
}

// widgets stores n widgets, and runs each under the first revision.
func (f *fixture) widgets(n int, reconcile reconcileFunc) {
	f.reconcile = reconcile
	for i := range n {
		f.put(strings.NewReplacer(`"w"`, fmt.Sprintf(`"w%d"`, i), `"u1"`, fmt.Sprintf(`"u%d"`, i)).Replace(aWidget))
		f.runNamed(fmt.Sprintf("w%d", i))
	}
}

func hostFails(context.Context, sandbox.Call) (sandbox.Return, error) {
	return sandbox.Return{}, errors.New("no memory left in the host")
}

func TestARevisionFailsIfMoreObjectsFailThanBefore(t *testing.T) {
	for _, c := range []struct {
		name          string
		objects       int
		before, after reconcileFunc
		runs          int // of each object
		failed        bool
	}{
		{"three panic", 3, succeed, panics, 1, true},
		{"two panic", 2, succeed, panics, 1, false},
		{"two panic twice", 2, succeed, panics, 2, true},
		{"the only one panics", 1, succeed, panics, 3, true},
		{"the only one panics, so far", 1, succeed, panics, 2, false},
		{"many ask for a retry once", 20, succeed, returnsCode(abi.CodeRetry), 1, false},
		{"many ask for a retry again", 20, succeed, returnsCode(abi.CodeRetry), 2, true},
		{"as bad as before", 20, panics, panics, 3, false},
		{"better than before", 20, panics, succeed, 1, false},
		{"stalled is no failure", 20, succeed, returnsCode(abi.CodeStalled), 3, false},
		{"the host fails", 20, succeed, hostFails, 3, false},
		{"nothing ran before", 20, hostFails, panics, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.widgets(c.objects, c.before)
			failed := f.swapOnProbation(c.after)
			for range c.runs {
				for i := range c.objects {
					f.runNamed(fmt.Sprintf("w%d", i))
				}
			}
			if got := len(*failed) > 0; got != c.failed || len(*failed) > 1 {
				t.Errorf("failed: %q, want %v, once", *failed, c.failed)
			}
		})
	}
}

func TestTheReasonNamesTheLastFailure(t *testing.T) {
	f := newFixture(t)
	f.widgets(4, succeed)
	failed := f.swapOnProbation(panics)
	for i := range 3 {
		f.runNamed(fmt.Sprintf("w%d", i))
	}
	want := "3 of 3 objects fail that did not fail before; the last: ns/w2: panic"
	if len(*failed) != 1 || (*failed)[0] != want {
		t.Errorf("failed: %q, want %q", *failed, want)
	}
}

// The new code may be right about it.
func TestOneFailingObjectOfManyDoesNotFailTheRevision(t *testing.T) {
	f := newFixture(t)
	f.widgets(10, succeed)
	failed := f.swapOnProbation(succeed)
	for i := range 10 {
		f.runNamed(fmt.Sprintf("w%d", i))
	}
	f.reconcile = panics
	for range 20 {
		f.runNamed("w4")
	}
	if len(*failed) != 0 {
		t.Errorf("failed: %q", *failed)
	}
}

// Its successor is compared with the last healthy revision.
func TestAnUnhealthyRevisionIsNotComparedWith(t *testing.T) {
	f := newFixture(t)
	f.widgets(5, succeed)
	first := f.swapOnProbation(panics)
	f.runNamed("w0")
	f.runNamed("w1")
	second := f.swapOnProbation(panics)
	for _, name := range []string{"w0", "w1", "w2"} {
		f.runNamed(name)
	}
	if len(*first) != 0 || len(*second) != 1 {
		t.Errorf("failed: %q and %q", *first, *second)
	}
}

func TestAHealthyRevisionIsComparedWithBeforeItsProbationEnds(t *testing.T) {
	f := newFixture(t)
	f.widgets(3, panics)
	f.swapOnProbation(succeed)
	if f.c.Revision().Comparison.Healthy() {
		t.Error("healthy before it has run")
	}
	for i := range 3 {
		f.runNamed(fmt.Sprintf("w%d", i))
	}
	if !f.c.Revision().Comparison.Healthy() {
		t.Error("not healthy, though nothing fails")
	}
	failed := f.swapOnProbation(panics)
	for i := range 3 {
		f.runNamed(fmt.Sprintf("w%d", i))
	}
	if len(*failed) != 1 || f.c.Revision().Comparison.Healthy() {
		t.Errorf("failed: %q, healthy: %v", *failed, f.c.Revision().Comparison.Healthy())
	}
}

func TestAfterTheProbationARevisionCannotFail(t *testing.T) {
	var failed []string
	comparison := NewRevisionComparison(time.Now().Add(-time.Second), func(reason string) { failed = append(failed, reason) })
	f := newFixture(t)
	f.widgets(5, succeed)
	g := *f.c.Revision()
	g.Comparison = comparison
	f.c.Swap(&g, nil)
	f.reconcile = panics
	for i := range 5 {
		f.runNamed(fmt.Sprintf("w%d", i))
	}
	if len(failed) != 0 || !comparison.Healthy() {
		t.Errorf("failed: %q", failed)
	}
}

// Also for a key that has never run.
func TestARunOfAReplacedRevisionDoesNotCount(t *testing.T) {
	f := newFixture(t)
	f.widgets(3, succeed)
	f.due = []queue.Item{{Key: object.Key{Namespace: "ns", Name: "w0"}}}
	l, _ := f.c.take(t.Context())
	failed := f.swapOnProbation(succeed)
	f.c.process(t.Context(), l)
	for _, name := range []string{"w0", "w1", "w2"} {
		f.runNamed(name)
	}
	comparison := f.c.Revision().Comparison
	if comparison.score.objectCounts != (objectCounts{compared: 3}) || len(*failed) != 0 {
		t.Errorf("score %+v, failed %q", comparison.score, *failed)
	}
}

func TestTheScoreIsTheSumOverAllObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := make([]runHistory, rapid.IntRange(1, 6).Draw(t, "objects"))
		for i := range objects {
			objects[i].before = runHealth(rapid.IntRange(int(unknown), int(failing)).Draw(t, "before"))
		}
		var running score
		for range rapid.IntRange(0, 40).Draw(t, "runs") {
			o := &objects[rapid.IntRange(0, len(objects)-1).Draw(t, "object")]
			before := *o
			o.now = o.now.then(runHealth(rapid.IntRange(int(unknown), int(failing)).Draw(t, "run")))
			running.objectCounts = running.plus(before.compare(), -1).plus(o.compare(), 1)
		}
		var whole objectCounts
		for _, o := range objects {
			whole = whole.plus(o.compare(), 1)
		}
		if running.objectCounts != whole {
			t.Fatalf("%+v, want %+v", running.objectCounts, whole)
		}
		if whole.worse+whole.better > whole.compared {
			t.Fatalf("%+v", whole)
		}
	})
}

// All objects fail once, as they do while something that the plugin calls is
// away for a moment, and one of them is retried before the others.
func TestRetriesOfManyObjectsCountOnlyOnceRepeated(t *testing.T) {
	f := newFixture(t)
	f.widgets(20, succeed)
	failed := f.swapOnProbation(returnsCode(abi.CodeRetry))
	for i := range 20 {
		f.runNamed(fmt.Sprintf("w%d", i))
	}
	f.runNamed("w0")
	f.runNamed("w1")
	if len(*failed) != 0 {
		t.Errorf("failed: %q", *failed)
	}
	f.runNamed("w2")
	if want := "3 of 20 objects fail that did not fail before; the last: ns/w2: retry"; len(*failed) != 1 || (*failed)[0] != want {
		t.Errorf("failed: %q, want %q", *failed, want)
	}
}

// An object that was edited or deleted may need a retry that it did not need
// before. A panic is never right.
func TestARetryOfAnEditedObjectDoesNotCountAndAPanicDoes(t *testing.T) {
	for name, change := range map[string]string{
		"edited":  `{"metadata":{"generation":2}}`,
		"deleted": `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
	} {
		for _, c := range []struct {
			how    string
			runs   reconcileFunc
			failed int
		}{{"asks", returnsCode(abi.CodeRetry), 0}, {"panics", panics, 1}} {
			t.Run(name+" and "+c.how, func(t *testing.T) {
				f := newFixture(t)
				f.widgets(5, succeed)
				failed := f.swapOnProbation(c.runs)
				for range 3 {
					for i := range 5 {
						key := object.Key{Namespace: "ns", Name: fmt.Sprintf("w%d", i)}
						f.store[widget][key] = patched(t, f.store[widget][key], change)
						f.runNamed(key.Name)
					}
				}
				if len(*failed) != c.failed {
					t.Errorf("failed: %q", *failed)
				}
			})
		}
	}
}

func TestFailuresOfTheHostDoNotCount(t *testing.T) {
	f := newFixture(t)
	f.widgets(1, succeed)
	failed := f.swapOnProbation(panics)
	f.runNamed("w0")
	f.reconcile = hostFails
	f.runNamed("w0")
	f.runNamed("w0")
	if len(*failed) != 0 {
		t.Errorf("failed: %q", *failed)
	}
}
