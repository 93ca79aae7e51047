package queue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a queue in a synctest bubble, whose time moves only by advance.
type world struct {
	*testing.T
	*queue.Queue
	start time.Time
}

// scenario runs a test in a bubble with a new queue.
func scenario(t *testing.T, config queue.Config, run func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Queue: queue.New(config), start: time.Now()}
		defer w.ShutDown()
		run(w)
	})
}

func key(name string) queue.Key { return queue.Key{Namespace: "default", Name: name} }

// advance lets time pass, and waits until everything that is due by then has
// happened.
func (w *world) advance(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}

func (w *world) add(name string, reasons ...abi.Reason) {
	for _, r := range reasons {
		w.Add(key(name), queue.Cause{Reason: r})
	}
}

// addSpread makes keys due for another revision.
func (w *world) addSpread(keys []queue.Key) {
	for i, key := range keys {
		w.Add(key, queue.Cause{Reason: abi.ReasonPlugin, Pause: queue.Spread(i, len(keys))})
	}
}

// expectRun calls Next, which must return this key with these reasons.
func (w *world) expectRun(name string, reasons ...abi.Reason) queue.Item {
	w.Helper()
	w.expectLen(-1)
	item, _ := w.Next()
	if item.Key != key(name) || !slices.Equal(item.Reasons, reasons) {
		w.Fatalf("after %v: Next returned %s for %v, want %s for %v", time.Since(w.start), item.Key, item.Reasons, name, reasons)
	}
	return item
}

// expectLen checks how many keys are due; -1 stands for at least one.
func (w *world) expectLen(want int) {
	w.Helper()
	if n := w.Len(); n != want && (want >= 0 || n == 0) {
		w.Fatalf("after %v: %d keys are due, want %d", time.Since(w.start), n, want)
	}
}

func (w *world) done(name string, next outcome.Next) { w.Done(key(name), next) }

// run is expectRun followed by Done.
func (w *world) run(name string, next outcome.Next, reasons ...abi.Reason) {
	w.Helper()
	w.expectRun(name, reasons...)
	w.done(name, next)
}

func (w *world) expectKnown(keys, deadlines int) {
	w.Helper()
	if k, t := w.Known(); k != keys || t != deadlines {
		w.Fatalf("%d keys are kept with %d deadlines, want %d with %d", k, t, keys, deadlines)
	}
}

func after(d time.Duration) outcome.Next {
	return outcome.Next{Kind: outcome.After, After: d, Reason: abi.ReasonRequeue}
}

func backoff(d time.Duration) outcome.Next {
	return outcome.Next{Kind: outcome.Backoff, After: d, Reason: abi.ReasonRetry}
}

// yielding is a backoff after which other keys go first.
func yielding(d time.Duration) outcome.Next {
	next := backoff(d)
	next.Yields = true
	return next
}
