package queue_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// The keys behind one that is held do not wait for it.
func TestAKeyThatIsHeldIsReturnedWhenItIsReleased(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.add("b", abi.ReasonPrimary)
		w.Hold(w.expectRun("a", abi.ReasonPrimary), "x")
		w.run("b", outcome.Next{}, abi.ReasonPrimary)
		w.add("a", abi.ReasonStatus, abi.ReasonPrimary)
		w.expectLen(1)
		w.add("c", abi.ReasonPrimary)
		if k, ok := w.ReleaseFirst("x"); !ok || k != key("a") {
			t.Fatalf("released %s %v", k, ok)
		}
		if _, ok := w.ReleaseFirst("x"); ok {
			t.Error("there is another key to release")
		}
		item := w.expectRun("a", abi.ReasonPrimary, abi.ReasonStatus) // before c, which came later
		if !item.ResetTries {
			t.Error("that its tries are reset was lost")
		}
		w.done("a", outcome.Next{})
		w.run("c", outcome.Next{}, abi.ReasonPrimary)
		w.expectKnown(0, 0)
	})
}

// A key that was changed between Next and Hold is in the workqueue already.
func TestAKeyThatBecameDueAgainIsPutBackInsteadOfHeld(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonRetry)
		item := w.expectRun("a", abi.ReasonRetry)
		w.add("a", abi.ReasonPrimary)
		if w.Hold(item, "x") {
			t.Error("it is held")
		}
		w.run("a", outcome.Next{}, abi.ReasonRetry, abi.ReasonPrimary)
	})
}

// In its group a key that somebody changes passes those that nobody waits for.
func TestHeldKeysAreReleasedInTheOrderOfTheirLanes(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			w.add(name, abi.ReasonResync)
			w.Hold(w.expectRun(name, abi.ReasonResync), "x")
			w.advance(time.Second)
		}
		w.add("c", abi.ReasonPrimary)
		for _, name := range []string{"c", "a"} {
			if k, _ := w.ReleaseFirst("x"); k != key(name) {
				t.Fatalf("released %s, want %s", k, name)
			}
		}
		w.run("c", outcome.Next{}, abi.ReasonResync, abi.ReasonPrimary)
		w.run("a", outcome.Next{}, abi.ReasonResync)
		w.expectLen(1)
	})
}

// Held keys keep their age, and go before those that became due later.
func TestReleasedKeysHaveTheirPlacesAgain(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for i, name := range []string{"a", "b", "c"} {
			w.add(name, abi.ReasonPrimary)
			w.Hold(w.expectRun(name, abi.ReasonPrimary), groups[i%2])
			w.advance(time.Second)
		}
		w.add("d", abi.ReasonPrimary)
		w.ReleaseAll()
		for _, name := range []string{"a", "b", "c", "d"} {
			w.run(name, outcome.Next{}, abi.ReasonPrimary)
		}
	})
}

// What makes a key due by itself goes on while it is held, and it can be forgotten.
func TestTheTimesOfAHeldKeyGoOn(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonResync)
		w.Hold(w.expectRun("a", abi.ReasonResync), "x")
		w.add("a", abi.ReasonOwned)
		w.advance(time.Second)
		w.Forget(key("a"))
		w.expectKnown(1, 0)
		w.ReleaseAll()
		w.run("a", outcome.Next{}, abi.ReasonResync, abi.ReasonOwned)
		w.expectKnown(0, 0)
	})
}

func TestHeldKeysCountAsWaiting(t *testing.T) {
	m := &meter{values: map[string]float64{}}
	scenario(t, queue.Config{Name: "c", MetricsProvider: m}, func(w *world) {
		depth := func(want float64) {
			t.Helper()
			m.mu.Lock()
			defer m.mu.Unlock()
			if got := m.values["c depth"]; got != want {
				t.Errorf("depth %v, want %v", got, want)
			}
		}
		w.add("a", abi.ReasonPrimary)
		w.add("b", abi.ReasonPrimary)
		w.Hold(w.expectRun("a", abi.ReasonPrimary), "x")
		depth(2)
		w.Hold(w.expectRun("b", abi.ReasonPrimary), "x")
		depth(2)
		w.ReleaseFirst("x")
		depth(2)
		w.run("a", outcome.Next{}, abi.ReasonPrimary)
		depth(1)
		w.ReleaseAll()
		w.run("b", outcome.Next{}, abi.ReasonPrimary)
		depth(0)
	})
}

func TestNothingIsReleasedAfterShutDown(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.Hold(w.expectRun("a", abi.ReasonPrimary), "x")
		w.ShutDown()
		if _, ok := w.ReleaseFirst("x"); ok {
			t.Error("a key is released")
		}
		w.ReleaseAll()
		if _, shutdown := w.Next(); !shutdown {
			t.Error("Next returns a key")
		}
	})
}
