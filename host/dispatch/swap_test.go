package dispatch

import (
	"context"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// TestAKeyThatWasHandedOutBeforeASwapIsNotRunByTheOldCode: what it remembers
// is for the new code by then. A run can wait for the cache for seconds before
// it begins.
func TestAKeyThatWasHandedOutBeforeASwapIsNotRunByTheOldCode(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	var memos []string
	remember := func(memo string) func(context.Context, Call) (Return, error) {
		return func(context.Context, Call) (Return, error) {
			memos = append(memos, string(b.request.Memo))
			return returns(&abi.Result{Memo: []byte(memo)})
		}
	}
	b.reconcile = remember(`"old"`)
	b.run()
	b.due = []Due{{Key: testKey}}
	l, _ := b.c.take(t.Context())
	next := *b.c.Generation()
	next.Number, next.MemoVersion = 2, "2"
	b.c.Swap(&next, nil)
	b.log = nil
	b.c.process(t.Context(), l)
	b.expect("cache shows status 101", "returned ns/w")
	b.reconcile = remember(`"new"`)
	b.run()
	b.run()
	if want := []string{"", "", `"new"`}; len(memos) != 3 || memos[1] != want[1] || memos[2] != want[2] {
		t.Errorf("memos %q, want %q", memos, want)
	}
}

// TestARunThatOutlivesItsGenerationIsHeldAgainstNobody: its fate is that of
// the old code, also for a key that has never run.
func TestARunThatOutlivesItsGenerationIsHeldAgainstNobody(t *testing.T) {
	b := newBench(t)
	b.widgets(3, fine)
	b.due = []Due{{Key: object.Key{Namespace: "ns", Name: "w0"}}}
	l, _ := b.c.take(t.Context())
	lost := b.swap(fine)
	b.c.process(t.Context(), l)
	for _, name := range []string{"w0", "w1", "w2"} {
		b.on(name)
	}
	trial := b.c.Generation().Trial
	if trial.score.comparison != (comparison{compared: 3}) || len(*lost) != 0 {
		t.Errorf("score %+v, lost %q", trial.score, *lost)
	}
}

// otherEffects are those under another policy.
type otherEffects struct{ testEffects }

func (e otherEffects) Intents(context.Context, *object.Object, *abi.Controller, *abi.Result) (Performed, *Failure) {
	e.note("intents under the other policy")
	return Performed{}, nil
}

// TestARunEndsUnderThePolicyThatItBeganWith, and the next one begins under the
// new one.
func TestARunEndsUnderThePolicyThatItBeganWith(t *testing.T) {
	b := newBench(t)
	b.put(aWidget)
	before := *b.c.Generation()
	b.reconcile = func(context.Context, Call) (Return, error) {
		next := before
		next.Number, next.Effects = 2, otherEffects{testEffects{b}}
		b.c.Swap(&next, nil)
		b.reconcile = fine
		return returns(&abi.Result{})
	}
	const other = "intents under the other policy"
	b.run()
	if slices.Contains(b.log, other) {
		t.Errorf("the run that was under way: %q", b.log)
	}
	b.run()
	if !slices.Contains(b.log, other) {
		t.Errorf("the next run: %q", b.log)
	}
}
