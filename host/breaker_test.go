package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// TestABrokenPluginIsSlowedAndNotItsNeighbours has 5,000 objects in two
// controllers of a plugin that fails for all of them, and a neighbour. While
// it is broken next to nothing happens; when it is well all of it does.
func TestABrokenPluginIsSlowedAndNotItsNeighbours(t *testing.T) {
	for name, c := range map[string]struct {
		takes    time.Duration // a failing call
		mostRuns int           // that fail in ten minutes
	}{
		// What opens it, what is under way then, and the probes.
		"at once":            {0, 10 + 15 + 80},
		"after its deadline": {10 * time.Second, 5 + 15 + 14},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var well atomic.Bool
				slots := make(chan struct{}, 2)
				bad := open(t, slots, c.takes, func(object.Key) bool { return !well.Load() }, 2500, 2500)
				good := open(t, slots, 0, func(object.Key) bool { return false }, 1000)

				time.Sleep(10 * time.Minute) // fake time
				if bad.opened.Load() != 1 || bad.breaker.Status().State == dispatch.BreakerClosed {
					t.Fatalf("it is %+v, opened %d times", bad.breaker.Status(), bad.opened.Load())
				}
				if n := bad.failed(); n > c.mostRuns {
					t.Errorf("%d runs failed in ten minutes", n)
				}
				// One key of each controller is handed out for each probe.
				if n := bad.handed.Load(); n > int64(4*c.mostRuns) {
					t.Errorf("%d keys were handed out in ten minutes", n)
				}
				t.Logf("%d runs, %d keys handed out", bad.failed(), bad.handed.Load())
				if n := good.ended(); n != 1000 || good.breaker.Status().State != dispatch.BreakerClosed {
					t.Errorf("the neighbour has ended %d runs and is %s", n, good.breaker.Status().State)
				}

				well.Store(true)
				time.Sleep(10*time.Second + time.Minute) // fake time, the rest of a probe and a pause
				if n := bad.ended(); n < 5000-c.mostRuns || bad.closed.Load() != 1 {
					t.Errorf("after it was mended %d runs have ended, closed %d times", n, bad.closed.Load())
				}
				time.Sleep(15 * time.Minute) // fake time, what those that failed back off for
				if n := bad.ended(); n != 5000 {
					t.Errorf("%d of 5000 keys have run", n)
				}
			})
		})
	}
}

// TestFreshChangesGoFirst: of a plugin that fails for nearly all objects, the
// change of one for which it does not, or that was corrected, is the next
// probe, though thousands wait.
func TestFreshChangesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mended := object.Key{Name: "c0-7"}
		s := open(t, make(chan struct{}, 2), 0, func(key object.Key) bool { return key != mended }, 5000)
		time.Sleep(10 * time.Minute) // fake time
		s.queue.Trigger(mended, abi.ReasonPrimary)
		time.Sleep(30 * time.Second) // fake time, some pauses
		if n := s.ended(); n != 1 {
			t.Errorf("%d keys have run well", n)
		}
	})
}

// stall is one plugin of a market: a real queue and dispatch, in a world that
// holds nothing but objects.
type stall struct {
	dispatch.Effects // none is asked for but those below
	handed           atomic.Int64
	queue            dispatchQueue
	controllers      []*dispatch.Controller
	breaker          *dispatch.Breaker
	opened, closed   atomic.Int64

	slots  chan struct{}             // calls at once, of all plugins
	broken func(key object.Key) bool // what the plugin fails for
	takes  time.Duration             // a call that fails

	mu   sync.Mutex
	runs int                   // that failed
	sane map[object.Key]string // by key, the controller that ended a run
}

// open runs a plugin with one controller per count of objects.
func open(t *testing.T, slots chan struct{}, takes time.Duration, broken func(object.Key) bool, objects ...int) *stall {
	t.Helper()
	s := &stall{slots: slots, broken: broken, takes: takes, sane: map[object.Key]string{}}
	s.breaker = dispatch.NewBreaker(func(b dispatch.BreakerStatus) {
		if b.State == dispatch.BreakerClosed {
			s.closed.Add(1)
		} else {
			s.opened.Add(1)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	for i, n := range objects {
		q := dispatchQueue{queue.New(queue.Config{})}
		s.queue = q
		c := dispatch.New(dispatch.Config{
			Name: fmt.Sprint("c", i), Workers: 8, Queue: counted{q, &s.handed},
			Cache: wares{}, Metrics: uncounted{}, Logger: hclog.NewNullLogger(),
		}, &dispatch.Generation{Number: 1, Guest: s, Effects: s, Breaker: s.breaker, Controller: abi.Controller{Name: fmt.Sprint("c", i)}})
		s.controllers = append(s.controllers, c)
		for k := range n {
			q.Trigger(object.Key{Name: fmt.Sprint("c", i, "-", k)}, abi.ReasonResync)
		}
		ended.Go(func() { c.Run(ctx) })
	}
	return s
}

// Reconcile implements dispatch.Guest.
func (s *stall) Reconcile(_ context.Context, call dispatch.Call) (dispatch.Return, error) {
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	request, err := abi.DecodeRequest(call.Request)
	if err != nil {
		return dispatch.Return{}, err
	}
	o, err := object.Parse(request.Object, abi.Kind{})
	if err != nil {
		return dispatch.Return{}, err
	}
	key := o.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken(key) {
		s.runs++
		s.mu.Unlock()
		time.Sleep(s.takes) // fake time
		s.mu.Lock()
		return dispatch.Return{Usage: dispatch.Usage{Time: s.takes}}, &dispatch.Fault{Class: abi.ClassTimeout, Message: "it spins"}
	}
	s.sane[key] = request.Controller
	return dispatch.Return{Output: abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess})}, nil
}

func (s *stall) failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func (s *stall) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sane)
}

// counted counts the keys that a queue hands out.
type counted struct {
	dispatchQueue
	n *atomic.Int64
}

func (c counted) Next() (dispatch.Due, bool) {
	due, ok := c.dispatchQueue.Next()
	c.n.Add(1)
	return due, ok
}

// HasFinalizer, Intents, Status, Event: of dispatch.Effects.
func (s *stall) HasFinalizer(*object.Object, *abi.Controller) bool { return false }

func (s *stall) Intents(context.Context, *object.Object, *abi.Controller, *abi.Result) (dispatch.Performed, *dispatch.Failure) {
	return dispatch.Performed{}, nil
}

func (s *stall) Status(_ context.Context, o *object.Object, _ *abi.Controller, _ dispatch.StatusChange) (*object.Object, bool, *dispatch.Failure) {
	return o, false, nil
}
func (s *stall) Event(*object.Object, *abi.Controller, *abi.Event) {}
func (s *stall) Forget(types.UID)                                  {}

// wares is a cache in which every object is there.
type wares struct{ dispatch.Cache }

func (wares) Get(key object.Key) (*object.Object, bool) {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Ware","metadata":{"name":%q,"uid":%[1]q}}`, key.Name)
	o, err := object.Parse([]byte(text), abi.Kind{})
	return o, err == nil
}
func (wares) Begin(object.Key) dispatch.Reads { return unread{} }

type unread struct{ dispatch.Reads }

func (unread) Commit()  {}
func (unread) Abandon() {}

type uncounted struct{ dispatch.Metrics }

func (uncounted) Started() func(string, abi.Class, float64) {
	return func(string, abi.Class, float64) {}
}
