package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

// backsOff is a queue in which "a" failed just now and waits for a minute.
func backsOff(t *testing.T, run func(w *world)) {
	t.Helper()
	scenario(t, queue.Config{}, func(w *world) {
		w.trigger("a", abi.ReasonPrimary)
		w.run("a", queue.Next{After: time.Minute, Backoff: true}, abi.ReasonPrimary)
		run(w)
	})
}

func TestTriggersDuringBackoff(t *testing.T) {
	for _, c := range []struct {
		reason abi.Reason
		in     time.Duration // when the key is due
		reset  bool
	}{
		{abi.ReasonPrimary, 0, true},
		{abi.ReasonRequest, 0, true},
		{abi.ReasonPlugin, 0, true},
		{abi.ReasonOwned, 100 * time.Millisecond, false},
		{abi.ReasonRead, 100 * time.Millisecond, false},
		{abi.ReasonStatus, time.Minute, false},
		{abi.ReasonResync, time.Minute, false},
	} {
		t.Run(string(c.reason), func(t *testing.T) {
			backsOff(t, func(w *world) {
				w.trigger("a", c.reason)
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
				if item.Reset != c.reset {
					w.Errorf("reset is %v, want %v", item.Reset, c.reset)
				}
				w.settle("a", queue.Next{})
				w.advance(2 * time.Minute)
				w.expectLen(0) // the deadline was replaced
			})
		})
	}
}

func TestDeadlines(t *testing.T) {
	t.Run("fires as what it was set for", func(t *testing.T) {
		for want, next := range map[abi.Reason]queue.Next{
			abi.ReasonRetry:   {After: time.Second, Backoff: true},
			abi.ReasonRequeue: {After: time.Second},
			"timer":           {After: time.Second, Reason: "timer"},
		} {
			scenario(t, queue.Config{}, func(w *world) {
				w.trigger("a", abi.ReasonPrimary)
				w.run("a", next, abi.ReasonPrimary)
				w.advance(time.Second - 1)
				w.expectLen(0)
				w.advance(1)
				w.run("a", queue.Next{}, want)
			})
		}
	})
	t.Run("is one, the latest", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.run("a", queue.Next{After: time.Second}, abi.ReasonPrimary)
			w.trigger("a", abi.ReasonPrimary)
			w.run("a", queue.Next{After: time.Hour}, abi.ReasonPrimary)
			w.advance(time.Hour - 1)
			w.expectLen(0)
			w.advance(1)
			w.run("a", queue.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("fire in their order", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			for i := range 100 {
				w.trigger(fmt.Sprint(i), abi.ReasonPrimary)
				w.run(fmt.Sprint(i), queue.Next{After: time.Duration(100-i) * time.Second}, abi.ReasonPrimary)
			}
			for i := range 100 {
				w.advance(time.Second)
				w.run(fmt.Sprint(99-i), queue.Next{}, abi.ReasonRequeue)
			}
		})
	})
	t.Run("are overtaken by an edge, and keep their time", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			for i, name := range []string{"a", "b", "c"} {
				w.trigger(name, abi.ReasonPrimary)
				w.run(name, queue.Next{After: time.Duration(i+1) * time.Second}, abi.ReasonPrimary)
			}
			w.trigger("c", abi.ReasonRead)
			w.advance(100 * time.Millisecond)
			w.run("c", queue.Next{After: 10 * time.Second}, abi.ReasonRead)
			w.advance(900 * time.Millisecond)
			w.run("a", queue.Next{}, abi.ReasonRequeue)
			w.advance(time.Second)
			w.run("b", queue.Next{}, abi.ReasonRequeue)
			w.advance(8*time.Second + 99*time.Millisecond)
			w.expectLen(0)
			w.advance(time.Millisecond)
			w.run("c", queue.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("a resync does not wait for an interval", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.run("a", queue.Next{After: time.Hour}, abi.ReasonPrimary)
			w.trigger("a", abi.ReasonResync)
			w.run("a", queue.Next{}, abi.ReasonResync)
		})
	})
}

