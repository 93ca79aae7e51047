package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// tenants is a plugin that fails for bad objects, with the namespaces that use it. Queues,
// controllers and breaker are real, and time is that of a bubble.
type tenants struct {
	testPlugin // its effects
	workers    int
	takes      time.Duration // a call that fails
	queues     []*queue.Queue
	running    []*Controller
	lease      *lease

	mu       sync.Mutex
	objects  map[object.Key]*tenantObject
	busy     []busyTime      // by controller
	good     map[string]bool // namespaces in which something has run well
	revision int             // how often it was swapped
	probes   int             // runs in progress that began while the breaker was open, and for which there was no credit
	problems []string
	log      []tenantRun
}

// tenantObject is an object of a tenant.
type tenantObject struct {
	honest     bool // it never fails, and its namespace has run well
	bad        bool
	version    int
	seen       int // the version of its last run
	running    bool
	failed     bool // the last run
	waits      bool // for a run
	since      time.Time
	busyBefore time.Duration // of its controller, at that time
}

// busyTime adds up the time in which every worker of a controller had a run.
type busyTime struct {
	running int
	since   time.Time
	total   time.Duration
}

// tenantRun is a run that began while the breaker was not closed.
type tenantRun struct {
	at     time.Time
	key    object.Key
	failed bool
	waited time.Duration
}

func (b *busyTime) until(now time.Time, workers int) time.Duration {
	if b.running == workers {
		return b.total + now.Sub(b.since)
	}
	return b.total
}

func (b *busyTime) add(n int, now time.Time, workers int) {
	b.total = b.until(now, workers)
	b.running, b.since = b.running+n, now
}

// startTenants runs the plugin until the returned function is called.
func startTenants(controllers, workers int, takes time.Duration) (w *tenants, stop func()) {
	w = &tenants{workers: workers, takes: takes, objects: map[object.Key]*tenantObject{}, busy: make([]busyTime, controllers), good: map[string]bool{}}
	w.lease = &lease{leading: make(chan struct{})}
	w.lease.lead()
	w.breaker = w.newBreaker()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for i := range controllers {
		q := queue.New(queue.Config{})
		w.queues = append(w.queues, q)
		name := fmt.Sprint("c", i)
		c := New(Config{
			Name: name, Workers: workers, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(), Lease: w.lease,
		}, countingQueue{q, &w.taken}, &Revision{Number: 1, Guest: tenantGuest{tenants: w, controller: i}, Effects: w, Breaker: w.breaker, Controller: abi.Controller{Name: name}})
		w.running = append(w.running, c)
		ended.Go(func() { c.Run(ctx) })
	}
	return w, func() { cancel(); ended.Wait() }
}

func (w *tenants) newBreaker() *Breaker {
	return NewBreaker(func(s BreakerStatus) {
		if s.State != BreakerClosed {
			w.opened.Add(1)
		}
	})
}

// swap replaces the revision. What has run well with the one before counts no more.
func (w *tenants) swap() {
	breaker := w.newBreaker()
	w.mu.Lock()
	w.breaker, w.revision, w.probes = breaker, w.revision+1, 0
	clear(w.good)
	for _, o := range w.objects {
		o.failed, o.honest = false, false
	}
	w.mu.Unlock()
	for i, c := range w.running {
		next := *c.Revision()
		next.Number, next.Breaker, next.Guest = next.Number+1, breaker, tenantGuest{tenants: w, controller: i, number: w.revision}
		c.Swap(&next, nil)
	}
}

// loseLead lets another replica lead for a time. Whatever waits meanwhile is not held up by the breaker.
func (w *tenants) loseLead(d time.Duration) {
	w.mu.Lock()
	for _, o := range w.objects {
		o.honest = false
	}
	w.mu.Unlock()
	time.Sleep(time.Nanosecond) // fake time: no run ends at the same time
	synctest.Wait()
	w.lease.lose()
	time.Sleep(d + time.Nanosecond) // fake time
	w.lease.lead()
}

// controllerOf returns the controller of an object.
func (w *tenants) controllerOf(key object.Key) int { return len(key.Name) % len(w.queues) }

// put creates an object, or changes one, and makes it due.
func (w *tenants) put(key object.Key, change func(*tenantObject)) {
	w.mu.Lock()
	o := w.objects[key]
	if o == nil {
		o = &tenantObject{}
		w.objects[key] = o
	}
	change(o)
	o.version++
	if !o.waits {
		o.waits = true
		w.begins(o, key)
	}
	w.mu.Unlock()
	w.queues[w.controllerOf(key)].Add(key, queue.Cause{Reason: abi.ReasonPrimary})
}

// begins begins the wait of an object. w.mu is held.
func (w *tenants) begins(o *tenantObject, key object.Key) {
	o.since = time.Now()
	o.busyBefore = w.busy[w.controllerOf(key)].until(o.since, w.workers)
}

func isBad(bad bool) func(*tenantObject) { return func(o *tenantObject) { o.bad = bad } }
func untouched(*tenantObject)            {}
func isHonest(o *tenantObject)           { o.honest = true }

// tenantGuest is a revision of the plugin for one controller.
type tenantGuest struct {
	noTurns
	*tenants
	controller int
	number     int
}

// Reconcile implements [Guest].
func (g tenantGuest) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		return sandbox.Return{}, err
	}
	o, err := object.Parse(request.Object, abi.Kind{})
	if err != nil {
		return sandbox.Return{}, err
	}
	bad, ended := g.begin(o.Key())
	took := time.Millisecond
	if bad {
		took = g.takes
	}
	time.Sleep(took) // fake time
	ended()
	usage := sandbox.Usage{Duration: took}
	if bad {
		return sandbox.Return{Usage: usage}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
	}
	r, err := returns(&abi.Result{})
	r.Usage = usage
	return r, err
}

func (g tenantGuest) begin(key object.Key) (bad bool, ended func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, now, busy, breaker := g.objects[key], time.Now(), &g.busy[g.controller], g.breaker.Status()
	open := breaker.State != BreakerClosed && breaker.Since.Before(now) // else the run may have been admitted before that
	if o.running {
		g.problem("%s runs twice at once", key)
	}
	waited := now.Sub(o.since)
	if idle := waited - (busy.until(now, g.workers) - o.busyBefore); o.honest && o.waits && idle > 0 {
		g.problem("%s has waited for %s while a worker was idle", key, idle)
	}
	if open {
		g.log = append(g.log, tenantRun{now, key, o.bad, waited})
	}
	isProbe := open && g.number == g.revision && (o.failed || !g.good[key.Namespace])
	if isProbe {
		if g.probes++; g.probes > 1 {
			g.problem("%d objects are tried at once that have failed, or in whose namespace nothing has run well", g.probes)
		}
	}
	busy.add(1, now, g.workers)
	o.running, o.waits, o.seen = true, false, o.version
	bad = o.bad
	return bad, func() { g.end(key, bad, isProbe) }
}

func (g tenantGuest) end(key object.Key, bad, isProbe bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[key]
	g.busy[g.controller].add(-1, time.Now(), g.workers)
	if o.running = false; g.number == g.revision && (!bad || g.lease.Leads()) { // else the run does not count
		o.failed = bad
		g.good[key.Namespace] = g.good[key.Namespace] || !bad
	}
	if isProbe && g.number == g.revision {
		g.probes--
	}
	if o.waits {
		g.begins(o, key)
	}
}

// problem notes what is wrong. w.mu is held.
func (w *tenants) problem(format string, args ...any) {
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}
