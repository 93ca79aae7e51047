package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// backsOff runs a test with a queue in which "a" has just failed and backs off
// for a minute.
func backsOff(t *testing.T, run func(w *world)) {
	t.Helper()
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.run("a", backoff(time.Minute), abi.ReasonPrimary)
		run(w)
	})
}

func TestAddDuringBackoff(t *testing.T) {
	for _, c := range []struct {
		reason abi.Reason
		in     time.Duration // when the key is due
		reset  bool
	}{
		{abi.ReasonPrimary, 0, true},
		{abi.ReasonRequest, 0, true},
		{abi.ReasonPlugin, 0, false},
		{abi.ReasonOwned, 100 * time.Millisecond, false},
		{abi.ReasonRead, 100 * time.Millisecond, false},
		{abi.ReasonStatus, time.Minute, false},
		{abi.ReasonResync, time.Minute, false},
	} {
		t.Run(string(c.reason), func(t *testing.T) {
			backsOff(t, func(w *world) {
				w.add("a", c.reason)
				if c.in > 0 {
					w.advance(c.in - 1)
					w.expectLen(0)
					w.advance(1)
				}
				want := []abi.Reason{c.reason}
				if c.in == time.Minute {
					want = []abi.Reason{abi.ReasonRetry}
				}
				item := w.expectRun("a", want...)
				if item.ResetTries != c.reset {
					w.Errorf("reset is %v, want %v", item.ResetTries, c.reset)
				}
				w.done("a", outcome.Next{})
				w.advance(2 * time.Minute)
				w.expectLen(0) // the deadline was replaced
			})
		})
	}
}

func TestDeadlines(t *testing.T) {
	t.Run("expire with the reason that they were set for", func(t *testing.T) {
		for want, next := range map[abi.Reason]outcome.Next{
			abi.ReasonRetry:   backoff(time.Second),
			abi.ReasonRequeue: after(time.Second),
			"timer":           {Kind: outcome.After, After: time.Second, Reason: "timer"},
		} {
			scenario(t, queue.Config{}, func(w *world) {
				w.add("a", abi.ReasonPrimary)
				w.run("a", next, abi.ReasonPrimary)
				w.advance(time.Second - 1)
				w.expectLen(0)
				w.advance(1)
				w.run("a", outcome.Next{}, want)
			})
		}
	})
	t.Run("are replaced by the next run", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.run("a", after(time.Second), abi.ReasonPrimary)
			w.add("a", abi.ReasonPrimary)
			w.run("a", after(time.Hour), abi.ReasonPrimary)
			w.advance(time.Hour - 1)
			w.expectLen(0)
			w.advance(1)
			w.run("a", outcome.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("expire in order of time", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			for i := range 100 {
				w.add(fmt.Sprint(i), abi.ReasonPrimary)
				w.run(fmt.Sprint(i), after(time.Duration(100-i)*time.Second), abi.ReasonPrimary)
			}
			for i := range 100 {
				w.advance(time.Second)
				w.run(fmt.Sprint(99-i), outcome.Next{}, abi.ReasonRequeue)
			}
		})
	})
	t.Run("are replaced by a run for an edge", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			for i, name := range []string{"a", "b", "c"} {
				w.add(name, abi.ReasonPrimary)
				w.run(name, after(time.Duration(i+1)*time.Second), abi.ReasonPrimary)
			}
			w.add("c", abi.ReasonRead)
			w.advance(100 * time.Millisecond)
			w.run("c", after(10*time.Second), abi.ReasonRead)
			w.advance(900 * time.Millisecond)
			w.run("a", outcome.Next{}, abi.ReasonRequeue)
			w.advance(time.Second)
			w.run("b", outcome.Next{}, abi.ReasonRequeue)
			w.advance(8*time.Second + 99*time.Millisecond)
			w.expectLen(0)
			w.advance(time.Millisecond)
			w.run("c", outcome.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("are not waited for by a resync", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.run("a", after(time.Hour), abi.ReasonPrimary)
			w.add("a", abi.ReasonResync)
			w.run("a", outcome.Next{}, abi.ReasonResync)
		})
	})
}

