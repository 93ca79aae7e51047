package queue_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// TestAKeyThatIsPutBackIsNextAgain with the reasons that it had and those that
// came meanwhile.
func TestAKeyThatIsPutBackIsNextAgain(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonOwned)
		w.advance(100 * time.Millisecond)
		w.add("b", abi.ReasonPrimary)
		w.add("c", abi.ReasonResync)
		item := w.expectRun("a", abi.ReasonOwned)
		w.add("a", abi.ReasonPrimary, abi.ReasonStatus)
		w.PutBack(item)
		item = w.expectRun("a", abi.ReasonOwned, abi.ReasonPrimary, abi.ReasonStatus)
		if !item.ResetTries {
			t.Error("the change that came meanwhile did not reset the tries")
		}
		w.done("a", outcome.Next{})
		w.run("b", outcome.Next{}, abi.ReasonPrimary)
		w.PutBack(w.expectRun("c", abi.ReasonResync))
		w.add("b", abi.ReasonPrimary)
		w.run("b", outcome.Next{}, abi.ReasonPrimary) // the background waits as before
		w.run("c", outcome.Next{}, abi.ReasonResync)
		w.expectKnown(0, 0)
	})
}

func TestAKeyThatIsPutBackKeepsItsAge(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("old", abi.ReasonResync)
		w.advance(8 * time.Second)
		w.PutBack(w.expectRun("old", abi.ReasonResync))
		w.advance(2 * time.Second)
		for _, name := range []string{"a", "b", "c", "d"} {
			w.add(name, abi.ReasonPrimary)
		}
		for _, name := range []string{"a", "b", "c"} {
			w.run(name, outcome.Next{}, abi.ReasonPrimary)
		}
		w.run("old", outcome.Next{}, abi.ReasonResync)
	})
}

func TestAYieldingRetryRunsAfterFreshKeys(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("bad", abi.ReasonPrimary)
		w.run("bad", yielding(time.Second), abi.ReasonPrimary)
		w.advance(time.Second)
		w.add("fresh", abi.ReasonStatus)
		w.run("fresh", outcome.Next{}, abi.ReasonStatus)
		w.run("bad", yielding(time.Second), abi.ReasonRetry)
		w.add("fresh", abi.ReasonStatus)
		w.add("bad", abi.ReasonPrimary) // somebody has corrected it
		w.run("fresh", outcome.Next{}, abi.ReasonStatus)
		w.run("bad", outcome.Next{}, abi.ReasonPrimary)
	})
}
