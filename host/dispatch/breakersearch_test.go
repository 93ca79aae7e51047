package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// This file searches for what tenants could do to each other while a breaker is open.

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
			action: rapid.SampledFrom([]string{"touch", "touch", "flip one", "spoil", "correct", "new bad ones", "new good one", "edit honest", "new honest", "resync", "swap", "lose the lead"}).Draw(t, "action"),
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
		w.put(object.Key{Namespace: honest, Name: fmt.Sprint("new", n)}, func(o *tenantObject) { o.honest = w.revision == 0 })
	case "swap":
		synctest.Wait()
		w.swap()
	case "lose the lead":
		w.loseLead(s.pause)
	case "resync":
		for _, key := range w.of("") {
			w.queues[w.controllerOf(key)].Add(key, queue.Cause{Reason: abi.ReasonResync})
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
