package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// protected is a bench whose generation has a breaker. changes has the states
// that it told of.
func protected(t *testing.T) (b *bench, changes *[]BreakerState) {
	b, changes = newBench(t), new([]BreakerState)
	b.c.Generation().Breaker = NewBreaker(func(s BreakerStatus) { *changes = append(*changes, s.State) })
	return b, changes
}

// breakDown lets the plugin fail for as many objects as opens its breaker.
func (b *bench) breakDown() {
	breaker := b.c.Generation().Breaker
	for n := range leastFailing {
		p, ok := breaker.admit()
		if !ok {
			b.t.Fatal("it is open already")
		}
		p.report(numbered(n), &FaultReport{Fault: Fault{Class: abi.ClassPanic, Message: "boom"}}, 0)
	}
}

// TestWhatCountsAgainstAPlugin has a run each: only what the plugin itself
// does wrong is a failure, and only what it ends is a success.
func TestWhatCountsAgainstAPlugin(t *testing.T) {
	fails := func(class abi.Class) func(context.Context, Call) (Return, error) {
		return func(context.Context, Call) (Return, error) { return Return{}, &Fault{Class: class, Message: "boom"} }
	}
	answers := func(code abi.Code) func(context.Context, Call) (Return, error) {
		return func(context.Context, Call) (Return, error) { return Return{Code: code}, nil }
	}
	child := &abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}}
	for name, c := range map[string]struct {
		reconcile func(context.Context, Call) (Return, error)
		apply     *Failure
		want      string // seen and failing
	}{
		"panic":                 {reconcile: fails(abi.ClassPanic), want: "1 1"},
		"timeout":               {reconcile: fails(abi.ClassTimeout), want: "1 1"},
		"out of memory":         {reconcile: fails(abi.ClassOutOfMemory), want: "1 1"},
		"stack overflow":        {reconcile: fails(abi.ClassStackOverflow), want: "1 1"},
		"abi":                   {reconcile: fails(abi.ClassABI), want: "1 1"},
		"a result like garbage": {reconcile: func(context.Context, Call) (Return, error) { return Return{Output: []byte("{")}, nil }, want: "1 1"},
		"a condition that is not its own": {reconcile: func(context.Context, Call) (Return, error) {
			return returns(&abi.Result{Conditions: []abi.Condition{{Type: "Other", Status: "True", Reason: "X"}}})
		}, want: "1 1"},
		"an intent that is invalid": {
			reconcile: func(context.Context, Call) (Return, error) { return returns(child) },
			apply:     &Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassABI, Message: "no name"}}, want: "1 1",
		},
		"success":      {reconcile: func(context.Context, Call) (Return, error) { return returns(&abi.Result{}) }, want: "1 0"},
		"retry":        {reconcile: answers(abi.CodeRetry), want: "1 0"},
		"stalled":      {reconcile: answers(abi.CodeStalled), want: "1 0"},
		"waiting":      {reconcile: answers(abi.CodeWaiting), want: "1 0"},
		"host failure": {reconcile: func(context.Context, Call) (Return, error) { return Return{}, errors.New("no instance") }, want: "0 0"},
		"replaced":     {reconcile: func(context.Context, Call) (Return, error) { return Return{}, ErrClosed }, want: "0 0"},
		"unsynced": {reconcile: func(ctx context.Context, call Call) (Return, error) {
			call.Host.List(ctx, abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"}))
			return Return{}, &Fault{Class: abi.ClassPanic, Message: "nothing to read"}
		}, want: "0 0"},
		"a denied effect": {
			reconcile: func(context.Context, Call) (Return, error) { return returns(child) },
			apply:     &Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassDenied, Message: "no"}}, want: "1 0",
		},
		"a conflict": {
			reconcile: func(context.Context, Call) (Return, error) { return returns(child) },
			apply:     &Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassRetry, Message: "newer"}, Conflict: true}, want: "0 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := protected(t)
			b.put(aWidget)
			b.reconcile, b.fail["apply"] = c.reconcile, c.apply
			b.run()
			e := &b.c.Generation().Breaker.circuit.evidence
			if got := fmt.Sprint(e.recent.Len(), e.failing); got != c.want {
				t.Errorf("%s objects seen and failing, want %s", got, c.want)
			}
		})
	}
}

