package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// lease is a Lease as a test wants it.
type lease struct {
	mu      sync.Mutex
	writes  int  // that have begun and not ended
	late    bool // it was not renewed in time, which nobody has noticed
	leading chan struct{}
}

func (l *lease) Leading() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

func (l *lease) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.leading:
		return !l.late
	default:
		return false
	}
}

func (l *lease) BeginWrite() (end func(), err error) {
	if !l.Leads() {
		return nil, errors.New("another replica leads")
	}
	l.change(func() { l.writes++ })
	return func() { l.change(func() { l.writes-- }) }, nil
}

func (l *lease) change(how func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how()
}

func (l *lease) lead() { l.change(func() { close(l.leading) }) }
func (l *lease) lose() { l.change(func() { l.leading = make(chan struct{}) }) }

// newLeased runs a controller with keys of that many objects in its queue until stop is called.
// Its replica does not lead.
func newLeased(t *testing.T, objects int, g Guest, e Effects) (q *queue.Queue, l *lease, stop func()) {
	q, l = queue.New(queue.Config{}), &lease{leading: make(chan struct{})}
	c := New(Config{
		Name: "c", Workers: 2, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(), Lease: l,
	}, q, &Revision{Number: 1, Guest: g, Effects: e, Controller: abi.Controller{Name: "c"}})
	for i := range objects {
		q.Add(object.Key{Name: fmt.Sprint(i)}, queue.Cause{Reason: abi.ReasonResync})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return q, l, func() { cancel(); <-ended }
}

// A replica that does not lead keeps every key in its queue. Runs in progress go on when the
// lead is lost, and no other begins.
func TestKeysWaitWhileAnotherReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 20
		g := &busyGuest{}
		q, l, stop := newLeased(t, objects, g, g)
		defer stop()
		expect := func(runs int64, left int) {
			t.Helper()
			time.Sleep(10 * time.Second) // fake time
			synctest.Wait()
			if n := g.ended.Load(); n != runs || q.Len() != left {
				t.Errorf("%d runs, and %d keys are in the queue; want %d and %d", n, q.Len(), runs, left)
			}
		}
		expect(0, objects)
		l.lead()
		time.Sleep(time.Second / 2) // fake time
		l.lose()
		expect(2, objects-2) // those that had begun
		l.lead()
		expect(objects, 0)
		l.lose()
		q.Add(object.Key{Name: "late"}, queue.Cause{Reason: abi.ReasonResync}) // while a worker waits for a key
		expect(objects, 1)
		l.lead()
		expect(objects+1, 0)
	})
}

// A machine was suspended, or the API server was away: nobody has told the replica yet that
// another one may lead.
func TestNoRunBeginsWhileTheLeaseIsRenewedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &busyGuest{}
		_, l, stop := newLeased(t, 2, g, g)
		defer stop()
		l.change(func() { l.late = true })
		l.lead()
		time.Sleep(time.Minute) // fake time
		if n := g.now.Load() + g.ended.Load(); n != 0 {
			t.Errorf("%d runs", n)
		}
		l.change(func() { l.late = false })
		time.Sleep(leasePause + time.Millisecond) // fake time
		if n := g.now.Load(); n == 0 {
			t.Error("no run begins when it was renewed")
		}
	})
}

// cutGuest has calls that end when they are cut off.
type cutGuest struct{ noTurns }

func (cutGuest) Reconcile(ctx context.Context, _ sandbox.Call) (sandbox.Return, error) {
	<-ctx.Done()
	return sandbox.Return{}, ctx.Err()
}

func TestRunsThatCanWriteNothingAreCutOffAtOnce(t *testing.T) {
	for leads, want := range map[bool]time.Duration{true: 10 * time.Second, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			_, l, stop := newLeased(t, 2, cutGuest{}, &testPlugin{})
			l.lead()
			synctest.Wait()
			if !leads {
				l.lose()
			}
			began := time.Now()
			stop()
			if took := time.Since(began); took != want {
				t.Errorf("leads %v: ended after %s, want %s", leads, took, want)
			}
		})
	}
}

// Neither the plugin nor its objects have failed.
func TestAFailedRunOfAReplicaThatDoesNotLeadIsNone(t *testing.T) {
	cut := func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, context.Canceled
	}
	for name, c := range map[string]struct {
		guest reconcileFunc
		want  []string // no Event
	}{
		"cut off": {cut, []string{"abandon reads", "metric requeue retry"}},
		"a panic": {panics, []string{"abandon reads", "metric requeue panic"}},
		"retry":   {returnsCode(abi.CodeRetry), []string{"commit reads", "metric requeue retry"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			l := &lease{leading: make(chan struct{})}
			l.lead()
			f.c.Lease, f.reconcile, f.due = l, c.guest, []queue.Item{{Key: testKey}}
			item, _ := f.c.take(t.Context())
			l.lose()
			f.c.process(t.Context(), item)
			f.expect(c.want...)
			if s := f.c.keys[testKey].left(); s.tries != (outcome.Tries{}) {
				t.Errorf("left %+v", s.tries)
			}
		})
	}
}
