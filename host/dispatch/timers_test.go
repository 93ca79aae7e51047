package dispatch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// probe and report are the timers of the tests: they are due ten seconds and a minute after the
// creation, and then each minute.
var (
	probe  = abi.Timer{Name: "probe", Interval: 60_000, InitialDelay: 10_000, Sharp: true}
	report = abi.Timer{Name: "report", Interval: 60_000, InitialDelay: 60_000, Sharp: true}
)

// withTimers runs a test in a bubble, whose time begins at the creation of the widget.
func withTimers(t *testing.T, timers []abi.Timer, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.c.Revision().Controller.Timers = timers
		f.put(aWidget)
		test(f)
	})
}

// runTimed runs the widget and checks which timers the request names, and when the next one is
// due.
func (f *fixture) runTimed(due []string, next time.Duration, reasons ...abi.Reason) {
	f.t.Helper()
	f.request = nil
	f.run(reasons...)
	if f.request == nil || !slices.Equal(f.request.Timers, due) {
		f.t.Errorf("the request is %+v, want the timers %q", f.request, due)
	}
	f.expectTimer(next)
}

// expectTimer checks when the next timer is due after the last run.
func (f *fixture) expectTimer(next time.Duration) {
	f.t.Helper()
	if got := f.done[len(f.done)-1].Timer; got != next {
		f.t.Errorf("the next timer is due after %v, want %v", got, next)
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) // fake time
}

// born makes the widget one that was created a time from now.
func (f *fixture) born(ago time.Duration) {
	created := time.Now().Add(ago).UTC().Format(time.RFC3339)
	f.put(string(mergePatch(f.t, []byte(aWidget), `{"metadata":{"creationTimestamp":"`+created+`"}}`)))
}

// change changes the widget as another client does.
func (f *fixture) change(patch string) {
	before := f.store[widget][testKey]
	f.version++
	after := patched(f.t, before, patch)
	after.ResourceVersion = after.ResourceVersion + "0"
	f.store[widget][testKey] = after
	f.c.Observe(before, after, false)
}

func TestARequestNamesTheTimersThatAreDue(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.runTimed(nil, 10*time.Second, abi.ReasonPrimary)
		pass(10 * time.Second)
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonTimer)
		pass(55 * time.Second)
		f.runTimed([]string{"report"}, 5*time.Second, abi.ReasonOwned)
		if want := []abi.Reason{abi.ReasonOwned, abi.ReasonTimer}; !slices.Equal(f.request.Reasons, want) {
			t.Errorf("the reasons are %q, want %q", f.request.Reasons, want)
		}
		pass(time.Minute)
		f.runTimed([]string{"probe", "report"}, 5*time.Second, abi.ReasonTimer)
		if want := []abi.Reason{abi.ReasonTimer}; !slices.Equal(f.request.Reasons, want) {
			t.Errorf("the reasons are %q, want %q", f.request.Reasons, want)
		}
	})
}

// Each case ends the run at 10 s, for which probe is due. report is due 50 s later.
func TestTheNextTimerFollowsFromHowARunEnds(t *testing.T) {
	suspended := `{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`
	for name, c := range map[string]struct {
		before func(f *fixture)
		next   time.Duration
	}{
		"success":                    {func(f *fixture) {}, 50 * time.Second},
		"a failure":                  {func(f *fixture) { f.reconcile = panics }, 50 * time.Second},
		"waiting":                    {func(f *fixture) { f.reconcile = returnsCode(abi.CodeWaiting) }, 50 * time.Second},
		"stalled":                    {func(f *fixture) { f.reconcile = returnsCode(abi.CodeStalled) }, 0},
		"postponed effects":          {func(f *fixture) { f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", time.Second) }, 0},
		"postponed before it begins": {func(f *fixture) { f.full = true }, 0},
		"suspended":                  {func(f *fixture) { f.change(suspended) }, 0},
		"a cleanup":                  {func(f *fixture) { f.change(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`) }, 0},
		"deleted, without the finalizer": {func(f *fixture) {
			f.change(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":null}}`)
		}, 0},
		"gone": {func(f *fixture) { delete(f.store[widget], testKey) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
				f.run(abi.ReasonPrimary)
				pass(10 * time.Second)
				c.before(f)
				f.run(abi.ReasonTimer)
				f.expectTimer(c.next)
			})
		})
	}
}

// The next run of a failed one comes with the backoff, and names the same timers.
func TestARunThatFailsIsRepeatedWithItsTimers(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.reconcile = panics
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonTimer)
		if next := f.done[1]; next.Kind != outcome.Backoff || next.After > time.Second {
			t.Errorf("done with %+v", next)
		}
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonRetry)
		pass(50 * time.Second)
		f.runTimed([]string{"probe", "report"}, 0, abi.ReasonTimer)
		if f.request.Attempt != 2 {
			t.Errorf("attempt %d: a timer resets nothing", f.request.Attempt)
		}
		f.reconcile = succeed
		f.runTimed([]string{"probe", "report"}, 10*time.Second, abi.ReasonRetry)
	})
}

