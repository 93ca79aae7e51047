package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

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

	mu       sync.Mutex
	objects  map[object.Key]*tenantObject
	busy     []busyTime // by controller
	retrying int        // runs in progress of objects that have failed before, begun while the breaker was open
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
	retry  bool // the run of the object before it has failed, too
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
	w = &tenants{workers: workers, takes: takes, objects: map[object.Key]*tenantObject{}, busy: make([]busyTime, controllers)}
	w.breaker = NewBreaker(func(s BreakerStatus) {
		if s.State != BreakerClosed {
			w.opened.Add(1)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for i := range controllers {
		q := queue.New(queue.Config{})
		w.queues = append(w.queues, q)
		name := fmt.Sprint("c", i)
		c := New(Config{
			Name: name, Workers: workers, Queue: countingQueue{q, &w.taken}, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(),
		}, &Revision{Number: 1, Guest: tenantGuest{w, i}, Effects: w, Breaker: w.breaker, Controller: abi.Controller{Name: name}})
		ended.Go(func() { c.Run(ctx) })
	}
	return w, func() { cancel(); ended.Wait() }
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
	w.queues[w.controllerOf(key)].Add(key, abi.ReasonPrimary)
}

// begins begins the wait of an object. w.mu is held.
func (w *tenants) begins(o *tenantObject, key object.Key) {
	o.since = time.Now()
	o.busyBefore = w.busy[w.controllerOf(key)].until(o.since, w.workers)
}

func isBad(bad bool) func(*tenantObject) { return func(o *tenantObject) { o.bad = bad } }
func untouched(*tenantObject)            {}
func isHonest(o *tenantObject)           { o.honest = true }

// tenantGuest is the plugin of one controller.
type tenantGuest struct {
	*tenants
	controller int
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
	bad, retried := g.begin(o.Key())
	took := time.Millisecond
	if bad {
		took = g.takes
	}
	time.Sleep(took) // fake time
	g.end(o.Key(), bad, retried)
	usage := sandbox.Usage{Duration: took}
	if bad {
		return sandbox.Return{Usage: usage}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
	}
	r, err := returns(&abi.Result{})
	r.Usage = usage
	return r, err
}

func (g tenantGuest) begin(key object.Key) (bad, retried bool) {
	open := g.breaker.Status().State != BreakerClosed
	g.mu.Lock()
	defer g.mu.Unlock()
	o, now, busy := g.objects[key], time.Now(), &g.busy[g.controller]
	if o.running {
		g.problem("%s runs twice at once", key)
	}
	waited := now.Sub(o.since)
	if idle := waited - (busy.until(now, g.workers) - o.busyBefore); o.honest && o.waits && idle > 0 {
		g.problem("%s has waited for %s while a worker was idle", key, idle)
	}
	if open {
		g.log = append(g.log, tenantRun{now, key, o.bad, o.failed, waited})
	}
	if retried = open && o.failed; retried {
		if g.retrying++; g.retrying > 1 {
			g.problem("%d objects that have failed are tried at once", g.retrying)
		}
	}
	busy.add(1, now, g.workers)
	o.running, o.waits, o.seen = true, false, o.version
	return o.bad, retried
}

func (g tenantGuest) end(key object.Key, bad, retried bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[key]
	g.busy[g.controller].add(-1, time.Now(), g.workers)
	o.running, o.failed = false, bad
	if retried {
		g.retrying--
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

// tenantPlan is what tenants do.
type tenantPlan struct {
	controllers, workers int
	takes                time.Duration
	steps                []tenantStep
}

type tenantStep struct {
	action string
	tenant int
	pause  time.Duration
}

func drawTenantPlan(t *rapid.T) tenantPlan {
	p := tenantPlan{
		controllers: rapid.IntRange(1, 2).Draw(t, "controllers"),
		workers:     rapid.IntRange(1, 8).Draw(t, "workers"),
		takes:       rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, time.Second, 10 * time.Second}).Draw(t, "a failing call takes"),
	}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		p.steps = append(p.steps, tenantStep{
			action: rapid.SampledFrom([]string{"touch", "touch", "flip one", "spoil", "correct", "new bad ones", "new good one", "edit honest", "new honest", "resync"}).Draw(t, "action"),
			tenant: rapid.IntRange(0, 9).Draw(t, "tenant"),
			pause:  rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 15 * time.Second, 2 * time.Minute}).Draw(t, "pause"),
		})
	}
	return p
}

