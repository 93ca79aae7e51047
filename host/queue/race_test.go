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
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// race counts versions of keys: every change of a version is followed by Add,
// every run reads the version.
type race struct {
	*testing.T
	*queue.Queue
	versions, seen [8]atomic.Int64
	busy           [8]atomic.Bool
	holding        atomic.Bool // workers hold some of the keys that they take
	runs           atomic.Int64
}

// When everything has come to rest, the last run of each key has seen the last
// version of it, and no key ran twice at once.
func TestConcurrentAddsAreNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &race{T: t, Queue: queue.New(queue.Config{})}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(r.work)
		}
		for range 300 {
			r.round()
		}
		r.ShutDown()
		workers.Wait()
		if n := r.runs.Load(); n < 1000 {
			t.Errorf("only %d runs: that is too few to prove anything", n)
		}
	})
}

// round lets several writers race with the workers, waits for the longest
// deadline and compares.
func (r *race) round() {
	r.holding.Store(true)
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(r.write)
	}
	writers.Wait()
	r.holding.Store(false)
	synctest.Wait()
	r.ReleaseAll()
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
		r.Add(key(strconv.Itoa(i)), queue.Cause{Reason: reasons[rand.IntN(len(reasons))]})
		if rand.IntN(10) == 0 {
			r.Forget(key(strconv.Itoa(i)))
			r.Add(key(strconv.Itoa(i)), queue.Cause{Reason: abi.ReasonPrimary}) // it was created again
		}
		if rand.IntN(3) == 0 {
			r.ReleaseFirst(groups[rand.IntN(len(groups))])
		}
		if rand.IntN(20) == 0 {
			r.ReleaseAll()
		}
		runtime.Gosched()
	}
}

var groups = []string{"x", "y"}

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
		if r.holding.Load() && rand.IntN(3) == 0 {
			runtime.Gosched()
			r.busy[i].Store(false)
			r.Hold(item, groups[rand.IntN(len(groups))])
			continue
		}
		r.runs.Add(1)
		r.seen[i].Store(r.versions[i].Load())
		runtime.Gosched()
		r.busy[i].Store(false)
		next := after(time.Duration(rand.IntN(3)) * time.Millisecond)
		if rand.IntN(2) == 0 {
			next.Kind = outcome.Backoff
		}
		r.Done(item.Key, next)
	}
}
