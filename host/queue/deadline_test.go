package queue_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// withTimer is how a run ends whose next timer is due after a time.
func withTimer(next outcome.Next, timer time.Duration) outcome.Next {
	next.Latest = timer
	return next
}

// ends runs a test with a queue in which the run of "a" has just ended so.
func ends(t *testing.T, next outcome.Next, run func(w *world)) {
	t.Helper()
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.run("a", next, abi.ReasonPrimary)
		run(w)
	})
}

func TestATimerMakesAKeyDueBesideItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		next    outcome.Next
		in      time.Duration
		reasons []abi.Reason
	}{
		"without a deadline":        {withTimer(outcome.Next{}, time.Second), time.Second, []abi.Reason{abi.ReasonTimer}},
		"before the deadline":       {withTimer(after(time.Minute), time.Second), time.Second, []abi.Reason{abi.ReasonTimer}},
		"during a backoff":          {withTimer(backoff(time.Minute), time.Second), time.Second, []abi.Reason{abi.ReasonTimer}},
		"after the deadline":        {withTimer(after(time.Second), time.Minute), time.Second, []abi.Reason{abi.ReasonRequeue}},
		"together with the backoff": {withTimer(backoff(time.Second), time.Second), time.Second, []abi.Reason{abi.ReasonRetry, abi.ReasonTimer}},
	} {
		t.Run(name, func(t *testing.T) {
			ends(t, c.next, func(w *world) {
				w.expectKnown(1, 1)
				w.advance(c.in - 1)
				w.expectLen(0)
				w.advance(1)
				if item := w.expectRun("a", c.reasons...); item.ResetTries {
					w.Error("the tries are reset")
				}
				w.done("a", outcome.Next{}) // which replaces the deadline and the timer
				w.advance(time.Hour)
				w.expectLen(0)
				w.expectKnown(0, 0)
			})
		})
	}
}

// A resync, and a change by the key's own runs, are ignored in the backoff that goes on.
func TestATimerDoesNotEndABackoff(t *testing.T) {
	ends(t, withTimer(backoff(time.Minute), time.Second), func(w *world) {
		w.advance(time.Second)
		w.add("a", abi.ReasonResync)
		w.Add(key("a"), queue.Cause{Reason: abi.ReasonOwned, Own: true})
		w.run("a", outcome.Next{}, abi.ReasonTimer)
	})
}

func TestAChangeRunsAKeyBeforeItsTimer(t *testing.T) {
	ends(t, withTimer(outcome.Next{}, time.Minute), func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.run("a", withTimer(outcome.Next{}, 2*time.Minute), abi.ReasonPrimary)
		w.advance(2*time.Minute - 1)
		w.expectLen(0)
		w.advance(1)
		w.run("a", outcome.Next{}, abi.ReasonTimer)
	})
}

func TestAKeyThatIsPutBackRunsOnce(t *testing.T) {
	ends(t, withTimer(outcome.Next{}, time.Minute), func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.PutBack(w.expectRun("a", abi.ReasonPrimary))
		w.advance(time.Hour)
		w.run("a", outcome.Next{}, abi.ReasonPrimary)
	})
}

func TestTimersWaitBehindFreshChangesAndBeforeResyncs(t *testing.T) {
	ends(t, withTimer(outcome.Next{}, time.Second), func(w *world) {
		w.add("b", abi.ReasonResync)
		w.advance(time.Second)
		w.add("c", abi.ReasonPrimary)
		w.run("c", outcome.Next{}, abi.ReasonPrimary)
		w.run("a", outcome.Next{}, abi.ReasonTimer)
		w.run("b", outcome.Next{}, abi.ReasonResync)
	})
}

func TestAKeyThatIsForgottenHasNoTimer(t *testing.T) {
	ends(t, withTimer(outcome.Next{}, time.Second), func(w *world) {
		w.Forget(key("a"))
		w.expectKnown(0, 0)
		w.add("a", abi.ReasonPrimary)
		w.expectRun("a", abi.ReasonPrimary)
		w.Forget(key("a"))
		w.done("a", withTimer(outcome.Next{}, time.Second))
		w.expectKnown(0, 0)
	})
}

// A key that waits is allocated by itself, in a class of 352 bytes.
func TestAKeyThatWaitsTakesNoMoreThanItsShare(t *testing.T) {
	if queue.EntrySize > 352 {
		t.Errorf("%d bytes: the next class of Go's allocator has 384", queue.EntrySize)
	}
}