// of returns the keys of a namespace, in order.
func (w *tenants) of(ns string) (keys []object.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.objects {
		if ns == "" || key.Namespace == ns {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, object.Key.Compare)
	return keys
}

// step does one of the things that tenants do. Those whose names begin with "t" do whatever they
// like, the others are honest.
func (w *tenants) step(n int, s tenantStep) {
	evil, honest := fmt.Sprint("t", s.tenant), fmt.Sprint("honest", s.tenant%2)
	all := func(change func(*tenantObject)) {
		for _, key := range w.of(evil) {
			w.put(key, change)
		}
	}
	switch s.action {
	case "touch":
		all(untouched)
	case "spoil":
		all(isBad(true))
	case "correct":
		all(isBad(false))
	case "flip one":
		if keys := w.of(evil); len(keys) > 0 {
			w.put(keys[n%len(keys)], func(o *tenantObject) { o.bad = !o.bad })
		}
	case "new bad ones":
		for i := range 12 {
			w.put(object.Key{Namespace: evil, Name: fmt.Sprint("bad", n, "-", i)}, isBad(true))
		}
	case "new good one":
		w.put(object.Key{Namespace: evil, Name: fmt.Sprint("good", n)}, isBad(false))
	case "edit honest":
		w.put(object.Key{Namespace: honest, Name: "first"}, untouched)
	case "new honest":
		w.put(object.Key{Namespace: honest, Name: fmt.Sprint("new", n)}, isHonest)
	case "resync":
		for _, key := range w.of("") {
			w.queues[w.controllerOf(key)].Add(key, abi.ReasonResync)
		}
	}
}

// run does what is planned and returns what is wrong.
func (p tenantPlan) run() []string {
	w, stop := startTenants(p.controllers, p.workers, p.takes)
	defer stop()
	for i := range 2 {
		w.put(object.Key{Namespace: fmt.Sprint("honest", i), Name: "first"}, isHonest)
	}
	time.Sleep(time.Second) // fake time
	for i := range 40 {
		w.put(object.Key{Namespace: "t0", Name: fmt.Sprint("bad-", i)}, isBad(true))
	}
	for n, s := range p.steps {
		w.step(n, s)
		time.Sleep(s.pause) // fake time
	}
	for _, key := range w.of("") {
		w.mu.Lock()
		w.objects[key].bad = false
		w.mu.Unlock()
	}
	time.Sleep(3 * time.Hour) // fake time, for the backoffs and the turns
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, o := range w.objects {
		if o.seen != o.version || o.running || o.failed {
			w.problem("in the end %s is at version %d, and its last run: %+v", key, o.version, *o)
		}
	}
	for _, q := range w.queues {
		if n := q.Len(); n > 0 {
			w.problem("in the end %d keys are due", n)
		}
	}
	return w.problems
}

// While tenants have objects that fail, touch them, turn good ones into bad ones and back, and
// create others in as many namespaces as they like: an object of a namespace that runs well, old
// or new, waits for nothing but a worker. No key is lost, none runs twice at once, and of the objects
// that have failed one is tried at a time.
func TestNoTenantsObjectsStopThoseOfAnother(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawTenantPlan(r)
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = p.run() })
		if len(problems) > 0 {
			r.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// tenantObjects returns the keys of objects in namespaces with that prefix.
func tenantObjects(prefix string, namespaces, each int) (keys []object.Key) {
	for ns := range namespaces {
		for i := range each {
			keys = append(keys, object.Key{Namespace: fmt.Sprint(prefix, ns), Name: fmt.Sprint("o", i)})
		}
	}
	return keys
}

// touchFor touches objects each second for a time.
func (w *tenants) touchFor(d time.Duration, keys []object.Key) {
	for range d / time.Second {
		for _, key := range keys {
			w.put(key, untouched)
		}
		time.Sleep(time.Second) // fake time
	}
}

func (w *tenants) failedRuns() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.log {
		if r.failed {
			n++
		}
	}
	return n
}

