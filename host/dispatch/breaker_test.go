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
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// newFixtureWithBreaker returns a fixture whose revision has a breaker, and the
// states that the breaker reported.
func newFixtureWithBreaker(t *testing.T) (f *fixture, changes *[]BreakerState) {
	f, changes = newFixture(t), new([]BreakerState)
	f.c.Revision().Breaker = NewBreaker(func(s BreakerStatus) { *changes = append(*changes, s.State) })
	return f, changes
}

// admit is what a worker does that has taken a key with a standing.
func (f *fixture) admit(key object.Key, s standing) (*permit, bool) {
	return f.c.Revision().Breaker.admit(f.c.queue, queue.Item{Key: key}, f.c.Name, s)
}

// breakDown makes the plugin fail for as many objects as open its breaker.
func (f *fixture) breakDown() {
	for n := range minFailing {
		p, ok := f.admit(numbered(n).key, notRun)
		if !ok {
			f.t.Fatal("the breaker is open already")
		}
		p.report(&FaultReport{Class: abi.ClassPanic, Message: "boom"}, 0)
	}
}

// Only what the plugin itself does wrong is a failure, and only a run that the
// plugin decided is a success. Other runs do not count.
func TestOnlyFailuresOfThePluginCountAgainstIt(t *testing.T) {
	fails := func(class abi.Class) reconcileFunc {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{}, &sandbox.Fault{Class: class, Message: "boom"}
		}
	}
	child := &abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}}
	for name, c := range map[string]struct {
		reconcile reconcileFunc
		apply     *effect.Failure
		want      string // numbers of samples and of failing ones
	}{
		"panic":          {reconcile: fails(abi.ClassPanic), want: "1 1"},
		"timeout":        {reconcile: fails(abi.ClassTimeout), want: "1 1"},
		"out of memory":  {reconcile: fails(abi.ClassOutOfMemory), want: "1 1"},
		"stack overflow": {reconcile: fails(abi.ClassStackOverflow), want: "1 1"},
		"abi":            {reconcile: fails(abi.ClassABI), want: "1 1"},
		"a result that cannot be decoded": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{Output: []byte("{")}, nil
		}, want: "1 1"},
		"a condition that is not its own": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{Conditions: []abi.Condition{{Type: "Other", Status: "True", Reason: "X"}}})
		}, want: "1 1"},
		"an intent that is invalid": {
			reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(child) },
			apply:     &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassABI, Message: "no name"}}, want: "1 1",
		},
		"success": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(&abi.Result{}) }, want: "1 0"},
		"retry":   {reconcile: returnsCode(abi.CodeRetry), want: "1 0"},
		"stalled": {reconcile: returnsCode(abi.CodeStalled), want: "1 0"},
		"waiting": {reconcile: returnsCode(abi.CodeWaiting), want: "1 0"},
		"host failure": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{}, errors.New("no instance")
		}, want: "0 0"},
		"replaced": {reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{}, sandbox.ErrClosed
		}, want: "0 0"},
		"unsynced": {reconcile: func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			call.Host.List(ctx, message(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"})))
			return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: "nothing to read"}
		}, want: "0 0"},
		"a denied effect": {
			reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(child) },
			apply:     &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassDenied, Message: "no"}}, want: "1 0",
		},
		"a conflict": {
			reconcile: func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(child) },
			apply:     &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "apply", Class: abi.ClassRetry, Message: "newer"}, Conflict: true}, want: "0 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFixtureWithBreaker(t)
			f.put(aWidget)
			f.reconcile, f.fail["apply"] = c.reconcile, c.apply
			f.run()
			e := &f.c.Revision().Breaker.circuit.window
			if got := fmt.Sprint(e.recent.Len(), e.failing); got != c.want {
				t.Errorf("%s samples and failing ones, want %s", got, c.want)
			}
		})
	}
}

// When the pause is over, one key is released and runs. After three that succeed, all others are.
func TestAnOpenBreakerHoldsKeysInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, changes := newFixtureWithBreaker(t)
		f.breakDown()
		start := time.Now()
		for n := range 5 {
			ns := fmt.Sprint("ns", n)
			f.put(strings.Replace(aWidget, `"ns"`, `"`+ns+`"`, 1))
			f.runKey(object.Key{Namespace: ns, Name: "w"}, abi.ReasonPrimary)
		}
		f.expect("hold ns0/w", "hold ns1/w", "hold ns2/w", "hold ns3/w", "hold ns4/w")
		pause := f.c.Revision().Breaker.Status().NextProbe.Sub(start)
		if pause < minPause*4/5 || pause > minPause {
			t.Errorf("the first pause takes %s", pause)
		}
		time.Sleep(pause) // fake time
		synctest.Wait()
		for n, want := range []BreakerState{BreakerHalfOpen, BreakerHalfOpen, BreakerClosed} {
			if len(f.due) != 1 || f.due[0].Namespace != fmt.Sprint("ns", n) {
				t.Errorf("probe %d: released are %v", n, f.due)
			}
			item, _ := f.c.take(t.Context())
			f.c.process(t.Context(), item)
			if got := f.c.Revision().Breaker.Status(); got.State != want || got.LastFault.Message != "boom" || want != BreakerClosed && !strings.Contains(got.Reason, "10 of the last 10") {
				t.Errorf("its status is %+v", got)
			}
		}
		if len(f.due) != 2 || fmt.Sprint(*changes) != "[open closed]" {
			t.Errorf("in the end %d keys are released, and it has reported %v", len(f.due), *changes)
		}
	})
}

// TestAKeyWithoutARunIsNoProbe: what is gone is done, and the next key is
// the probe.
func TestAKeyWithoutARunIsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFixtureWithBreaker(t)
		f.breakDown()
		time.Sleep(minPause) // fake time
		f.run()
		if breaker := f.c.Revision().Breaker; !breaker.circuit.admits(time.Now()) || breaker.circuit.succeeded != 0 {
			t.Error("a key whose object is gone was taken for a probe")
		}
		if len(f.done) != 1 {
			t.Error("the key was not done")
		}
	})
}

func TestTheBreakerOfANewRevisionIsClosed(t *testing.T) {
	f, changes := newFixtureWithBreaker(t)
	f.put(aWidget)
	f.breakDown()
	f.run(abi.ReasonPrimary)
	f.expect("hold ns/w")
	old := f.c.Revision()
	next := &Revision{Number: 2, Guest: testGuest{f}, Effects: testEffects{f}, Breaker: NewBreaker(func(BreakerStatus) {}), Controller: old.Controller}
	f.c.Swap(next, []object.Key{testKey})
	f.c.work(t.Context(), t.Context()) // the key was released
	if f.request == nil {
		t.Error("the new revision does not run")
	}
	if fmt.Sprint(*changes) != "[open]" {
		t.Errorf("the old breaker reported %v", *changes)
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
		p, _ := breaker.admit(nil, queue.Item{Key: subjects[i%len(subjects)].key}, "c", ranWell)
		p.report(nil, time.Microsecond)
		p.cancel()
	}
}
