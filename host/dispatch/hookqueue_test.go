package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// clockwork is a plugin with alarms whose controller has a real queue. It records when each
// alarm was named.
type clockwork struct {
	noTurns
	testPlugin
	created time.Time                    // the first object, which is the youngest
	apart   time.Duration                // of the creations of two objects
	takes   func(call int) time.Duration // a call

	mu    sync.Mutex
	calls int
	named map[object.Key]map[string][]time.Time
}

// createdAt returns when an object was created, which is named by a number.
func (g *clockwork) createdAt(key object.Key) time.Time {
	number, _ := strconv.Atoi(key.Name)
	return g.created.Add(-time.Duration(number) * g.apart)
}

// clockCache has every object.
type clockCache struct {
	fullCache
	*clockwork
}

func (c clockCache) Forget(key object.Key) { c.fullCache.Forget(key) }

func (c clockCache) Get(key object.Key) (*object.Object, bool) {
	o, ok := c.fullCache.Get(key)
	o.CreationTimestamp = metav1.NewTime(c.createdAt(key))
	return o, ok
}

func (g *clockwork) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	now := time.Now()
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		return sandbox.Return{}, err
	}
	o, err := object.Parse(request.Object, abi.Kind{})
	if err != nil {
		return sandbox.Return{}, err
	}
	g.mu.Lock()
	times := g.named[o.Key()]
	if times == nil {
		times = map[string][]time.Time{}
		g.named[o.Key()] = times
	}
	for _, name := range alarmed(request) {
		times[name] = append(times[name], now)
	}
	g.calls++
	takes := g.takes(g.calls)
	g.mu.Unlock()
	time.Sleep(takes) // fake time, but in the benchmark, where it is none
	return returns(&abi.Result{})
}

// start runs the controller for that many objects until stop is called.
func (g *clockwork) start(workers, objects int, all ...alarm) (stop func()) {
	g.named = map[object.Key]map[string][]time.Time{}
	q := queue.New(queue.Config{})
	_, hooks := newAlarms()
	c := New(Config{
		Hooks: []Hooks{hooks}, Name: "c", Workers: workers, Cache: clockCache{clockwork: g}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(),
	}, q, &Revision{Number: 1, Guest: g, Effects: g, Controller: abi.Controller{Name: "c", Sections: section(all...)}})
	for i := range objects {
		q.Add(object.Key{Name: fmt.Sprint(i)}, queue.Cause{Reason: abi.ReasonResync})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return func() { cancel(); <-ended }
}

// The runs take up to half an interval, and the other alarm delays some of them.
func TestSharpAlarmsRunOnTheirGridForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &clockwork{created: time.Now().Truncate(time.Second), takes: func(call int) time.Duration {
			return time.Duration(call*7%15) * time.Second
		}}
		stop := g.start(2, 2,
			alarm{Name: "grid", Every: 30 * time.Second, First: 5 * time.Second, Grid: true}, alarm{Name: "other", Every: 47 * time.Second})
		time.Sleep(3 * time.Hour) // fake time
		stop()
		for key, times := range g.named {
			if n := len(times["grid"]); n != 360 {
				t.Errorf("object %s: %d runs of the grid in three hours, want 360", key, n)
			}
			for i, at := range times["grid"] {
				// A run of the other alarm may be in progress.
				if late := at.Sub(g.created.Add(5*time.Second + time.Duration(i)*30*time.Second)); late < 0 || late >= 15*time.Second {
					t.Fatalf("object %s: run %d is %v late", key, i, late)
				}
			}
			onTime := 0
			for i, at := range times["grid"] {
				if at.Equal(g.created.Add(5*time.Second + time.Duration(i)*30*time.Second)) {
					onTime++
				}
			}
			// Of 47 s that the other alarm takes in between, its run takes 7 s on average.
			if onTime < 240 {
				t.Errorf("object %s: %d of %d runs are on time to the nanosecond", key, onTime, len(times["grid"]))
			}
			for i, at := range times["other"][1:] {
				if between := at.Sub(times["other"][i]); between < 47*time.Second || between > 47*21*time.Second/20+2*15*time.Second {
					t.Fatalf("object %s: %v between two runs of the other timer", key, between)
				}
			}
		}
	})
}

// A worker for all: what is late at one time does not make the next one later.
func TestManyObjectsShareTheTimesOfTheirGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &clockwork{created: time.Now().Truncate(time.Second), takes: func(int) time.Duration { return 10 * time.Millisecond }}
		stop := g.start(1, 100, alarm{Name: "grid", Every: 10 * time.Second, Grid: true})
		time.Sleep(10*time.Minute + 5*time.Second) // fake time
		stop()
		for key, times := range g.named {
			grid := times["grid"]
			if len(grid) != 61 {
				t.Errorf("object %s: %d runs, want 61", key, len(grid))
			}
			for i, at := range grid {
				if late := at.Sub(g.created.Add(time.Duration(i) * 10 * time.Second)); late < 0 || late > time.Second {
					t.Fatalf("object %s: run %d is %v late", key, i, late)
				}
			}
		}
	})
}

// BenchmarkAlarms reports how late the runs of alarms begin, in real time: 500 objects with
// three alarms each, four workers, and a guest that returns at once. The times of all objects
// are the same, or evenly spread.
func BenchmarkAlarms(b *testing.B) {
	for name, apart := range map[string]time.Duration{"at-once": 0, "spread": 2 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g := &clockwork{created: time.Now().Truncate(time.Second), apart: apart, takes: func(int) time.Duration { return 0 }}
				stop := g.start(4, 500, threeAlarms...)
				<-time.After(6 * time.Second) // in which the runs are measured
				stop()
				late := g.lateness(threeAlarms)
				b.ReportMetric(float64(g.calls), "runs")
				b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "ms-p50")
				b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "ms-p99")
			}
		})
	}
}

var threeAlarms = []alarm{
	{Name: "second", Every: time.Second, Grid: true},
	{Name: "often", Every: 400 * time.Millisecond, First: 130 * time.Millisecond, Grid: true},
	{Name: "rarely", Every: 1500 * time.Millisecond, First: 350 * time.Millisecond, Grid: true},
}

// lateness returns how long after its time each alarm was named, in order. The first one of each
// is left out: that is due at the start.
func (g *clockwork) lateness(all []alarm) (late []time.Duration) {
	for key, times := range g.named {
		for _, one := range all {
			first := g.createdAt(key).Add(one.First)
			for _, at := range times[one.Name][1:] {
				late = append(late, at.Sub(first)%one.Every)
			}
		}
	}
	slices.Sort(late)
	return late
}