// The plugin has run well for 1,000 objects of 50 namespaces and fails for all of them from now on,
// and all of them are touched each second. Each namespace has its credit, and then there are a probe
// and a trial at a time.
func TestATotalFailureOfAPluginThatRanWellIsBounded(t *testing.T) {
	const namespaces, each, workers = 50, 20, 8 // workers of two controllers
	const lasts = 10 * time.Minute
	for takes, want := range map[time.Duration]int{
		time.Millisecond: namespaces*(maxCredit+workers-1) + int(lasts/trialPause) + 80,
		10 * time.Second: namespaces*workers + int(lasts/(20*time.Second)) + 14, // a call takes all credit
	} {
		t.Run(fmt.Sprint("in ", takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, stop := startTenants(2, workers/2, takes)
				defer stop()
				keys := tenantObjects("t", namespaces, each)
				w.touchFor(10*time.Second, keys)
				w.mu.Lock()
				for _, o := range w.objects {
					o.bad = true
				}
				w.mu.Unlock()
				w.touchFor(lasts, keys)
				n := w.failedRuns()
				t.Logf("%d runs have failed while the breaker was open, at most %d may", n, want)
				if w.opened.Load() != 1 || n > want {
					t.Errorf("the breaker has opened %d times", w.opened.Load())
				}
				if len(w.problems) > 0 {
					t.Error(w.problems)
				}
			})
		})
	}
}

// In some namespaces nothing has run well. However often somebody touches the objects there that
// have failed, the first object of another namespace waits for one of these, and for one of each
// namespace that has objects which have not run either.
func TestANewNamespaceWaitsForFewOthers(t *testing.T) {
	for name, c := range map[string]struct {
		each int // objects in each of five namespaces
		want time.Duration
	}{
		"beside those that have failed":  {10, 2 * maxPause},
		"beside those that have not run": {200, 2 * (5 + 1) * maxPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, stop := startTenants(1, 4, 0)
				defer stop()
				crowd := tenantObjects("t", 5, c.each)
				for _, key := range crowd {
					w.put(key, isBad(true))
				}
				w.touchFor(20*time.Minute, crowd)
				newcomer := object.Key{Namespace: "new", Name: "o"}
				w.put(newcomer, untouched)
				w.touchFor(3*time.Minute, crowd)
				w.expectWait(t, newcomer, c.want)
			})
		})
	}
}

// expectWait expects that an object has run while the breaker was open, and has waited for no longer.
func (w *tenants) expectWait(t *testing.T, key object.Key, longest time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range slices.Backward(w.log) {
		if r.key != key {
			continue
		}
		if t.Logf("%s has waited for %s, at most %s", key, r.waited, longest); r.waited > longest {
			t.Error("that is too long")
		}
		return
	}
	t.Errorf("%s has not run while the breaker was open", key)
}

// Most objects of a tenant that ran well fail now, so that its namespace has no credit. One of the
// others is tried after those that were changed before it, each of which fails once: that they are
// touched again changes nothing.
func TestAnObjectThatRanWellAmongThoseThatFailNowIsTried(t *testing.T) {
	const each = 20
	synctest.Test(t, func(t *testing.T) {
		w, stop := startTenants(1, 2, 0)
		defer stop()
		keys := tenantObjects("t", 1, each+1)
		w.touchFor(10*time.Second, keys)
		bad, good := keys[:each], keys[each]
		for _, key := range append(tenantObjects("u", 1, 200), bad...) {
			w.put(key, isBad(true))
		}
		w.put(good, untouched)
		w.touchFor(time.Minute, bad)
		w.expectWait(t, good, each*trialPause)
	})
}
