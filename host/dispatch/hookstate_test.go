package dispatch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// probe and report are the alarms of the tests: they are due ten seconds and a minute after the
// creation, and then each minute.
var (
	probe  = alarm{Name: "probe", Every: time.Minute, First: 10 * time.Second, Grid: true}
	report = alarm{Name: "report", Every: time.Minute, First: time.Minute, Grid: true}
)

// withAlarms runs a test in a bubble, whose time begins at the creation of the widget.
func withAlarms(t *testing.T, all []alarm, test func(f *fixture, a *alarms)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.c.Revision().Controller.Sections = section(all...)
		a, hooks := newAlarms()
		f.c.Hooks = []Hooks{{}, hooks}
		f.put(aWidget)
		test(f, a)
	})
}

// runTimed runs the widget and checks which alarms the request names, and when the next one is
// due.
func (f *fixture) runTimed(due []string, next time.Duration, reasons ...abi.Reason) {
	f.t.Helper()
	f.request = nil
	f.run(reasons...)
	if f.request == nil || !slices.Equal(alarmed(f.request), due) {
		f.t.Errorf("the request is %+v, want the alarms %q", f.request, due)
	}
	f.expectAlarm(next)
}

// expectAlarm checks when the next alarm is due after the last run.
func (f *fixture) expectAlarm(next time.Duration) {
	f.t.Helper()
	if got := f.done[len(f.done)-1].Latest; got != next {
		f.t.Errorf("the next alarm is due after %v, want %v", got, next)
	}
}

// hasState reports whether something is kept for the widget by a hook.
func (f *fixture) hasState() bool {
	s := f.c.keys[testKey]
	return s != nil && s.hooks != nil
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

func TestARequestNamesTheAlarmsThatAreDue(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
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
func TestTheNextAlarmFollowsFromHowARunEnds(t *testing.T) {
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
			withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
				f.run(abi.ReasonPrimary)
				pass(10 * time.Second)
				c.before(f)
				f.run(abi.ReasonTimer)
				f.expectAlarm(c.next)
			})
		})
	}
}

// The next run of a failed one comes with the backoff, and names the same alarms.
func TestARunThatFailsIsRepeatedWithItsAlarms(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
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

func TestAnAlarmThatBecomesDueDuringARunIsDueAtItsEnd(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
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
func TestTheAlarmsOfAParkedRunGoOnWhenItHasEnded(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
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
		f.expectAlarm(1) // report came meanwhile
		f.runTimed([]string{"report"}, 5*time.Second, abi.ReasonTimer)
	})
}

func TestAParkedRunThatIsDroppedLeavesItsAlarmsDue(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
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

func TestAlarmsRestWhileTheObjectIsSuspended(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
		f.run(abi.ReasonPrimary)
		f.change(`{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`)
		f.request = nil
		f.run(abi.ReasonPrimary)
		f.expectAlarm(0)
		pass(65 * time.Second)
		f.change(`{"metadata":{"annotations":null}}`)
		f.runTimed(nil, 5*time.Second, abi.ReasonPrimary)
		pass(5 * time.Second)
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonTimer)
	})
}

func TestAStalledRunRestsTheAlarmsUntilTheNextOne(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.reconcile = returnsCode(abi.CodeStalled)
		f.runTimed([]string{"probe"}, 0, abi.ReasonTimer)
		pass(time.Hour)
		f.reconcile = succeed
		f.runTimed([]string{"probe"}, 50*time.Second, abi.ReasonPrimary)
	})
}

// The run has ended on a revision that has other alarms than the present one.
func TestASwapDuringARunIsFollowedByARunWithTheNewAlarms(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			f.swap(func(r *Revision) { r.Controller.Sections = section(report) })
			return succeed(ctx, call)
		}
		f.run(abi.ReasonPrimary)
		f.reconcile = succeed
		f.runTimed(nil, time.Minute, abi.ReasonPlugin)
	})
}

func TestARunThatEndsAfterItsAlarmsWereRemovedSetsNone(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			f.swap(func(r *Revision) { r.Controller.Sections = nil })
			return succeed(ctx, call)
		}
		f.runTimed(nil, 0, abi.ReasonPrimary)
	})
}

// It was created under this replica, which has led from the beginning.
func TestTheFirstAlarmOfANewObjectIsDueInItsFirstRun(t *testing.T) {
	withAlarms(t, []alarm{{Name: "at-once", Every: time.Minute, Grid: true}}, func(f *fixture, _ *alarms) {
		l := &lease{leading: make(chan struct{})}
		l.lead()
		config := f.c.Config
		config.Lease = l
		f.c = New(config, f.c.queue, f.c.Revision())
		pass(10 * time.Second)
		f.born(0)
		pass(5 * time.Second)
		f.runTimed([]string{"at-once"}, 55*time.Second, abi.ReasonPrimary)
	})
}

// Another replica has run the object in the hour before this one leads again.
func TestAfterAFailOverNoAlarmIsMadeUpFor(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
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
func TestAReplicaThatTakesOverMakesUpForNoAlarm(t *testing.T) {
	withAlarms(t, []alarm{probe, report}, func(f *fixture, _ *alarms) {
		l := &lease{leading: make(chan struct{})}
		config := f.c.Config
		config.Lease = l
		f.c = New(config, f.c.queue, f.c.Revision())
		pass(time.Hour + 20*time.Second)
		f.born(-time.Hour - 20*time.Second)
		l.lead()
		f.runTimed(nil, 40*time.Second, abi.ReasonResync)
	})
}

// The run was about to begin. Its alarms must not be those of the next term.
func TestARunAfterTheLeadWasLostLeavesNoAlarms(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
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

func TestAlarmsAreDroppedWithTheirObject(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
		f.run(abi.ReasonPrimary)
		pass(30 * time.Second)
		f.put(string(mergePatch(t, []byte(aWidget), `{"metadata":{"uid":"u2"}}`)))
		f.runTimed(nil, 10*time.Second, abi.ReasonPrimary) // of the new object
		f.removeUnheld()
		f.run(abi.ReasonPrimary)
		if f.hasState() {
			t.Error("the alarms of an object are kept that does not exist")
		}
	})
}