func TestAddDuringTheRun(t *testing.T) {
	running := func(t *testing.T, run func(w *world)) {
		t.Helper()
		scenario(t, queue.Config{}, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			run(w)
		})
	}
	t.Run("leads to one more run", func(t *testing.T) {
		running(t, func(w *world) {
			w.add("a", abi.ReasonPrimary, abi.ReasonPrimary, abi.ReasonRequest)
			w.expectLen(0) // not while it runs
			w.done("a", backoff(time.Second))
			w.run("a", outcome.Next{}, abi.ReasonPrimary, abi.ReasonRequest)
			w.advance(time.Hour)
			w.expectLen(0)
		})
	})
	t.Run("an edge is due 100 ms after it came", func(t *testing.T) {
		running(t, func(w *world) {
			w.add("a", abi.ReasonRead)
			w.advance(60 * time.Millisecond)
			w.done("a", backoff(time.Hour))
			w.advance(39 * time.Millisecond)
			w.expectLen(0)
			w.advance(time.Millisecond)
			w.run("a", outcome.Next{}, abi.ReasonRead)
		})
	})
	t.Run("an edge that came long ago is due at once", func(t *testing.T) {
		running(t, func(w *world) {
			w.add("a", abi.ReasonRead)
			w.advance(time.Second)
			w.done("a", outcome.Next{})
			w.run("a", outcome.Next{}, abi.ReasonRead)
		})
	})
	t.Run("a resync is dropped if the run ends in backoff", func(t *testing.T) {
		running(t, func(w *world) {
			w.add("a", abi.ReasonResync)
			w.done("a", backoff(time.Minute))
			w.expectLen(0)
			w.advance(time.Minute)
			w.run("a", outcome.Next{}, abi.ReasonRetry)
		})
	})
	t.Run("a resync runs if the backoff has no end", func(t *testing.T) {
		running(t, func(w *world) {
			w.add("a", abi.ReasonResync)
			w.done("a", backoff(0))
			w.run("a", outcome.Next{}, abi.ReasonResync)
		})
	})
	t.Run("a resync runs if the run ends well", func(t *testing.T) {
		running(t, func(w *world) {
			w.add("a", abi.ReasonResync)
			w.done("a", outcome.Next{})
			w.run("a", outcome.Next{}, abi.ReasonResync)
		})
	})
}

func TestABurstOfEdgesLeadsToOneRun(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for range 50 { // a steady stream must not postpone the run
			w.add("a", abi.ReasonOwned, abi.ReasonRead)
			w.advance(2 * time.Millisecond)
		}
		w.run("a", outcome.Next{}, abi.ReasonOwned, abi.ReasonRead)
		w.advance(time.Hour)
		w.expectLen(0)
	})
}

func TestAPrimaryChangeIncludesPendingEdges(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonRead, abi.ReasonPrimary)
		item := w.expectRun("a", abi.ReasonRead, abi.ReasonPrimary)
		w.done("a", outcome.Next{})
		w.advance(time.Hour)
		w.expectLen(0)
		if !item.ResetTries {
			w.Error("the primary's change did not reset the tries")
		}
	})
}

