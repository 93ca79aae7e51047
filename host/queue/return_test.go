package queue_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

// TestAReturnedKeyWasNeverAway: it is the next again, for all that it was due
// for and all that came meanwhile.
func TestAReturnedKeyWasNeverAway(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.trigger("a", abi.ReasonOwned)
		w.advance(100 * time.Millisecond)
		w.trigger("b", abi.ReasonPrimary)
		w.trigger("c", abi.ReasonResync)
		item := w.expectRun("a", abi.ReasonOwned)
		w.trigger("a", abi.ReasonPrimary, abi.ReasonStatus)
		w.Return(item)
		item = w.expectRun("a", abi.ReasonOwned, abi.ReasonPrimary, abi.ReasonStatus)
		if !item.Reset {
			t.Error("the change that came meanwhile does not reset the tries")
		}
		w.settle("a", queue.Next{})
		w.run("b", queue.Next{}, abi.ReasonPrimary)
		w.Return(w.expectRun("c", abi.ReasonResync))
		w.trigger("b", abi.ReasonPrimary)
		w.run("b", queue.Next{}, abi.ReasonPrimary) // the background waits as before
		w.run("c", queue.Next{}, abi.ReasonResync)
		w.expectKnown(0, 0)
	})
}

func TestAReturnedKeyGrowsOld(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.trigger("old", abi.ReasonResync)
		w.advance(8 * time.Second)
		w.Return(w.expectRun("old", abi.ReasonResync))
		w.advance(2 * time.Second)
		for _, name := range []string{"a", "b", "c", "d"} {
			w.trigger(name, abi.ReasonPrimary)
		}
		for _, name := range []string{"a", "b", "c"} {
			w.run(name, queue.Next{}, abi.ReasonPrimary)
		}
		w.run("old", queue.Next{}, abi.ReasonResync)
	})
}

// TestARetryThatYields comes when its time has come and nothing fresh is due.
func TestARetryThatYields(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.trigger("bad", abi.ReasonPrimary)
		w.run("bad", queue.Next{After: time.Second, Backoff: true, Yields: true}, abi.ReasonPrimary)
		w.advance(time.Second)
		w.trigger("fresh", abi.ReasonStatus)
		w.run("fresh", queue.Next{}, abi.ReasonStatus)
		w.run("bad", queue.Next{After: time.Second, Backoff: true, Yields: true}, abi.ReasonRetry)
		w.trigger("fresh", abi.ReasonStatus)
		w.trigger("bad", abi.ReasonPrimary) // somebody has mended it
		w.run("fresh", queue.Next{}, abi.ReasonStatus)
		w.run("bad", queue.Next{}, abi.ReasonPrimary)
	})
}