func TestATimerThatBecomesDueDuringARunIsDueAtItsEnd(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			pass(15 * time.Second)
			return succeed(ctx, call)
		}
		f.runTimed(nil, 1, abi.ReasonPrimary)
		f.reconcile = succeed
		f.runTimed([]string{"probe"}, 45*time.Second, abi.ReasonTimer)
	})
}

// The guest is not called again when the effects are performed.
func TestTheTimersOfAParkedRunGoOnWhenItHasEnded(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", 55*time.Second)
		f.runTimed([]string{"probe"}, 0, abi.ReasonTimer)
		delete(f.fail, "apply")
		pass(55 * time.Second)
		f.request = nil
		f.run(abi.ReasonRetry)
		if f.request != nil {
			t.Error("the guest was called again")
		}
		f.expectTimer(1) // report came meanwhile
		f.runTimed([]string{"report"}, 5*time.Second, abi.ReasonTimer)
	})
}

func TestAParkedRunThatIsDroppedLeavesItsTimersDue(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", time.Second)
		f.runTimed([]string{"probe"}, 0, abi.ReasonTimer)
		delete(f.fail, "apply")
		f.change(`{"metadata":{"labels":{"a":"b"}}}`)
		pass(time.Second)
		f.runTimed([]string{"probe"}, 59*time.Second, abi.ReasonPrimary)
	})
}

func TestTimersRestWhileTheObjectIsSuspended(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		f.change(`{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`)
		f.request = nil
		f.run(abi.ReasonPrimary)
		f.expectTimer(0)
		pass(65 * time.Second)
		f.change(`{"metadata":{"annotations":null}}`)
		f.runTimed(nil, 5*time.Second, abi.ReasonPrimary)
		pass(5 * time.Second)
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonTimer)
	})
}

func TestAStalledRunRestsTheTimersUntilTheNextOne(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.reconcile = returnsCode(abi.CodeStalled)
		f.runTimed([]string{"probe"}, 0, abi.ReasonTimer)
		pass(time.Hour)
		f.reconcile = succeed
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonPrimary)
	})
}

// The first run is at 100 s of the object's life, for the start of the host.
func TestAfterAStartTheNextTimeIsThatOfTheGrid(t *testing.T) {
	withTimers(t, []abi.Timer{probe, {Name: "day", Interval: 24 * 3_600_000, Sharp: true}}, func(f *fixture) {
		f.born(-100 * time.Second)
		f.runTimed(nil, 30*time.Second, abi.ReasonResync)
		pass(24*time.Hour - 100*time.Second)
		f.runTimed([]string{"probe", "day"}, 10*time.Second, abi.ReasonTimer)
	})
}

func TestIdleIsCountedFromTheLastChangeByOthers(t *testing.T) {
	withTimers(t, []abi.Timer{{Name: "tidy", Interval: 60_000, Idle: 20_000}}, func(f *fixture) {
		f.runTimed(nil, 20*time.Second, abi.ReasonPrimary)
		pass(10 * time.Second)
		f.change(`{"status":{"x":1}}`)
		f.runTimed(nil, 10*time.Second, abi.ReasonStatus)
		before := f.store[widget][testKey]
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{Patch: []byte(`{"metadata":{"labels":{"by":"plugin"}}}`)})
		}
		f.runTimed(nil, 10*time.Second, abi.ReasonResync)
		f.c.Observe(before, f.store[widget][testKey], false)
		f.reconcile = succeed
		f.runTimed(nil, 10*time.Second, abi.ReasonPrimary)
		pass(5 * time.Second)
		f.change(`{"metadata":{"labels":{"by":"user"}}}`)
		f.runTimed(nil, 20*time.Second, abi.ReasonPrimary)
		pass(20 * time.Second)
		f.request = nil
		f.run(abi.ReasonTimer)
		if !slices.Equal(f.request.Timers, []string{"tidy"}) {
			t.Errorf("%q are due", f.request.Timers)
		}
	})
}

func TestASwapRestartsTheTimersThatDiffer(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(30 * time.Second)
		hourly := abi.Timer{Name: "report", Interval: 3_600_000, Sharp: true}
		f.swap(func(r *Revision) { r.Controller.Timers = []abi.Timer{hourly, probe} })
		f.runTimed([]string{"probe"}, 40*time.Second, abi.ReasonPlugin) // which has come meanwhile
		pass(3570 * time.Second)
		f.runTimed([]string{"report", "probe"}, 10*time.Second, abi.ReasonTimer)
		f.swap(func(r *Revision) { r.Controller.Timers = nil })
		f.runTimed(nil, 0, abi.ReasonPlugin)
		if len(f.c.timers) > 0 {
			t.Error("timers are kept that the controller does not have any more")
		}
	})
}

