package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/index"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// daemons is a fixture whose controller has a daemon of each object.
type daemons struct {
	*fixture
	running atomic.Int64
	steps   []string // the events and the state of each step
	asks    *abi.DaemonRequest
	answer  func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error)
	fuel    int64 // that a step uses
	code    abi.Code
	host    sandbox.HostCalls // of the last step
	began   int               // reconciles
}

// withDaemon runs a test in a bubble.
func withDaemon(t *testing.T, test func(f *daemons)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &daemons{fixture: newFixture(t)}
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{Object: true, Reads: true}})
		rev := f.c.Revision()
		rev.Controller.Daemon = &abi.Daemon{}
		rev.Daemons = &DaemonConfig{Guest: f, Reads: stepReads{f.fixture}, Running: &f.running, Number: 2, Fuel: 1_000_000, StateBytes: 1 << 10}
		f.follow()
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			f.began++
			return succeed(ctx, call)
		}
		f.put(aWidget)
		test(f)
	})
}

type stepReads struct{ *fixture }

func (r stepReads) Begin(object.Key, map[abi.Kind]scope.Reads) Reads {
	r.note("begin the reads of a step")
	return testReads(r)
}

// Forget is called with the lock of the controller: what the next daemon of the key reads must not
// be forgotten.
func (r stepReads) Forget(key object.Key) {
	if r.c.mu.TryLock() {
		r.c.mu.Unlock()
		r.t.Error("the reads of a step are forgotten without the lock")
	}
	r.note("forget what the daemon of %s has read", key)
}

// answers makes every step end with a result.
func (f *daemons) answers(result *abi.DaemonResult) {
	f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) { return result, nil }
}

// Daemon implements [Stepper].
func (f *daemons) Daemon(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
	request, err := abi.DecodeDaemonRequest(slices.Concat(call.Request...))
	if err != nil {
		f.t.Error(err)
	}
	f.asks, f.host = request, call.Host
	f.steps = append(f.steps, fmt.Sprint(request.Events, string(request.State)))
	result, err := f.answer(ctx, request)
	if err != nil {
		return sandbox.Return{}, err
	}
	return sandbox.Return{Code: f.code, Output: abi.EncodeDaemonResult(result), Usage: sandbox.Usage{Fuel: f.fuel}}, nil
}

// expectSteps checks the steps since the last call.
func (f *daemons) expectSteps(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.steps, want) {
		f.t.Errorf("the steps are %q, want %q", f.steps, want)
	}
	f.steps = nil
}

// expectReconciles checks how many reconciles there were since the last call.
func (f *daemons) expectReconciles(want int) {
	f.t.Helper()
	if f.began != want {
		f.t.Errorf("%d reconciles, want %d", f.began, want)
	}
	f.began = 0
}

// last returns what the key waits for since the last run.
func (f *daemons) last() outcome.Next { return f.done[len(f.done)-1] }

// start runs the widget, whose daemon then waits.
func (f *daemons) start() {
	f.t.Helper()
	f.run(abi.ReasonPrimary)
	f.expectSteps("[start]")
	f.expectReconciles(1)
	f.log = nil
}

