package queue_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

// race is a world of counters: a trigger follows every change of a key's
// version, a run reads it.
type race struct {
	*testing.T
	*queue.Queue
	versions, seen [8]atomic.Int64
	busy           [8]atomic.Bool
	runs           atomic.Int64
}

// No trigger is lost and no key runs twice at once, whatever races: when
// everything has come to rest, each key has seen its last version.
func TestNothingIsLostInARace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &race{T: t, Queue: queue.New(queue.Config{})}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(r.work)
		}
		for range 300 {
			r.round()
		}
		r.ShutDownWithDrain()
		workers.Wait()
		if n := r.runs.Load(); n < 1000 {
			t.Errorf("only %d runs: the test tests nothing", n)
		}
	})
}

// round lets several writers race with the workers, waits for the longest
// deadline and compares.
func (r *race) round() {
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(r.write)
	}
	writers.Wait()
	time.Sleep(time.Second) // fake time
	synctest.Wait()
	for i := range r.versions {
		if changed, seen := r.versions[i].Load(), r.seen[i].Load(); changed != seen {
			r.Fatalf("key %d is at version %d, its last run saw %d", i, changed, seen)
		}
	}
}

func (r *race) write() {
	for range 20 {
		i := rand.IntN(len(r.versions))
		r.versions[i].Add(1)
		r.Trigger(key(strconv.Itoa(i)), reasons[rand.IntN(len(reasons))])
		if rand.IntN(10) == 0 {
			r.Forget(key(strconv.Itoa(i)))
			r.Trigger(key(strconv.Itoa(i)), abi.ReasonPrimary) // it came back
		}
		runtime.Gosched()
	}
}

func (r *race) work() {
	for {
		item, shutdown := r.Next()
		if shutdown {
			return
		}
		i, _ := strconv.Atoi(item.Name)
		if !r.busy[i].CompareAndSwap(false, true) {
			r.Errorf("%s runs twice at once", item.Key)
		}
		r.runs.Add(1)
		r.seen[i].Store(r.versions[i].Load())
		runtime.Gosched()
		r.busy[i].Store(false)
		r.Settle(item.Key, queue.Next{After: time.Duration(rand.IntN(3)) * time.Millisecond, Backoff: rand.IntN(2) == 0})
	}
}