// TestAnOpenBreakerLeavesKeysInTheQueue until the pause is over; then one runs.
func TestAnOpenBreakerLeavesKeysInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, changes := protected(t)
		b.put(aWidget)
		b.breakDown()
		start, stopped := time.Now(), cancelled(t)
		b.due = []Due{{Key: testKey}}
		b.c.work(stopped, t.Context()) // as of a worker that had waited for a key before
		b.expect("returned ns/w")
		b.reconcile = func(context.Context, Call) (Return, error) {
			if waited := time.Since(start); waited < firstPause*4/5 || waited > firstPause {
				t.Errorf("the probe began after %s", waited)
			}
			b.due = append(b.due, Due{Key: object.Key{Name: "other"}})
			b.c.work(stopped, t.Context())
			return returns(&abi.Result{})
		}
		b.run(abi.ReasonPrimary)
		b.expect("returned other", "status Ready=True/Succeeded patch=", "commit reads", "metric success ")
		if got := b.c.Generation().Breaker.Status(); got.State != BreakerHalfOpen || got.LastFault.Message != "boom" || !strings.Contains(got.Reason, "10 of the last 10") {
			t.Errorf("it says %+v", got)
		}
		b.reconcile = func(context.Context, Call) (Return, error) { return returns(&abi.Result{}) }
		clear(b.c.keys) // nobody waits for the cache
		b.run()
		b.run()
		if fmt.Sprint(*changes) != "[open closed]" {
			t.Errorf("it told of %v", *changes)
		}
	})
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestAKeyWithoutARunIsNoProbe: what is gone is settled, and the next key is
// the probe.
func TestAKeyWithoutARunIsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := protected(t)
		b.breakDown()
		time.Sleep(firstPause) // fake time
		b.run()
		if breaker := b.c.Generation().Breaker; !breaker.circuit.free(time.Now()) || breaker.circuit.sound != 0 {
			t.Error("a key whose object is gone was taken for a probe")
		}
		if len(b.settled) != 1 {
			t.Error("the key was not settled")
		}
	})
}

func TestWaitingForABreakerEnds(t *testing.T) {
	for name, c := range map[string]struct {
		how   func(b *Breaker, stop func())
		after time.Duration
	}{
		"with the pause":      {func(*Breaker, func()) {}, firstPause},
		"with the generation": {func(b *Breaker, _ func()) { b.retire() }, 0},
		"with the controller": {func(_ *Breaker, stop func()) { stop() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := protected(t)
				b.breakDown()
				breaker := b.c.Generation().Breaker
				breaker.circuit.until = time.Now().Add(firstPause) // without jitter
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var waited time.Duration
				start := time.Now()
				go func() {
					breaker.wait(ctx)
					waited = time.Since(start)
				}()
				synctest.Wait()
				c.how(breaker, stop)
				time.Sleep(time.Minute) // fake time
				synctest.Wait()
				if waited != c.after {
					t.Errorf("waited for %s, want %s", waited, c.after)
				}
			})
		})
	}
}

// TestWhoWaitsForAProbeGoesOnAtItsEnd, whatever came of it.
func TestWhoWaitsForAProbeGoesOnAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := protected(t)
		b.breakDown()
		breaker := b.c.Generation().Breaker
		time.Sleep(firstPause) // fake time
		probe, _ := breaker.admit()
		over := false
		go func() {
			breaker.wait(t.Context())
			over = true
		}()
		time.Sleep(time.Hour) // fake time
		synctest.Wait()
		if over {
			t.Fatal("did not wait for the probe")
		}
		probe.cancel()
		synctest.Wait()
		if !over {
			t.Error("waits for ever")
		}
	})
}

func TestANewGenerationStartsClosed(t *testing.T) {
	b, changes := protected(t)
	b.put(aWidget)
	b.breakDown()
	old := b.c.Generation()
	next := &Generation{Number: 2, Guest: testGuest{b}, Effects: testEffects{b}, Breaker: NewBreaker(func(BreakerStatus) {}), Controller: old.Controller}
	b.c.Swap(next, []object.Key{testKey})
	old.Breaker.wait(t.Context()) // a worker that waited goes on
	b.run(abi.ReasonPlugin)
	if b.request == nil {
		t.Error("the new generation does not run")
	}
	if fmt.Sprint(*changes) != "[open]" {
		t.Errorf("the old one told of %v", *changes)
	}
}

func BenchmarkBreaker(b *testing.B) {
	breaker := NewBreaker(func(BreakerStatus) {})
	subjects := make([]subject, 5000)
	for i := range subjects {
		subjects[i] = numbered(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		breaker.wait(b.Context())
		p, _ := breaker.admit()
		p.report(subjects[i%len(subjects)], nil, time.Microsecond)
		p.cancel()
	}
}