// readChanges reports a change of what the daemon has read.
func (f *daemons) readChanges(of abi.Kind) {
	changed, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"ns","name":"g","uid":"u9","resourceVersion":"9"}}`, of.APIVersion, of.Kind), of)
	if err != nil {
		f.t.Fatal(err)
	}
	f.c.ObserveDaemonRead(testKey, nil, changed, false)
}

func TestADaemonStartsOnceTheFinalizerIsThere(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.put(strings.Replace(aWidget, `"finalizers":["f"]`, `"finalizers":[]`, 1))
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		f.expectReconciles(1)
		if next := f.last(); !next.Daemon || next.Timer != 1 {
			t.Errorf("the key waits for %+v, want the daemon at once", next)
		}
		f.run(abi.ReasonDaemon)
		f.expectSteps("[start]")
		f.expectReconciles(0)
		if f.running.Load() != 1 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestAStepAloneLeavesTheWaitOfTheKeyAsItIs(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		f.readChanges(gadget)
		f.expect("add ns/w daemon")
		waits := outcome.Next{Kind: outcome.Backoff, After: time.Minute, Reason: abi.ReasonRetry, Outage: true, Continues: true}
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{After: 5_000}})
		f.due = append(f.due, queue.Item{Key: testKey, Reasons: []abi.Reason{abi.ReasonDaemon}, Waits: waits})
		f.c.work(f.t.Context(), f.t.Context())
		f.expectSteps("[read]")
		f.expectReconciles(0)
		waits.Timer, waits.Daemon = 5*time.Second, true
		if f.last() != waits {
			t.Errorf("the key waits for %+v, want %+v", f.last(), waits)
		}
		f.expect("begin the reads of a step", "commit reads", "stepped failed=false", "abandon reads")
		if !f.asks.Now.Equal(time.Now()) || f.asks.Seed == [32]byte{} {
			t.Errorf("the step has the time %v and the seed %v", f.asks.Now, f.asks.Seed)
		}
		f.expectReported(time.Now(), "ended p/c ns/w 1 true since 0s for 0s [false success]", "stepped p/c ns/w 1 true since 0s for 0s ")
	})
}

func TestADaemonIsWokenByWhatItWaitsForAlone(t *testing.T) {
	entry := index.Kind("p", "pods")
	spec := func(f *daemons) { f.change(`{"spec":{"x":2},"metadata":{"generation":2}}`) }
	label := func(f *daemons) { f.change(`{"metadata":{"labels":{"a":"b"}}}`) }
	status := func(f *daemons) { f.change(`{"status":{"a":"b"}}`) }
	read := func(f *daemons) { f.readChanges(gadget) }
	ofIndex := func(f *daemons) { f.readChanges(entry) }
	for name, test := range map[string]struct {
		wait   abi.DaemonWait
		change func(*daemons)
		want   string // events
	}{
		"object by its spec":       {abi.DaemonWait{Object: true}, spec, "[object]"},
		"object by its labels":     {abi.DaemonWait{Object: true}, label, "[object]"},
		"object but by its status": {abi.DaemonWait{Object: true}, status, ""},
		"not object":               {abi.DaemonWait{Reads: true}, spec, ""},
		"reads":                    {abi.DaemonWait{Reads: true}, read, "[read]"},
		"reads of an index":        {abi.DaemonWait{Reads: true}, ofIndex, "[index]"},
		"not reads":                {abi.DaemonWait{Object: true, After: 60_000}, ofIndex, ""},
		"time":                     {abi.DaemonWait{After: 2_000}, func(*daemons) { pass(2 * time.Second) }, "[time]"},
		"less than 100 ms":         {abi.DaemonWait{After: 1}, func(*daemons) { pass(99 * time.Millisecond) }, ""},
		"not time":                 {abi.DaemonWait{Object: true}, func(*daemons) { pass(time.Hour) }, ""},
		"nothing":                  {abi.DaemonWait{}, func(f *daemons) { spec(f); read(f); pass(time.Hour) }, ""},
		"all":                      {abi.DaemonWait{After: 1, Object: true, Reads: true}, func(f *daemons) { spec(f); read(f); ofIndex(f); pass(time.Second) }, "[object read index time]"},
	} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				f.c.Revision().Controller.Indexes = []abi.Index{{Name: "pods", Kind: gadget}}
				f.answers(&abi.DaemonResult{Wait: test.wait})
				f.start()
				test.change(f)
				f.run(abi.ReasonOwned)
				f.expectReconciles(1)
				if test.want == "" {
					f.expectSteps()
				} else {
					f.expectSteps(test.want)
				}
				f.run(abi.ReasonOwned)
				f.expectSteps()
			})
		})
	}
}

func TestSignalsReconcileUntilARunHasEndedWell(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`{"n":1}`), []byte(`2`)}, Wait: abi.DaemonWait{Reads: true}})
		f.readChanges(gadget)
		f.reconcile = returnsCode(abi.CodeRetry)
		f.run(abi.ReasonDaemon)
		expectSignals(f, `{"n":1}`, `2`)
		f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`3`)}})
		f.readChanges(gadget)
		f.reconcile = panics
		f.run(abi.ReasonDaemon)
		expectSignals(f, `{"n":1}`, `2`, `3`)
		f.reconcile = succeed
		f.run(abi.ReasonRetry)
		expectSignals(f, `{"n":1}`, `2`, `3`)
		f.run(abi.ReasonResync)
		expectSignals(f)
	})
}

func expectSignals(f *daemons, want ...string) {
	f.t.Helper()
	var got []string
	for _, s := range f.request.Signals {
		got = append(got, string(s))
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("the signals are %q, want %q", got, want)
	}
}

func TestTheOldestOfTooManySignalsAreLost(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		n := 0
		f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			r := &abi.DaemonResult{Wait: abi.DaemonWait{Reads: true}}
			for range abi.MaxSignals {
				n++
				r.Signals = append(r.Signals, fmt.Append(nil, n))
			}
			return r, nil
		}
		f.reconcile = returnsCode(abi.CodeRetry)
		f.run(abi.ReasonPrimary)
		for range 5 {
			f.readChanges(gadget)
			f.run(abi.ReasonDaemon)
		}
		if all := f.request.Signals; len(all) != maxSignals || string(all[len(all)-1]) != fmt.Sprint(n) {
			t.Errorf("%d signals, the last is %s; want %d, and %d", len(all), all[len(all)-1], maxSignals, n)
		}
	})
}

func TestAFailedDaemonIsToldAndStartedAnew(t *testing.T) {
	type failing = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error)
	fault := func(class abi.Class) failing {
		return func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			return nil, &sandbox.Fault{Class: class, Message: "boom"}
		}
	}
	returned := func(f *daemons, code abi.Code) failing {
		return func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			f.code = code
			return &abi.DaemonResult{Error: &abi.Failure{Reason: "NoSuchSite", Message: "boom"}}, nil
		}
	}
	for name, test := range map[string]struct {
		fails  func(*daemons) failing
		class  abi.Class
		reason string
	}{
		"panic":         {func(*daemons) failing { return fault(abi.ClassPanic) }, abi.ClassPanic, "Panic"},
		"never returns": {func(*daemons) failing { return fault(abi.ClassTimeout) }, abi.ClassTimeout, "Timeout"},
		"error":         {func(f *daemons) failing { return returned(f, abi.CodeRetry) }, abi.ClassRetry, "NoSuchSite"},
		"large state": {func(*daemons) failing {
			return func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
				return &abi.DaemonResult{State: fmt.Appendf(nil, "%q", strings.Repeat("x", 1<<10))}, nil
			}
		}, abi.ClassABI, "DaemonStateTooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				f.answers(&abi.DaemonResult{State: []byte(`1`), Wait: abi.DaemonWait{Reads: true}})
				f.start()
				f.answer = test.fails(f)
				f.readChanges(gadget)
				f.log = nil
				f.run(abi.ReasonDaemon)
				f.expectSteps("[read]1")
				f.expectReconciles(1)
				if !slices.ContainsFunc(f.log, func(l string) bool {
					return strings.Contains(l, "Ready=False/"+test.reason) && strings.Contains(l, "Reconciling=True")
				}) {
					t.Errorf("the object does not show the failure: %q", f.log)
				}
				if f.running.Load() != 0 {
					t.Errorf("%d daemons run", f.running.Load())
				}
				backoff := f.last()
				if backoff.Kind != outcome.Backoff || !backoff.Daemon || backoff.Timer > backoff.After {
					t.Errorf("the key waits for %+v, want a backoff and the daemon", backoff)
				}
				pass(backoff.Timer / 2)
				f.run(abi.ReasonOwned) // not for the daemon
				f.expectSteps()
				if p := f.request.Previous; p == nil || len(p.Failures) != 1 || p.Failures[0].Verb != abi.VerbDaemon || p.Failures[0].Class != test.class {
					t.Errorf("the request has %+v", p)
				}
				f.code = abi.CodeOK
				f.answers(&abi.DaemonResult{})
				pass(backoff.Timer/2 + 1)
				f.run(abi.ReasonDaemon)
				f.expectSteps("[start]")
				f.expectReconciles(2)
				if !strings.Contains(strings.Join(f.log, "\n"), "Ready=True") {
					t.Errorf("the object does not show the success: %q", f.log)
				}
			})
		})
	}
}

func TestAStalledDaemonIsStartedAnewByAChange(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.code = abi.CodeStalled
		f.run(abi.ReasonPrimary)
		f.expectSteps("[start]")
		if next := f.last(); next.Kind != outcome.AwaitChange || next.Timer != 0 {
			t.Errorf("the key waits for %+v", next)
		}
		pass(time.Hour)
		f.run(abi.ReasonResync)
		f.expectSteps()
		f.code = abi.CodeOK
		f.due = append(f.due, queue.Item{Key: testKey, Reasons: []abi.Reason{abi.ReasonPrimary}, ResetTries: true})
		f.c.work(f.t.Context(), f.t.Context())
		f.expectSteps("[start]")
	})
}

func TestADaemonGoesOnWhileReconcileFails(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{After: 1_000}})
		f.reconcile = panics
		f.run(abi.ReasonPrimary)
		f.expectSteps("[start]")
		if next := f.last(); next.Kind != outcome.Backoff || next.Timer != time.Second || !next.Daemon {
			t.Errorf("the key waits for %+v", next)
		}
		pass(time.Second)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[time]")
	})
}

// The state would be lost if what the host could not do were a failure of the daemon.
func TestAStepThatTheHostCouldNotMakeIsMadeByTheNextRun(t *testing.T) {
	for name, fails := range map[string]func(*daemons){
		"no instance": func(f *daemons) {
			f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
				return nil, fmt.Errorf("wait for an instance: %w", context.DeadlineExceeded)
			}
		},
		"closed revision": func(f *daemons) {
			f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) { return nil, sandbox.ErrClosed }
		},
		"read of what has not synced": func(f *daemons) {
			f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
				f.host.List(f.t.Context(), message(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"})))
				return &abi.DaemonResult{}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				f.answers(&abi.DaemonResult{State: []byte(`1`), Wait: abi.DaemonWait{Reads: true}})
				f.start()
				fails(f)
				f.readChanges(gadget)
				f.run(abi.ReasonDaemon)
				f.expectSteps("[read]1")
				f.expectReconciles(0)
				if next := f.last(); next.Kind != outcome.Backoff || next.Daemon {
					t.Errorf("the key waits for %+v, want a backoff", next)
				}
				f.answers(&abi.DaemonResult{})
				f.run(abi.ReasonRetry)
				f.expectSteps("[read]1")
				f.expectReconciles(1)
			})
		})
	}
}

// Which events there were is not forgotten, and the daemon is not counted twice.
func TestAStepThatIsMadeByTheNextRunHasTheSameEvents(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.c.Revision().Controller.Indexes = []abi.Index{{Name: "pods", Kind: gadget}}
		works := f.answer
		f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) { return nil, sandbox.ErrClosed }
		f.run(abi.ReasonPrimary)
		f.expectSteps("[start]")
		if f.running.Load() != 0 {
			t.Errorf("%d daemons run", f.running.Load())
		}
		fails := f.answer
		f.answer = works
		f.run(abi.ReasonRetry)
		f.expectSteps("[start]")
		f.answer = fails
		f.readChanges(gadget)
		f.readChanges(index.Kind("p", "pods"))
		f.run(abi.ReasonDaemon)
		f.expectSteps("[read index]")
		f.answer = works
		f.run(abi.ReasonRetry)
		f.expectSteps("[read index]")
		if f.running.Load() != 1 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestADaemonEndsByItself(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answers(&abi.DaemonResult{End: true, Wait: abi.DaemonWait{After: 1, Object: true}})
		f.run(abi.ReasonPrimary)
		f.expectSteps("[start]")
		if !slices.Contains(f.log, "forget what the daemon of ns/w has read") {
			t.Errorf("what it has read still wakes it: %q", f.log)
		}
		f.change(`{"spec":{"x":2},"metadata":{"generation":2}}`)
		pass(time.Hour)
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		if next := f.last(); next.Timer != 0 || f.running.Load() != 0 {
			t.Errorf("the key waits for %+v, and %d daemons run", next, f.running.Load())
		}
	})
}

// A run of the next revision may be faster than the one that stops the daemons.
func TestADaemonThatNamesATimeIsStartedAnewThen(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.code = abi.CodeWaiting
		f.answers(&abi.DaemonResult{Error: &abi.Failure{Message: "wait", After: 7_000}})
		f.run(abi.ReasonPrimary)
		f.expectSteps("[start]")
		if next := f.last(); next.Timer != 7*time.Second || !next.Daemon {
			t.Errorf("the key waits for %+v", next)
		}
		pass(7 * time.Second)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[start]")
	})
}

func TestMoreDaemonsThanThereMayBeAreTold(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.running.Store(2) // of another controller
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		f.expectReconciles(1)
		if message := strings.Join(f.messages, "\n"); !strings.Contains(message, "the plugin has 2 daemons, which is its limit: raise limits.daemons") {
			t.Errorf("the object shows %q", message)
		}
		if f.running.Load() != 2 {
			t.Errorf("%d daemons run", f.running.Load())
		}
		f.running.Store(1)
		pass(time.Minute)
		f.run(abi.ReasonRetry)
		f.expectSteps("[start]")
		if f.running.Load() != 2 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestADaemonWaitsWhenItHasUsedItsFuel(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.fuel = 700_000 // of 1,000,000 in a second
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{Reads: true}})
		f.start()
		f.readChanges(gadget)
		f.run(abi.ReasonDaemon)
		f.expectSteps()
		if next := f.last(); next.Timer != 700*time.Millisecond || !next.Daemon {
			t.Errorf("the key waits for %+v", next)
		}
		pass(700 * time.Millisecond)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[read]")
	})
}

// An object that is edited again and again does not give its daemon more fuel.
func TestADaemonThatHasFailedWaitsForItsFuel(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.fuel, f.code = 700_000, abi.CodeStalled
		edit := func() {
			f.due = append(f.due, queue.Item{Key: testKey, Reasons: []abi.Reason{abi.ReasonPrimary}, ResetTries: true})
			f.c.work(f.t.Context(), f.t.Context())
		}
		edit()
		f.expectSteps("[start]")
		pass(300 * time.Millisecond)
		edit()
		f.expectSteps()
		if next := f.last(); next.Timer != 400*time.Millisecond || !next.Daemon {
			t.Errorf("the key waits for %+v", next)
		}
		pass(400 * time.Millisecond)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[start]")
	})
}

// The change comes while the daemon may not make a step, and nothing else runs the key later.
func TestAnObjectThatChangesWhileTheFuelIsUsedUpIsNotMissed(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.fuel = 700_000
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{Object: true}})
		f.start()
		f.change(`{"spec":{"x":2},"metadata":{"generation":2}}`)
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		if next := f.last(); next.Timer != 700*time.Millisecond || !next.Daemon || next.Soonest() != 0 {
			t.Errorf("the key waits for %+v", next)
		}
		pass(700 * time.Millisecond)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[object]")
	})
}

// A change may come after the step has read, and before it ends.
func TestAChangeDuringAStepIsNotLost(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			f.readChanges(gadget)
			return &abi.DaemonResult{Wait: abi.DaemonWait{Reads: true}}, nil
		}
		f.start()
		if next := f.last(); next.Timer != 1 || !next.Daemon {
			t.Errorf("the key waits for %+v, want the daemon at once", next)
		}
		f.answers(&abi.DaemonResult{})
		f.run(abi.ReasonDaemon)
		f.expectSteps("[read]")
	})
}

func TestAChangeOfWhatADaemonDoesNotWaitForMakesNothingDue(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			f.readChanges(gadget)
			return &abi.DaemonResult{Wait: abi.DaemonWait{Object: true}}, nil
		}
		f.start()
		if next := f.last(); next.Timer != 0 {
			t.Errorf("the key waits for %+v", next)
		}
		f.readChanges(gadget)
		f.expect()
		f.c.ObserveDaemonRead(object.Key{Namespace: "ns", Name: "without-daemon"}, nil, nil, false)
		f.expect()
	})
}

// Of very many daemons that have read one object, none is more urgent than others.
func TestDaemonsOfACrowdAreWokenInTheBackground(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		o := f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"u9","resourceVersion":"9"}}`)
		f.c.ObserveDaemonRead(testKey, o, nil, true) // it was deleted
		f.expect("add in the background ns/w daemon")
		f.run(abi.ReasonDaemon)
		f.expectSteps("[read]")
		f.log = nil
		f.c.ObserveDaemonRead(testKey, nil, nil, false) // nobody knows what has changed
		f.expect("add ns/w daemon")
		f.run(abi.ReasonDaemon)
		f.expectSteps("[read]")
	})
}