func TestTriggersDuringTheRun(t *testing.T) {
	running := func(t *testing.T, run func(w *world)) {
		t.Helper()
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			run(w)
		})
	}
	t.Run("lead to one more run", func(t *testing.T) {
		running(t, func(w *world) {
			w.trigger("a", abi.ReasonPrimary, abi.ReasonPrimary, abi.ReasonRequest)
			w.expectLen(0) // not while it runs
			w.settle("a", queue.Next{After: time.Second, Backoff: true})
			w.run("a", queue.Next{}, abi.ReasonPrimary, abi.ReasonRequest)
			w.advance(time.Hour)
			w.expectLen(0)
		})
	})
	t.Run("an edge waits its 100 ms from when it came", func(t *testing.T) {
		running(t, func(w *world) {
			w.trigger("a", abi.ReasonRead)
			w.advance(60 * time.Millisecond)
			w.settle("a", queue.Next{After: time.Hour, Backoff: true})
			w.advance(39 * time.Millisecond)
			w.expectLen(0)
			w.advance(time.Millisecond)
			w.run("a", queue.Next{}, abi.ReasonRead)
		})
	})
	t.Run("an edge of long ago runs at once", func(t *testing.T) {
		running(t, func(w *world) {
			w.trigger("a", abi.ReasonRead)
			w.advance(time.Second)
			w.settle("a", queue.Next{})
			w.run("a", queue.Next{}, abi.ReasonRead)
		})
	})
	t.Run("a resync is dropped if the run ends in backoff", func(t *testing.T) {
		running(t, func(w *world) {
			w.trigger("a", abi.ReasonResync)
			w.settle("a", queue.Next{After: time.Minute, Backoff: true})
			w.expectLen(0)
			w.advance(time.Minute)
			w.run("a", queue.Next{}, abi.ReasonRetry)
		})
	})
	t.Run("a resync runs if the backoff has no end", func(t *testing.T) {
		running(t, func(w *world) {
			w.trigger("a", abi.ReasonResync)
			w.settle("a", queue.Next{Backoff: true})
			w.run("a", queue.Next{}, abi.ReasonResync)
		})
	})
	t.Run("else a resync runs", func(t *testing.T) {
		running(t, func(w *world) {
			w.trigger("a", abi.ReasonResync)
			w.settle("a", queue.Next{})
			w.run("a", queue.Next{}, abi.ReasonResync)
		})
	})
}

func TestBurstOfEdgesIsOneRun(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for range 50 { // a steady stream must not hold the run up
			w.trigger("a", abi.ReasonOwned, abi.ReasonRead)
			w.advance(2 * time.Millisecond)
		}
		w.run("a", queue.Next{}, abi.ReasonOwned, abi.ReasonRead)
		w.advance(time.Hour)
		w.expectLen(0)
	})
}

func TestPrimaryTakesWaitingEdgesAlong(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.trigger("a", abi.ReasonRead, abi.ReasonPrimary)
		item := w.expectRun("a", abi.ReasonRead, abi.ReasonPrimary)
		w.settle("a", queue.Next{})
		w.advance(time.Hour)
		w.expectLen(0)
		if !item.Reset {
			w.Error("the primary's change does not reset")
		}
	})
}

func TestOrder(t *testing.T) {
	t.Run("urgent before background", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("listed", abi.ReasonResync)
			w.trigger("swapped", abi.ReasonPlugin)
			w.trigger("changed", abi.ReasonPrimary)
			w.run("changed", queue.Next{}, abi.ReasonPrimary)
			w.run("listed", queue.Next{}, abi.ReasonResync)
			w.run("swapped", queue.Next{}, abi.ReasonPlugin)
		})
	})
	t.Run("a change lifts a key that waits in the background", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("first", abi.ReasonResync)
			w.trigger("second", abi.ReasonResync, abi.ReasonPrimary)
			w.run("second", queue.Next{}, abi.ReasonResync, abi.ReasonPrimary)
			w.run("first", queue.Next{}, abi.ReasonResync)
			w.expectLen(0)
		})
	})
	t.Run("an edge lifts it after its 100 ms", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("first", abi.ReasonResync)
			w.trigger("second", abi.ReasonResync, abi.ReasonOwned)
			w.advance(100 * time.Millisecond)
			w.run("second", queue.Next{}, abi.ReasonResync, abi.ReasonOwned)
		})
	})
	t.Run("a new plugin runs failing objects first", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.trigger("b", abi.ReasonPlugin)
			w.trigger("a", abi.ReasonPlugin)
			w.run("a", queue.Next{}, abi.ReasonPlugin)
			w.run("b", queue.Next{}, abi.ReasonPlugin)
		})
	})
}

// An initial list of old keys takes every fourth turn, neither more nor less.
func TestAgeing(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for i := range 20 {
			w.trigger(fmt.Sprintf("listed-%d", i), abi.ReasonResync)
		}
		w.advance(10*time.Second - 1)
		for i := range 100 {
			w.trigger(fmt.Sprintf("changed-%d", i), abi.ReasonPrimary)
		}
		order := func(n int) (s string) {
			for range n {
				item, _ := w.Next()
				s += string(item.Name[0])
				w.Settle(item.Key, queue.Next{})
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
