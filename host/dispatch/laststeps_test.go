package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestTheStateOfADaemonIsThatOfItsLastStep(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		n := 0
		f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			n++
			return &abi.DaemonResult{State: fmt.Appendf(nil, `{"n":%d}`, n), Wait: abi.DaemonWait{After: 1_000}}, nil
		}
		f.start()
		for n := range 3 {
			pass(time.Second)
			f.run(abi.ReasonDaemon)
			f.expectSteps(fmt.Sprintf(`[time]{"n":%d}`, n+1))
		}
	})
}

func TestADaemonIsStoppedBeforeTheCleanup(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answers(&abi.DaemonResult{State: []byte(`1`)})
		f.start()
		f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`"bye"`)}})
		f.put(strings.Replace(aWidget, `"generation":1`, `"generation":2,"deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))
		f.run(abi.ReasonPrimary)
		f.expectSteps("[stop]1")
		expectSignals(f, `"bye"`)
		f.expect("forget what the daemon of ns/w has read", "stepped failed=false", "remove finalizer",
			"commit reads", "metric success ")
		if f.running.Load() != 0 || f.c.daemons[testKey] != nil {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestADaemonThatDoesNotStopIsStoppedAllTheSame(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.c.Revision().Controller.Daemon.Grace = 3_000
		f.start()
		f.answer = func(ctx context.Context, _ *abi.DaemonRequest) (*abi.DaemonResult, error) {
			<-ctx.Done()
			return nil, &sandbox.Fault{Class: abi.ClassTimeout, Message: "the deadline of the call passed"}
		}
		f.put(strings.Replace(aWidget, `"generation":1`, `"generation":2,"deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))
		began := time.Now()
		f.run(abi.ReasonPrimary)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if !slices.Contains(f.log, "remove finalizer") || f.running.Load() != 0 {
			t.Errorf("%q, %d daemons run", f.log, f.running.Load())
		}
	})
}

func TestADaemonIsStoppedWhenItsSelectorDoesNotMatch(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.c.Revision().Controller.Daemon.LabelSelector = "watch=yes"
		f.follow()
		f.run(abi.ReasonPrimary)
		f.expectSteps()
		if f.last().Timer != 0 {
			t.Errorf("the key waits for %+v", f.last())
		}
		for range 2 {
			f.change(`{"metadata":{"labels":{"watch":"yes"}}}`)
			f.run(abi.ReasonPrimary)
			f.expectSteps("[start]")
			f.change(`{"metadata":{"labels":{"watch":"no"}}}`)
			f.run(abi.ReasonPrimary)
			f.expectSteps("[stop]")
		}
	})
}

func TestTheDaemonOfAnObjectThatIsGoneIsStopped(t *testing.T) {
	for name, after := range map[string]string{"gone": "", "created again": strings.Replace(aWidget, "u1", "u2", 1)} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				f.start()
				delete(f.store[widget], testKey)
				want := []string{"[stop]"}
				if after != "" {
					f.put(after)
					want = append(want, "[start]")
				}
				f.run(abi.ReasonPrimary)
				f.expectSteps(want...)
				if int(f.running.Load()) != len(want)-1 {
					t.Errorf("%d daemons run", f.running.Load())
				}
			})
		})
	}
}

func TestASwapStopsTheDaemonsAndStartsThemAnew(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answers(&abi.DaemonResult{State: []byte(`1`)})
		f.start()
		f.swap(func(r *Revision) { r.Digest = "next" })
		f.expectSteps("[stop]1")
		if f.running.Load() != 0 {
			t.Errorf("%d daemons run", f.running.Load())
		}
		f.run(abi.ReasonPlugin)
		f.expectSteps("[start]")
		f.swap(func(r *Revision) { r.Controller.Daemon, r.Daemons = nil, nil })
		f.expectSteps("[stop]1")
		f.run(abi.ReasonPlugin)
		f.expectSteps()
		if f.running.Load() != 0 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestARunStopsTheDaemonOfTheRevisionBefore(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.answers(&abi.DaemonResult{State: []byte(`1`)})
		f.start()
		next := *f.c.Revision()
		next.Config = []byte(`"next"`)
		f.c.revision.Store(&next) // as a swap does first
		f.run(abi.ReasonPlugin)
		f.expectSteps("[stop]1", "[start]")
		if string(f.asks.Config) != `"next"` || f.running.Load() != 1 {
			t.Errorf("the last step had the configuration %s, and %d daemons run", f.asks.Config, f.running.Load())
		}
	})
}