// The run has ended on a revision that has other timers than the present one.
func TestASwapDuringARunIsFollowedByARunWithTheNewTimers(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			f.swap(func(r *Revision) { r.Controller.Timers = []abi.Timer{report} })
			return succeed(ctx, call)
		}
		f.run(abi.ReasonPrimary)
		f.reconcile = succeed
		f.runTimed(nil, time.Minute, abi.ReasonPlugin)
	})
}

func TestARunThatEndsAfterItsTimersWereRemovedSetsNone(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			f.swap(func(r *Revision) { r.Controller.Timers = nil })
			return succeed(ctx, call)
		}
		f.runTimed(nil, 0, abi.ReasonPrimary)
	})
}

// It was created under this replica, which has led from the beginning.
func TestTheFirstTimerOfANewObjectIsDueInItsFirstRun(t *testing.T) {
	withTimers(t, []abi.Timer{{Name: "at-once", Interval: 60_000, Sharp: true}}, func(f *fixture) {
		l := &lease{leading: make(chan struct{})}
		l.lead()
		config := f.c.Config
		config.Lease = l
		f.c = New(config, f.c.Revision())
		pass(10 * time.Second)
		f.born(0)
		pass(5 * time.Second)
		f.runTimed([]string{"at-once"}, 55*time.Second, abi.ReasonPrimary)
	})
}

// Another replica has run the object in the hour before this one leads again.
func TestAfterAFailOverNoTimerIsMadeUpFor(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		f.born(0)
		l.lead()
		f.runTimed(nil, 10*time.Second, abi.ReasonPrimary)
		l.lose()
		pass(time.Hour + 20*time.Second)
		l.lead()
		f.runTimed(nil, 40*time.Second, abi.ReasonResync)
		pass(40 * time.Second)
		f.runTimed([]string{"report"}, 10*time.Second, abi.ReasonTimer)
	})
}

// It has stood by for an hour.
func TestAReplicaThatTakesOverMakesUpForNoTimer(t *testing.T) {
	withTimers(t, []abi.Timer{probe, report}, func(f *fixture) {
		l := &lease{leading: make(chan struct{})}
		config := f.c.Config
		config.Lease = l
		f.c = New(config, f.c.Revision())
		pass(time.Hour + 20*time.Second)
		f.born(-time.Hour - 20*time.Second)
		l.lead()
		f.runTimed(nil, 40*time.Second, abi.ReasonResync)
	})
}

// The run was about to begin. Its timers must not be those of the next term.
func TestARunAfterTheLeadWasLostLeavesNoTimers(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		f.born(0)
		l.lead()
		f.due = []queue.Item{{Key: testKey, Reasons: []abi.Reason{abi.ReasonPrimary}}}
		item, _ := f.c.take(f.t.Context())
		l.lose()
		f.c.process(f.t.Context(), item)
		pass(time.Hour + 20*time.Second)
		l.lead()
		f.runTimed(nil, 50*time.Second, abi.ReasonResync)
	})
}

func TestTimersAreDroppedWithTheirObject(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(30 * time.Second)
		f.put(string(mergePatch(t, []byte(aWidget), `{"metadata":{"uid":"u2"}}`)))
		f.runTimed(nil, 10*time.Second, abi.ReasonPrimary) // of the new object
		f.removeUnheld()
		f.run(abi.ReasonPrimary)
		if len(f.c.timers) > 0 {
			t.Error("the timers of an object are kept that does not exist")
		}
	})
}

func TestACleanupHasNoTimers(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.change(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
		f.reconcile = panics
		f.runTimed(nil, 0, abi.ReasonTimer, abi.ReasonPrimary)
		if len(f.c.timers) > 0 {
			t.Error("the timers of an object are kept that is being deleted")
		}
	})
}

// It is not the work of the key that it runs by a timer again and again.
func TestRunsByTimersAreNoWriteLoop(t *testing.T) {
	withTimers(t, []abi.Timer{{Name: "often", Interval: 1000, Sharp: true}}, func(f *fixture) {
		f.reconcile = appliesGadget
		for range 50 {
			f.run(abi.ReasonTimer, abi.ReasonOwned)
			pass(time.Second)
		}
		if f.loops > 0 {
			t.Errorf("%d runs count as in a write loop", f.loops)
		}
	})
}

func TestAControllerWithoutTimersKeepsNothingForThem(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.runTimed(nil, 0, abi.ReasonPrimary)
	f.change(`{"metadata":{"labels":{"a":"b"}}}`)
	f.runTimed(nil, 0, abi.ReasonPrimary)
	if f.c.timers != nil {
		t.Error("there is a map of timers")
	}
}

func TestTheEndOfARunStatesWhenTheNextTimerIsDue(t *testing.T) {
	withTimers(t, []abi.Timer{probe}, func(f *fixture) {
		f.run(abi.ReasonPrimary)
		if ended := f.events[len(f.events)-1].(events.RunEnded); ended.Next != 10*time.Second {
			t.Errorf("the next run is due after %v", ended.Next)
		}
	})
}
