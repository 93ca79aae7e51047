package queue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a queue in a bubble of its own time.
type world struct {
	*testing.T
	*queue.Queue
	start time.Time
}

// scenario runs a test in a bubble: time moves only by advance.
func scenario(t *testing.T, config queue.Config, run func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Queue: queue.New(config), start: time.Now()}
		defer w.ShutDown()
		run(w)
	})
}

func key(name string) queue.Key { return queue.Key{Namespace: "default", Name: name} }

// advance lets time pass and everything happen that is due by then.
func (w *world) advance(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}

func (w *world) trigger(name string, reasons ...abi.Reason) {
	for _, r := range reasons {
		w.Trigger(key(name), r)
	}
}

// expectRun takes the next key, which must be this one, for these reasons.
func (w *world) expectRun(name string, reasons ...abi.Reason) queue.Item {
	w.Helper()
	w.expectLen(-1)
	item, _ := w.Next()
	if item.Key != key(name) || !slices.Equal(item.Reasons, reasons) {
		w.Fatalf("after %v: handed out %s for %v, want %s for %v", time.Since(w.start), item.Key, item.Reasons, name, reasons)
	}
	return item
}

// expectLen checks how many keys are due; -1 stands for some.
func (w *world) expectLen(want int) {
	w.Helper()
	if n := w.Len(); n != want && (want >= 0 || n == 0) {
		w.Fatalf("after %v: %d keys are due, want %d", time.Since(w.start), n, want)
	}
}

func (w *world) settle(name string, next queue.Next) { w.Settle(key(name), next) }

// run takes and settles a key that is due.
func (w *world) run(name string, next queue.Next, reasons ...abi.Reason) {
	w.Helper()
	w.expectRun(name, reasons...)
	w.settle(name, next)
}

func (w *world) expectKnown(keys, timers int) {
	w.Helper()
	if k, t := w.Known(); k != keys || t != timers {
		w.Fatalf("knows %d keys with %d timers, want %d with %d", k, t, keys, timers)
	}
}