func TestACleanupHasNoAlarms(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
		f.run(abi.ReasonPrimary)
		pass(10 * time.Second)
		f.change(`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
		f.reconcile = panics
		f.runTimed(nil, 0, abi.ReasonTimer, abi.ReasonPrimary)
		if f.hasState() {
			t.Error("the alarms of an object are kept that is being deleted")
		}
	})
}

// It is not the work of the key that it runs by a alarm again and again.
func TestRunsByAlarmsAreNoWriteLoop(t *testing.T) {
	withAlarms(t, []alarm{{Name: "often", Every: time.Second, Grid: true}}, func(f *fixture, _ *alarms) {
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

func TestTheEndOfARunStatesWhenTheNextAlarmIsDue(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
		f.run(abi.ReasonPrimary)
		if ended := f.events[len(f.events)-1].(events.RunEnded); ended.Next != 10*time.Second {
			t.Errorf("the next run is due after %v", ended.Next)
		}
	})
}

func TestRequestsOfOthersAreToldToHooks(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, a *alarms) {
		expect := func(what string, want ...string) {
			t.Helper()
			if !slices.Equal(a.calls, want) {
				t.Errorf("%s: the calls are %q, want %q", what, a.calls, want)
			}
			a.calls = nil
		}
		f.change(`{"metadata":{"labels":{"a":"a"}}}`)
		expect("before the first run")
		f.run(abi.ReasonPrimary)
		f.change(`{"status":{"x":1}}`)
		expect("a status")
		before := f.store[widget][testKey]
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{Patch: []byte(`{"metadata":{"labels":{"by":"plugin"}}}`)})
		}
		f.run(abi.ReasonResync)
		f.c.Observe(before, f.store[widget][testKey], false)
		expect("the key's own change")
		f.change(`{"metadata":{"labels":{"by":"user"}}}`)
		expect("labels", "requested")
		f.change(`{"metadata":{"annotations":{"` + RequestedAt + `":"now"}}}`)
		expect("a request", "requested")
		f.c.Resync([]object.Key{testKey})
		expect("a resync")
	})
}

func TestHooksAreToldOfRevisionsAndTerms(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, a *alarms) {
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.run(abi.ReasonPrimary)
		if !slices.Equal(a.calls, []string{"term"}) || !f.hasState() {
			t.Errorf("the calls are %q", a.calls)
		}
		f.swap(func(*Revision) {})
		if !slices.Equal(a.calls, []string{"term", "replaced"}) || !f.hasState() {
			t.Errorf("the calls are %q", a.calls)
		}
		l.lose()
		l.lead()
		f.run(abi.ReasonResync)
		if !slices.Equal(a.calls, []string{"term", "replaced", "term"}) {
			t.Errorf("the calls are %q", a.calls)
		}
	})
}

func TestAControllerWithoutAStateKeepsNothingForIt(t *testing.T) {
	withAlarms(t, nil, func(f *fixture, _ *alarms) {
		f.runTimed(nil, 0, abi.ReasonPrimary)
		f.change(`{"metadata":{"labels":{"a":"b"}}}`)
		f.runTimed(nil, 0, abi.ReasonPrimary)
		if f.hasState() {
			t.Error("there are states")
		}
	})
}

// Hooks are called with the lock of the controller held: they find it so, and cannot take it.
func TestHooksWithAStateAreCalledWithTheLock(t *testing.T) {
	withAlarms(t, []alarm{probe}, func(f *fixture, _ *alarms) {
		called := map[string]bool{}
		locked := func(name string) {
			if called[name] = true; f.c.mu.TryLock() {
				f.c.mu.Unlock()
				t.Errorf("%s is called without the lock", name)
			}
		}
		var kept alarmState
		f.c.Hooks = append(f.c.Hooks, Hooks{
			Wait:      func(any, *BeginningRun) time.Duration { locked("Wait"); return 0 },
			Begin:     func(state *any, _ *BeginningRun) { locked("Begin"); *state = &kept },
			Restored:  func(any) { locked("Restored") },
			Deadline:  func(any, *outcome.Decision, time.Time) time.Duration { locked("Deadline"); return 0 },
			Suspended: func(any) { locked("Suspended") },
			Requested: func(any, time.Time) { locked("Requested") },
			Replaced:  func(_, _ *Revision) { locked("Replaced") },
			Term:      func() { locked("Term") },
		})
		f.run(abi.ReasonPrimary)
		f.change(`{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`)
		f.run(abi.ReasonPrimary)
		f.swap(func(*Revision) {})
		f.c.ChangeState(2, f.store[widget][testKey], func(any) { locked("ChangeState") })
		f.c.Restored(nil)
		l := &lease{leading: make(chan struct{})}
		f.c.Lease = l
		l.lead()
		f.c.lead()
		if len(called) != 9 {
			t.Errorf("called are %v", called)
		}
	})
}
