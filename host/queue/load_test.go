package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// load is a queue under load: a key that fails and changes a hundred times a
// second, a key for which the plugin itself fails, and ten thousand keys with an
// interval, all of which are due at the beginning.
type load struct {
	*queue.Queue
	takes time.Duration // each run

	mu    sync.Mutex
	added map[queue.Key]time.Time // edits that have not run
	waits []time.Duration         // of edits, until they ran
	ahead []string                // keys that were taken while an edit waited
	taken map[string]int          // keys by the first word of their name
}

const (
	loadEvents = 10 * time.Millisecond
	loadTimers = 10_000
)

// startLoad starts workers and changes; stop ends them. Edits come from edit.
func startLoad(workers int, takes time.Duration) (l *load, stop func()) {
	l = &load{Queue: queue.New(queue.Config{}), takes: takes, added: map[queue.Key]time.Time{}, taken: map[string]int{}}
	l.Add(key("poison"), queue.Cause{Reason: abi.ReasonPrimary})
	for i := range loadTimers {
		l.Add(key(fmt.Sprint("interval ", i)), queue.Cause{Reason: abi.ReasonRequeue})
	}
	var ended sync.WaitGroup
	for range workers {
		ended.Go(l.work)
	}
	end := make(chan struct{})
	ended.Go(func() {
		ticker := time.NewTicker(loadEvents)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.Add(key("failing"), queue.Cause{Reason: abi.ReasonPrimary})
			case <-end:
				return
			}
		}
	})
	return l, func() {
		close(end)
		l.ShutDown()
		ended.Wait()
	}
}

func (l *load) edit(i int) {
	k := key(fmt.Sprint("edit ", i))
	l.mu.Lock()
	l.added[k] = time.Now()
	l.mu.Unlock()
	l.Add(k, queue.Cause{Reason: abi.ReasonPrimary})
}

func (l *load) work() {
	for {
		item, shutdown := l.Next()
		if shutdown {
			return
		}
		what := l.take(item.Key)
		<-time.After(l.takes)
		switch what {
		case "interval":
			l.Done(item.Key, after(time.Minute))
		case "failing":
			l.Done(item.Key, backoff(outcome.MinDelay))
		case "poison":
			l.Done(item.Key, yielding(outcome.MinDelay))
		default:
			l.Done(item.Key, outcome.Next{})
		}
	}
}

func (l *load) take(k queue.Key) (what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what, _, _ = strings.Cut(k.Name, " ")
	l.taken[what]++
	if at, ok := l.added[k]; ok {
		l.waits = append(l.waits, time.Since(at))
		delete(l.added, k)
	} else if len(l.added) > 0 {
		l.ahead = append(l.ahead, what)
	}
	return what
}

// A controller with one worker, 40 ms for each run, and more work than it can do:
// whatever waits, an edit of another object is the next key.
func TestAFreshEditIsTheNextKeyUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := startLoad(1, 40*time.Millisecond)
		time.Sleep(3 * time.Millisecond) // fake time, never that at which a run ends
		for i := range 300 {
			l.edit(i)
			time.Sleep(370 * time.Millisecond) // fake time
		}
		stop()
		if len(l.waits) != 300 || len(l.ahead) > 0 {
			t.Fatalf("%d of 300 edits ran; %d other keys were taken before them", len(l.waits), len(l.ahead))
		}
		slices.Sort(l.waits)
		t.Logf("the longest wait was %v; runs: %v", l.waits[len(l.waits)-1], l.taken)
		for what, least := range map[string]int{"interval": 500, "failing": 1500, "poison": 10} {
			if l.taken[what] < least {
				t.Errorf("%d runs of %q: it starves", l.taken[what], what)
			}
		}
	})
}

// BenchmarkFreshEditUnderLoad measures how long an edit waits for its run while a
// controller has more work than it can do.
func BenchmarkFreshEditUnderLoad(b *testing.B) {
	for name, c := range map[string]struct {
		workers int
		takes   time.Duration
	}{
		"1 worker, 40 ms": {1, 40 * time.Millisecond},
		"8 workers, 1 ms": {8, time.Millisecond},
	} {
		b.Run(name, func(b *testing.B) {
			l, stop := startLoad(c.workers, c.takes)
			for i := 0; b.Loop(); i++ {
				l.edit(i)
				<-time.After(213 * time.Millisecond)
			}
			stop()
			slices.Sort(l.waits)
			at := func(share float64) float64 {
				return float64(l.waits[int(share*float64(len(l.waits)))].Microseconds()) / 1000
			}
			b.ReportMetric(at(0.5), "ms-p50")
			b.ReportMetric(at(0.99), "ms-p99")
		})
	}
}

func TestSpread(t *testing.T) {
	many := func(n int) (keys []queue.Key) {
		for i := range n {
			keys = append(keys, key(fmt.Sprint(i)))
		}
		return keys
	}
	t.Run("makes a hundred keys due each tenth of a second", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.addSpread(many(1050))
			for slice := range 11 {
				synctest.Wait()
				w.expectLen(min(100*(slice+1), 1050))
				w.advance(100 * time.Millisecond)
			}
			w.expectLen(1050)
		})
	})
	t.Run("takes no longer than a minute", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.addSpread(many(200_000))
			w.advance(30 * time.Second)
			if n := w.Len(); n < 90_000 || n > 110_000 {
				t.Errorf("%d keys are due after half of the time", n)
			}
			w.advance(30 * time.Second)
			w.expectLen(200_000)
		})
	})
	t.Run("of few or no keys makes them due at once", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.addSpread(nil)
			w.addSpread(many(2))
			w.run("0", outcome.Next{}, abi.ReasonPlugin)
			w.run("1", outcome.Next{}, abi.ReasonPlugin)
			w.expectKnown(0, 0)
		})
	})
	t.Run("lets other reasons and failed runs come first", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("450", abi.ReasonPrimary)
			w.run("450", backoff(time.Hour), abi.ReasonPrimary)
			w.add("550", abi.ReasonPrimary)
			w.expectRun("550", abi.ReasonPrimary)
			w.addSpread(many(1000))
			w.add("350", abi.ReasonPrimary)
			w.run("350", outcome.Next{}, abi.ReasonPlugin, abi.ReasonPrimary)
			w.run("450", outcome.Next{}, abi.ReasonPlugin)
			w.done("550", backoff(time.Hour))
			w.run("550", outcome.Next{}, abi.ReasonPlugin)
			w.advance(time.Minute)
			w.expectLen(997) // each key runs once
		})
	})
	t.Run("again loses nothing and delays nothing", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.addSpread(many(1000))
			w.advance(500 * time.Millisecond)
			w.expectLen(600)
			reverse := many(1000)
			slices.Reverse(reverse)
			w.addSpread(reverse)
			w.expectLen(700) // the first hundred of these were not due yet
			w.advance(400 * time.Millisecond)
			w.expectLen(1000)
		})
	})
}
