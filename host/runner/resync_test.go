package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// resyncs is a queue that records when each key was resynced.
type resyncs struct {
	dispatch.Queue
	times map[object.Key][]time.Time
}

func (r resyncs) Add(key object.Key, why queue.Cause) {
	if why.Reason == abi.ReasonResync {
		r.times[key] = append(r.times[key], time.Now())
	}
}

// In ten periods every object is resynced once in each, and no part of a period has
// much more of them than another. An object that is created in the middle waits no
// longer than a period for its first resync.
func TestResyncsAreSpreadOverThePeriod(t *testing.T) {
	for _, period := range []time.Duration{time.Second, 10 * time.Second, 7 * time.Minute, 10 * time.Hour} {
		t.Run(period.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := resyncs{times: map[object.Key][]time.Time{}}
				c := &controller{Controller: dispatch.New(dispatch.Config{Logger: hclog.NewNullLogger()}, q, &dispatch.Revision{})}
				var mu sync.Mutex
				var objects []object.Key
				grow := func(to int) {
					mu.Lock()
					defer mu.Unlock()
					for i := len(objects); i < to; i++ {
						objects = append(objects, object.Key{Namespace: "ns", Name: fmt.Sprint("w-", i)})
					}
				}
				grow(1000)
				ctx, stop := context.WithCancel(t.Context())
				ended, begin := make(chan struct{}), time.Now()
				go func() {
					c.resync(ctx, period, func(wanted func(object.Key) bool) []object.Key {
						mu.Lock()
						defer mu.Unlock()
						return slices.DeleteFunc(slices.Clone(objects), func(key object.Key) bool { return !wanted(key) })
					})
					close(ended)
				}()
				pass := func(d time.Duration) {
					time.Sleep(d) // fake time
					synctest.Wait()
				}
				pass(5*period + period/3)
				created := time.Now()
				grow(1100)
				pass(5*period + period/3)
				stop()
				<-ended

				slack := period/100 + resyncPause // the width of a slice
				parts := make([]int, 4)
				var gaps, all time.Duration
				for i, key := range objects {
					last := begin
					if i >= 1000 {
						last = created
					}
					first := last
					for _, at := range q.times[key] {
						d := at.Sub(last)
						if d > period+period/20+slack || last != first && d < period-slack {
							t.Fatalf("object %d was resynced %v after its last resync", i, d)
						}
						if last != first {
							gaps, all = gaps+1, all+d
						}
						last = at
					}
					if wait := time.Since(last); wait > period+period/20+slack {
						t.Fatalf("object %d has not been resynced for %v", i, wait)
					}
					parts[int(q.times[key][0].Sub(first)*4/(period+period/10))]++
				}
				if mean := all / gaps; mean < period+period/100 {
					t.Errorf("%v between two resyncs of an object: that is no jitter", mean)
				}
				for part, n := range parts[:3] {
					if n < 150 || n > 450 {
						t.Errorf("%d of %d objects had their first resync in part %d of the period", n, len(objects), part)
					}
				}
			})
		})
	}
}
