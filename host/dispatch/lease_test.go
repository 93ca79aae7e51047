package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// A replica that does not lead keeps every key in its queue. Runs in progress end when the
// lead is lost, and no other begins.
func TestKeysWaitWhileAnotherReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 20
		g := &busyGuest{}
		q := queue.New(queue.Config{})
		var leading atomic.Pointer[chan struct{}]
		lose := func() { other := make(chan struct{}); leading.Store(&other) }
		lose()
		c := New(Config{
			Name: "c", Workers: 2, Queue: q, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(),
			Leading: func() <-chan struct{} { return *leading.Load() },
		}, &Revision{Number: 1, Guest: g, Effects: g, Controller: abi.Controller{Name: "c"}})
		for i := range objects {
			q.Add(object.Key{Name: fmt.Sprint(i)}, abi.ReasonResync)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		expect := func(runs int64) {
			t.Helper()
			time.Sleep(10 * time.Second) // fake time
			synctest.Wait()
			if n := g.ended.Load(); n != runs {
				t.Errorf("%d runs, want %d", n, runs)
			}
		}
		expect(0)
		close(*leading.Load())
		time.Sleep(time.Second / 2) // fake time
		lose()
		expect(2) // those that had begun
		if q.Len() != objects-2 {
			t.Errorf("%d keys are in the queue, want %d", q.Len(), objects-2)
		}
		close(*leading.Load())
		expect(objects)
		lose()
		q.Add(object.Key{Name: "late"}, abi.ReasonResync)
		expect(objects)
		stop()
		<-ended
	})
}