func TestAllDaemonsAreStoppedWithinOneGraceTime(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		rev := f.c.Revision()
		rev.Daemons.Number, rev.Controller.Daemon.Grace = 100, 3_000
		for n := range 20 {
			name := fmt.Sprint("w", n)
			f.put(strings.NewReplacer(`"name":"w"`, `"name":"`+name+`"`, "u1", "u"+name).Replace(aWidget))
			f.runNamed(name)
		}
		f.answer = func(ctx context.Context, _ *abi.DaemonRequest) (*abi.DaemonResult, error) {
			<-ctx.Done()
			return nil, &sandbox.Fault{Class: abi.ClassTimeout, Message: "the deadline of the call passed"}
		}
		began := time.Now()
		f.swap(func(r *Revision) { r.Digest = "next" })
		if took := time.Since(began); took != 3*time.Second || f.running.Load() != 0 {
			t.Errorf("it took %v, and %d daemons run", took, f.running.Load())
		}
	})
}

func TestDaemonsAreStoppedWhenTheControllerIs(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		ctx, cancel := context.WithCancel(f.t.Context())
		cancel()
		f.c.Run(ctx)
		f.expectSteps("[stop]")
	})
}

func TestADaemonIsStartedAnewInANewTerm(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.answers(&abi.DaemonResult{State: []byte(`1`)})
		f.start()
		l.lose()
		l.lead()
		f.run(abi.ReasonResync)
		f.expectSteps("[start]")
		if f.running.Load() != 1 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestTheLastStepOfAnObjectThatIsGoneHasItsName(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		delete(f.store[widget], testKey)
		f.run(abi.ReasonPrimary)
		var o struct {
			APIVersion, Kind string
			Metadata         struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(f.asks.Object, &o); err != nil || o.Metadata.Name != "w" || o.Metadata.Namespace != "ns" || o.Kind != "Widget" {
			t.Errorf("the object is %s: %v", f.asks.Object, err)
		}
	})
}

func TestThereIsNoLastStepWithoutLeadership(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.start()
		l.lose()
		f.swap(func(r *Revision) { r.Digest = "next" })
		f.expectSteps()
		if f.running.Load() != 0 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestTheRunForAnObjectThatIsGoneHasTheLastSignals(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.c.Revision().Controller.Gone = true
		f.start()
		f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`"bye"`)}})
		o := f.store[widget][testKey]
		delete(f.store[widget], testKey)
		f.c.Observe(o, nil, false)
		f.run(abi.ReasonPrimary)
		f.expectSteps("[stop]")
		if !f.request.Gone {
			t.Error("the run is not for an object that is gone")
		}
		expectSignals(f, `"bye"`)
	})
}

func TestADaemonIsStoppedWhenSomebodyRemovesTheFinalizer(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		f.put(strings.NewReplacer(`"finalizers":["f"]`, `"finalizers":[]`, `"generation":1`, `"generation":2,"deletionTimestamp":"2026-01-01T00:00:00Z"`).Replace(aWidget))
		f.run(abi.ReasonPrimary)
		f.expectSteps("[stop]")
		f.expectReconciles(0)
		if f.running.Load() != 0 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

func TestSignalsAreNotForARevisionWithoutDaemons(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`1`)}})
		f.swap(func(r *Revision) { r.Controller.Daemon, r.Daemons = nil, nil })
		f.expectSteps("[stop]")
		f.run(abi.ReasonPlugin)
		expectSignals(f)
	})
}

type quietReads struct{ stepReads }

func TestAStepMayFailWhileTheDaemonsAreStopped(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		f.start()
		f.answer = func(context.Context, *abi.DaemonRequest) (*abi.DaemonResult, error) {
			time.Sleep(time.Second) // fake time
			return nil, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
		}
		f.readChanges(gadget)
		f.c.Revision().Daemons.Reads = quietReads{stepReads{f.fixture}} // the log of the fixture has no lock
		d, stopped := f.c.daemons[testKey], make(chan struct{})
		go func() {
			defer close(stopped)
			time.Sleep(time.Millisecond) // fake time
			f.c.stopDaemon(context.Background(), testKey, d)
		}()
		f.run(abi.ReasonDaemon)
		<-stopped
		f.expectSteps("[read]")
		if f.running.Load() != 0 {
			t.Errorf("%d daemons run", f.running.Load())
		}
	})
}

// The run of the next revision may have begun when the last step ends.
func TestLastSignalsAreNotForAnotherAccount(t *testing.T) {
	for name, account := range map[string]string{"same": "", "another": "ns/other"} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, func(f *daemons) {
				f.start()
				next := *f.c.Revision()
				next.Account = account
				f.c.revision.Store(&next) // as a swap does first
				f.answers(&abi.DaemonResult{Signals: [][]byte{[]byte(`1`)}})
				f.run(abi.ReasonPlugin)
				f.expectSteps("[stop]", "[start]")
				if account == "" {
					expectSignals(f, `1`, `1`)
				} else {
					expectSignals(f, `1`) // of its own daemon
				}
			})
		})
	}
}