func TestOrderOfKeys(t *testing.T) {
	t.Run("fresh, timed, background", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("failed", abi.ReasonPrimary)
			w.run("failed", backoff(time.Second), abi.ReasonPrimary)
			w.add("regular", abi.ReasonPrimary)
			w.run("regular", after(time.Second), abi.ReasonPrimary)
			w.add("listed", abi.ReasonResync)
			w.add("swapped", abi.ReasonPlugin)
			w.advance(time.Second)
			w.add("changed", abi.ReasonPrimary)
			w.run("changed", outcome.Next{}, abi.ReasonPrimary)
			w.run("failed", outcome.Next{}, abi.ReasonRetry)
			w.run("regular", outcome.Next{}, abi.ReasonRequeue)
			w.run("listed", outcome.Next{}, abi.ReasonResync)
			w.run("swapped", outcome.Next{}, abi.ReasonPlugin)
		})
	})
	t.Run("a change moves a key to the fresh ones", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("first", abi.ReasonResync)
			w.add("second", abi.ReasonResync, abi.ReasonPrimary)
			w.run("second", outcome.Next{}, abi.ReasonResync, abi.ReasonPrimary)
			w.run("first", outcome.Next{}, abi.ReasonResync)
			w.expectLen(0)
		})
	})
	t.Run("an edge moves it there after 100 ms", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("first", abi.ReasonResync)
			w.add("second", abi.ReasonResync, abi.ReasonOwned)
			w.advance(100 * time.Millisecond)
			w.run("second", outcome.Next{}, abi.ReasonResync, abi.ReasonOwned)
		})
	})
	t.Run("a new revision runs failing keys first, and fresh ones before them", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.add("b", abi.ReasonPlugin)
			w.add("a", abi.ReasonPlugin)
			w.add("changed", abi.ReasonPrimary)
			w.run("changed", outcome.Next{}, abi.ReasonPrimary)
			w.run("a", outcome.Next{}, abi.ReasonPlugin)
			w.run("b", outcome.Next{}, abi.ReasonPlugin)
		})
	})
	t.Run("a change during the backoff runs after others and before deadlines", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.add("timer", abi.ReasonRequeue)
			w.add("a", abi.ReasonPrimary)
			w.add("b", abi.ReasonPrimary)
			w.run("b", outcome.Next{}, abi.ReasonPrimary)
			w.run("a", outcome.Next{}, abi.ReasonPrimary)
			w.run("timer", outcome.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("a change during the run too, however often it is repeated", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			w.add("a", abi.ReasonPrimary)
			w.done("a", outcome.Next{})
			w.add("b", abi.ReasonPrimary)
			w.add("a", abi.ReasonPrimary, abi.ReasonRequest)
			w.run("b", outcome.Next{}, abi.ReasonPrimary)
			w.run("a", outcome.Next{}, abi.ReasonPrimary, abi.ReasonRequest)
			w.add("a", abi.ReasonPrimary)
			w.add("b", abi.ReasonPrimary)
			w.run("a", outcome.Next{}, abi.ReasonPrimary) // its run had ended
		})
	})
}

// Aged background keys get every fourth turn, neither more nor less.
func TestAgedKeysGetEveryFourthTurn(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for i := range 20 {
			w.add(fmt.Sprintf("listed-%d", i), abi.ReasonResync)
		}
		w.advance(10*time.Second - 1)
		for i := range 100 {
			w.add(fmt.Sprintf("changed-%d", i), abi.ReasonPrimary)
		}
		order := func(n int) (s string) {
			for range n {
				item, _ := w.Next()
				s += string(item.Name[0])
				w.Done(item.Key, outcome.Next{})
			}
			return s
		}
		if got, want := order(8), "cccccccc"; got != want {
			w.Errorf("before 10 s: %s, want %s", got, want)
		}
		w.advance(1)
		if got, want := order(12), "lccclccclccc"; got != want {
			w.Errorf("after 10 s: %s, want %s", got, want)
		}
	})
}

// Keys that very many are due with wait behind those that changed by themselves, unless
// they back off.
func TestVeryManyKeysWaitInTheBackground(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.Add(key("bulk"), queue.Cause{Reason: abi.ReasonRead, Bulk: true})
		w.add("edited", abi.ReasonPrimary)
		w.run("edited", outcome.Next{}, abi.ReasonPrimary)
		w.run("bulk", outcome.Next{}, abi.ReasonRead)
	})
	backsOff(t, func(w *world) {
		w.Add(key("bulk"), queue.Cause{Reason: abi.ReasonRead, Bulk: true})
		w.Add(key("a"), queue.Cause{Reason: abi.ReasonRead, Bulk: true})
		item := w.expectRun("a", abi.ReasonRead)
		if item.ResetTries {
			w.Error("the tries are reset")
		}
		w.done("a", outcome.Next{})
		w.run("bulk", outcome.Next{}, abi.ReasonRead)
	})
}