// Some kinds have no generation.
func TestADaemonIsWokenByASpecWithoutGeneration(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.put(strings.Replace(aWidget, `"generation":1,`, "", 1))
		f.start()
		f.change(`{"status":{"a":"b"}}`)
		f.run(abi.ReasonOwned)
		f.expectSteps()
		f.change(`{"spec":{"x":2}}`)
		f.run(abi.ReasonPrimary)
		f.expectSteps("[object]")
	})
}

// Who signals a change of the world again and again is no write loop, who signals what its own
// runs have changed is one.
func TestADaemonThatSignalsItsOwnChangesIsAWriteLoop(t *testing.T) {
	for name, own := range map[string]bool{"changes of others": false, "own changes": true} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				n := 0
				f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
					n++
					return returns(&abi.Result{Apply: []abi.Apply{{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"n":%d}}`, n)}}})
				}
				f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`1`)}, Wait: abi.DaemonWait{Reads: true}})
				f.run(abi.ReasonPrimary)
				for range 30 {
					changed := *f.wrote[len(f.wrote)-1].Object
					if !own {
						changed.ResourceVersion += "0"
					}
					f.c.ObserveDaemonRead(testKey, nil, &changed, false)
					f.run(abi.ReasonDaemon)
				}
				if looped := f.loops > 0; looped != own {
					t.Errorf("%d runs in a write loop", f.loops)
				}
			})
		})
	}
}

func TestRunsByTheTimeOfADaemonAreNoWriteLoop(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		n := 0
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			n++
			return returns(&abi.Result{Status: fmt.Appendf(nil, `{"n":%d}`, n)})
		}
		f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`1`)}, Wait: abi.DaemonWait{After: 1_000}})
		f.run(abi.ReasonPrimary)
		for range 30 {
			pass(time.Second)
			f.run(abi.ReasonDaemon)
		}
		if f.loops > 0 || n != 31 {
			t.Errorf("%d of %d runs in a write loop", f.loops, n)
		}
	})
}

// Signals may tell what the account has read.
func TestSignalsAreDroppedForAnotherAccount(t *testing.T) {
	for name, account := range map[string]string{"same": "", "another": "ns/other"} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`1`)}})
				f.reconcile = returnsCode(abi.CodeRetry)
				f.run(abi.ReasonPrimary)
				f.answers(&abi.DaemonResult{})
				f.swap(func(r *Revision) { r.Account = account })
				f.run(abi.ReasonPlugin)
				if account == "" {
					expectSignals(f, `1`)
				} else {
					expectSignals(f)
				}
				if bytes := f.c.signalBytes; bytes != len(f.request.Signals) {
					t.Errorf("%d bytes are counted", bytes)
				}
			})
		})
	}
}

func TestSignalsTakeABoundedAmountOfMemory(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		large := &abi.DaemonResult{Wait: abi.DaemonWait{Reads: true}}
		for range abi.MaxSignals {
			large.Signals = append(large.Signals, fmt.Appendf(nil, "%q", strings.Repeat("x", abi.MaxSignal-2)))
		}
		f.answers(large)
		f.c.Revision().Daemons.Number = 1 << 20
		f.reconcile = returnsCode(abi.CodeRetry)
		for n := range maxSignalBytes/(abi.MaxSignals*abi.MaxSignal) + 10 {
			name := fmt.Sprint("w", n)
			f.put(strings.NewReplacer(`"name":"w"`, `"name":"`+name+`"`, "u1", "u"+name).Replace(aWidget))
			f.runNamed(name)
		}
		if f.c.signalBytes > maxSignalBytes || f.c.signalBytes < maxSignalBytes/2 {
			t.Errorf("%d bytes of signals are kept", f.c.signalBytes)
		}
		f.reconcile = succeed
		for key := range f.store[widget] {
			if key != testKey {
				f.runKey(key, abi.ReasonRetry)
			}
		}
		if f.c.signalBytes != 0 {
			t.Errorf("%d bytes are left", f.c.signalBytes)
		}
	})
}

func TestTheDaemonOfASuspendedObjectRests(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{After: 1_000, Reads: true}})
		f.start()
		f.change(`{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`)
		pass(time.Hour)
		f.readChanges(gadget)
		f.run(abi.ReasonDaemon)
		f.expectSteps()
		if next := f.last(); next != (outcome.Next{}) {
			t.Errorf("the key waits for %+v", next)
		}
		f.change(`{"metadata":{"annotations":null}}`)
		f.run(abi.ReasonPrimary)
		f.expectSteps("[read time]")
	})
}

// A run whose account may not read the object cannot make a step: that must not be due again at
// once, for ever.
func TestAStepThatCannotBeMadeIsNotDueAtOnce(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.c.Revision().Access = newAccess()
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		if next := f.last(); next.Daemon || next.Timer != 0 {
			t.Errorf("the key waits for %+v", next)
		}
	})
}

// No event tells again that the object has changed.
func TestAChangeOfTheObjectIsNotLostWhileADaemonWaitsForItsFuel(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.fuel = 700_000 // of 1,000,000 in a second
		f.answers(&abi.DaemonResult{Wait: abi.DaemonWait{Object: true}})
		f.start()
		pass(300 * time.Millisecond)
		f.change(`{"spec":{"x":2},"metadata":{"generation":2}}`)
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		if next := f.last(); next.Timer != 400*time.Millisecond || !next.Daemon {
			t.Fatalf("the key waits for %+v", next)
		}
		pass(400 * time.Millisecond)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[object]")
		if next := f.last(); next.Timer != 0 {
			t.Errorf("the key waits for %+v", next)
		}
	})
}

// The run in which it failed sets no time to start it again.
func TestADaemonThatFailedInAStalledRunIsStartedAnew(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.code = abi.CodeRetry
		f.reconcile = returnsCode(abi.CodeStalled)
		f.run(abi.ReasonPrimary)
		f.expectSteps("[start]")
		f.reconcile = succeed
		f.run(abi.ReasonOwned)
		f.expectSteps()
		next := f.last()
		if !next.Daemon || next.Timer == 0 {
			t.Fatalf("the key waits for %+v, want the daemon", next)
		}
		pass(next.Timer + 1)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[start]")
	})
}

// Such an object has no more runs, and may exist for long because of other finalizers.
// The request of a plugin without the feature has no signals.
func (quietReads) Forget(object.Key) {}

// The daemons are stopped by another goroutine than that of the run.
// A step that has to wait for the host does not end the backoff of its key.
func TestAPostponedStepLeavesTheWaitOfTheKeyAsItIs(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		waits := outcome.Next{Kind: outcome.Backoff, After: time.Minute, Reason: abi.ReasonRetry, Continues: true}
		f.c.postpone(queue.Item{Key: testKey, Reasons: []abi.Reason{abi.ReasonDaemon}, Waits: waits}, fullPause)
		waits.Timer, waits.Daemon = fullPause, true
		if f.last() != waits {
			t.Errorf("the key waits for %+v, want %+v", f.last(), waits)
		}
	})
}
