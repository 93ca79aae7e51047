package timers

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// probe and report are the timers of the tests: they are due ten seconds and a minute after the
// creation, and then each minute.
var (
	probe  = contract.Timer{Name: "probe", Interval: 60_000, InitialDelay: 10_000, Sharp: true}
	report = contract.Timer{Name: "report", Interval: 60_000, InitialDelay: 60_000, Sharp: true}
)

// timed is a controller with one object, whose hooks the worker would call.
type timed struct {
	t       *testing.T
	c       *controller
	hooks   dispatch.Hooks
	rev     *dispatch.Revision
	created time.Time
	deleted bool
	state   any
}

func revision(all ...contract.Timer) *dispatch.Revision {
	rev := &dispatch.Revision{}
	if len(all) > 0 {
		rev.Controller.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(all)}}
	}
	return rev
}

// withTimers runs a test in a bubble, whose time begins at the creation of the object.
func withTimers(t *testing.T, all []contract.Timer, test func(f *timed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newController()
		test(&timed{t: t, c: c, hooks: c.hooks(), rev: revision(all...), created: time.Now()})
	})
}

// begin begins a run.
func (f *timed) begin() *dispatch.BeginningRun {
	o := &object.Object{}
	o.CreationTimestamp = metav1.NewTime(f.created)
	if f.deleted {
		now := metav1.Now()
		o.DeletionTimestamp = &now
	}
	run := &dispatch.BeginningRun{Revision: f.rev, Object: o, Now: time.Now()}
	f.hooks.Begin(&f.state, run)
	return run
}

// run is a run that ends well. It must name these timers, and lead to the next one after that time.
func (f *timed) run(next time.Duration, want ...string) {
	f.t.Helper()
	begun := f.begin()
	var section []byte
	if len(begun.Sections) > 0 {
		section = begun.Sections[0].Value
	}
	due, err := contract.DecodeDue(section)
	if err != nil || !slices.Equal(due, want) || (len(want) > 0) != slices.Equal(begun.Reasons, []abi.Reason{abi.ReasonTimer}) {
		f.t.Errorf("the run names %q for %q, %v, want %q", due, begun.Reasons, err, want)
	}
	f.expectNext(next)
}

func (f *timed) expectNext(want time.Duration) {
	f.t.Helper()
	got := time.Duration(0)
	if f.state != nil {
		got = f.hooks.Deadline(f.state, &outcome.Decision{}, time.Now())
	}
	if got != want {
		f.t.Errorf("the next timer is due after %v, want %v", got, want)
	}
}

// swap makes another revision run.
func (f *timed) swap(all ...contract.Timer) {
	before := f.rev
	f.rev = revision(all...)
	f.hooks.Replaced(before, f.rev)
}

func pass(d time.Duration) { time.Sleep(d) } // fake time

func TestARunNamesTheTimersThatAreDue(t *testing.T) {
	withTimers(t, []contract.Timer{probe, report}, func(f *timed) {
		f.run(10 * time.Second)
		pass(10 * time.Second)
		f.run(50*time.Second, "probe")
		pass(55 * time.Second)
		f.run(5*time.Second, "report")
		pass(time.Minute)
		f.run(5*time.Second, "probe", "report")
	})
}

// The first run is at 100 s of the object's life, for the start of the host.
func TestAfterAStartTheNextTimeIsThatOfTheGrid(t *testing.T) {
	withTimers(t, []contract.Timer{probe, {Name: "day", Interval: 24 * 3_600_000, Sharp: true}}, func(f *timed) {
		f.created = f.created.Add(-100 * time.Second)
		f.run(30 * time.Second)
		pass(24*time.Hour - 100*time.Second)
		f.run(10*time.Second, "probe", "day")
	})
}

func TestTimersRestWhileTheObjectIsSuspended(t *testing.T) {
	withTimers(t, []contract.Timer{probe, report}, func(f *timed) {
		f.run(10 * time.Second)
		f.hooks.Suspended(f.state)
		if next := f.hooks.Deadline(f.state, nil, time.Now()); next != 0 {
			t.Errorf("a timer is due after %v", next)
		}
		pass(65 * time.Second)
		f.run(5 * time.Second)
	})
}

func TestIdleIsCountedFromTheLastRequestOfOthers(t *testing.T) {
	withTimers(t, []contract.Timer{{Name: "tidy", Interval: 60_000, Idle: 20_000, Sharp: true}}, func(f *timed) {
		f.run(time.Minute)
		pass(50 * time.Second)
		f.hooks.Requested(f.state, time.Now())
		f.run(70 * time.Second)
		pass(70 * time.Second)
		f.run(time.Minute, "tidy")
	})
}

func TestASwapRestartsTheTimersThatDiffer(t *testing.T) {
	withTimers(t, []contract.Timer{probe, report}, func(f *timed) {
		f.run(10 * time.Second)
		pass(30 * time.Second)
		f.swap(contract.Timer{Name: "report", Interval: 3_600_000, Sharp: true}, probe)
		f.run(40*time.Second, "probe") // which has come meanwhile
		pass(3570 * time.Second)
		f.run(10*time.Second, "report", "probe")
		f.swap()
		if f.run(0); f.state != nil {
			t.Error("timers are kept that the controller does not have any more")
		}
	})
}

// The run in progress ends with the state that it began with.
func TestARunThatEndsAfterItsTimersWereRemovedSetsNone(t *testing.T) {
	withTimers(t, []contract.Timer{probe}, func(f *timed) {
		f.begin()
		f.swap()
		f.expectNext(0)
		f.swap(probe) // before another run
		f.run(10 * time.Second)
	})
}

// Another replica has run the object in the hour before this one leads again. The worker drops the states.
func TestAfterAFailOverNoTimerIsMadeUpFor(t *testing.T) {
	withTimers(t, []contract.Timer{probe, report}, func(f *timed) {
		f.run(10 * time.Second)
		pass(time.Hour + 20*time.Second)
		f.hooks.Term()
		f.state = nil
		f.run(40 * time.Second)
		pass(40 * time.Second)
		f.run(10*time.Second, "report")
	})
}

func TestACleanupHasNoTimers(t *testing.T) {
	withTimers(t, []contract.Timer{probe}, func(f *timed) {
		f.run(10 * time.Second)
		pass(10 * time.Second)
		f.deleted = true
		if f.run(0); f.state != nil {
			t.Error("the timers of an object are kept that is being deleted")
		}
	})
}

func TestTimersAreDescribed(t *testing.T) {
	rev := revision(contract.Timer{Name: "probe", Interval: 60_000, InitialDelay: 5_000, Idle: 30_000, Sharp: true}, contract.Timer{Name: "report", Interval: 3_600_000})
	if got := describe(&rev.Controller); got != "probe 1m0s (first after 5s; idle for 30s; sharp), report 1h0m0s" {
		t.Error(got)
	}
	if got := describe(&abi.Controller{}); got != "" {
		t.Error(got)
	}
}
