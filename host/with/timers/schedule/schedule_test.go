package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/host/outcome"
)

// decide returns the decision of a run that returned this.
func decide(code abi.Code, result *abi.Result, change func(in *outcome.Input)) *outcome.Decision {
	in := outcome.Input{Code: code, Result: result, Controller: &abi.Controller{Interval: 600_000}, Now: time.Unix(0, 0)}
	if change != nil {
		change(&in)
	}
	d := outcome.Decide(in)
	return &d
}

func ended(code abi.Code, result abi.Outcome) *outcome.Decision {
	return decide(code, &abi.Result{Result: result}, nil)
}

// How runs end.
var (
	well        = ended(abi.CodeOK, abi.OutcomeSuccess)
	empty       = ended(abi.CodeOK, abi.OutcomeEmpty)
	requeues    = ended(abi.CodeOK, abi.OutcomeRequeue)
	retries     = ended(abi.CodeRetry, abi.OutcomeSuccess)
	stalls      = ended(abi.CodeStalled, abi.OutcomeSuccess)
	waits       = ended(abi.CodeWaiting, abi.OutcomeSuccess)
	again       = decide(abi.CodeOK, &abi.Result{Result: abi.OutcomeSuccess, RequeueAfter: 1000}, nil) // at a time that the guest has asked for
	effectFails = decide(abi.CodeOK, &abi.Result{Result: abi.OutcomeSuccess}, func(in *outcome.Input) {
		in.Effect = &abi.EffectFailure{Verb: abi.VerbApply, Class: abi.ClassDenied}
	})
	attemptsUsedUp = decide(abi.CodeRetry, &abi.Result{Result: abi.OutcomeSuccess}, func(in *outcome.Input) { in.Controller.Retry.Attempts = 1 })
)

// step is what happens to an object at a time, in seconds since its creation.
type step struct {
	at   float64
	run  *outcome.Decision // a run begins, and ends so after takes
	take float64
	due  string  // the timers that the run names
	next float64 // seconds from the end of the run to the next timer; 0: none
	do   func(*Timers, time.Time)
}

func change(t *Timers, now time.Time) { t.Changed(now) }
func suspend(t *Timers, _ time.Time)  { t.Rest() }

func timer(name string, interval, delay int64) contract.Timer {
	return contract.Timer{Name: name, Interval: interval * 1000, InitialDelay: delay * 1000}
}

func sharp(t contract.Timer) contract.Timer {
	t.Sharp = true
	return t
}

func idle(t contract.Timer, seconds int64) contract.Timer {
	t.Idle = seconds * 1000
	return t
}

var creation = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Each case is a story of one object, with a jitter of 0.5: half of the 5 % are added.
func TestTimersFollowTheSpecification(t *testing.T) {
	for name, c := range map[string]struct {
		timers   []contract.Timer
		followed float64 // since when the host reconciles, in seconds since the creation
		steps    []step
	}{
		"sharp: from the creation, whole intervals": {[]contract.Timer{sharp(timer("a", 60, 0))}, 0, []step{
			{at: 0.3, run: well, take: 0.2, due: "a", next: 59.5},
			{at: 60, run: well, take: 10, due: "a", next: 50},
			{at: 120, run: well, due: "a", next: 60},
		}},
		"sharp: the first time is after the initial delay": {[]contract.Timer{sharp(timer("a", 60, 10))}, 0, []step{
			{at: 1, run: well, next: 9},
			{at: 10, run: well, take: 1, due: "a", next: 59},
		}},
		"not sharp: from the end of the run, with jitter": {[]contract.Timer{timer("a", 60, 10)}, 0, []step{
			{at: 1, run: well, next: 10.5},
			{at: 11.5, run: well, take: 7, due: "a", next: 61.5},
		}},
		"a run for another reason moves no timer": {[]contract.Timer{timer("a", 60, 0), sharp(timer("b", 60, 0))}, 0, []step{
			{at: 2, run: well, due: "a b", next: 58},
			{at: 30, run: well, next: 30},
			{at: 60, run: well, due: "b", next: 3.5},
		}},
		"the first time after a start is the next one of the grid": {[]contract.Timer{timer("a", 3600, 60), sharp(timer("b", 3600, 60))}, 7200, []step{
			{at: 7201, run: well, next: 59},
			{at: 7260, run: well, due: "b", next: 90},
			{at: 7350, run: well, due: "a", next: 3510},
		}},
		"a time that came between the start and the first run is due": {[]contract.Timer{sharp(timer("a", 60, 0))}, 119, []step{
			{at: 121, run: well, due: "a", next: 59},
		}},
		"an object that was created in the second of the start is new": {[]contract.Timer{sharp(timer("a", 60, 0))}, 0.7, []step{
			{at: 0.9, run: well, due: "a", next: 59.1},
		}},
		"several timers that are due make one run": {[]contract.Timer{sharp(timer("a", 60, 0)), sharp(timer("b", 90, 0)), sharp(timer("c", 7, 0))}, 1, []step{
			{at: 178, run: well, due: "a b c", next: 2},
			{at: 180, run: well, due: "a b", next: 2},
			{at: 182, run: well, due: "c", next: 7},
		}},
		"what comes due during a run is due when it has ended": {[]contract.Timer{sharp(timer("a", 60, 0)), sharp(timer("b", 100, 0))}, 1, []step{
			{at: 60, run: well, take: 55, due: "a", next: 1e-9},
			{at: 115, run: well, due: "b", next: 5},
		}},
		"times of the grid that a run has passed are skipped": {[]contract.Timer{sharp(timer("a", 10, 0))}, 1, []step{
			{at: 10, run: well, take: 35, due: "a", next: 5},
			{at: 50, run: well, due: "a", next: 10},
		}},
		"a timer is due until a run has ended well": {[]contract.Timer{sharp(timer("a", 60, 0)), timer("b", 100, 0)}, 1, []step{
			{at: 60, run: retries, due: "a", next: 42.5},
			{at: 61, run: requeues, due: "a", next: 41.5},
			{at: 62, run: waits, due: "a", next: 40.5},
			{at: 102.5, run: effectFails, due: "a b", next: 0},
			{at: 130, run: again, take: 1, due: "a b", next: 49},
			{at: 180, run: empty, due: "a", next: 53.5},
		}},
		"a stalled run rests the timers until the next run": {[]contract.Timer{sharp(timer("a", 60, 0)), sharp(timer("b", 90, 0))}, 1, []step{
			{at: 60, run: stalls, due: "a", next: 0},
			{at: 100, run: attemptsUsedUp, due: "a", next: 0}, // b has passed while it was resting
			{at: 101, run: well, due: "a", next: 19},
			{at: 120, run: well, due: "a", next: 60},
			{at: 180, run: well, due: "a b", next: 60},
		}},
		"what passes while the object is suspended is not made up for": {[]contract.Timer{sharp(timer("a", 60, 0)), timer("b", 100, 0)}, 1, []step{
			{at: 1, run: well, next: 59},
			{at: 30, do: suspend},
			{at: 310, run: well, next: 50},
			{at: 360.5, run: well, due: "a", next: 42},
			{at: 402.5, run: well, due: "b", next: 17.5},
		}},
		"a short suspension moves no timer": {[]contract.Timer{timer("a", 60, 0)}, 1, []step{
			{at: 2, run: well, next: 59.5},
			{at: 20, do: suspend},
			{at: 30, run: well, next: 31.5},
		}},
		"idle: not before the object is unchanged for so long": {[]contract.Timer{idle(timer("a", 60, 0), 20)}, 1, []step{
			{at: 2, run: well, next: 59.5},
			{at: 55, do: change},
			{at: 56, run: well, next: 19},
			{at: 70, do: change},
			{at: 70, run: well, next: 20},
			{at: 90, run: well, due: "a", next: 61.5},
		}},
		"idle: from the creation": {[]contract.Timer{idle(timer("a", 60, 0), 20)}, 0, []step{
			{at: 1, run: well, next: 19},
		}},
		"idle: from the start of the host": {[]contract.Timer{idle(timer("a", 60, 0), 100)}, 119, []step{
			{at: 121, run: well, next: 98},
		}},
		"idle and sharp: at a time of the grid": {[]contract.Timer{idle(sharp(timer("a", 60, 0)), 20)}, 1, []step{
			{at: 55, do: change},
			{at: 55, run: well, next: 65},
			{at: 120, run: well, due: "a", next: 60},
		}},
		"a change does not end that a timer is due": {[]contract.Timer{idle(timer("a", 60, 0), 20)}, 1, []step{
			{at: 62, run: retries, due: "a", next: 0},
			{at: 63, do: change},
			{at: 63, run: well, due: "a", next: 61.5},
		}},
		"less than 100 ms count as 100 ms": {[]contract.Timer{{Name: "a", Interval: 1, Sharp: true}}, 1, []step{
			{at: 1.05, run: well, due: "a", next: 0.05},
		}},
		"the creation is in the future: the clocks differ": {[]contract.Timer{sharp(timer("a", 60, 5))}, -100, []step{
			{at: -50, run: well, next: 5},
			{at: -45, run: well, due: "a", next: 60},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(s float64) time.Time { return creation.Add(seconds(s)) }
			timers := New(creation, at(c.followed), at(c.steps[0].at))
			for _, s := range c.steps {
				if s.do != nil {
					s.do(&timers, at(s.at))
					continue
				}
				due := timers.Begin(c.timers, at(c.followed), at(s.at), 0.5)
				if got := strings.Join(due, " "); got != s.due {
					t.Errorf("the run at %v s names %q, want %q", s.at, got, s.due)
				}
				if next := timers.End(s.run, at(s.at+s.take), 0.5); (next - seconds(s.next)).Abs() > time.Microsecond {
					t.Errorf("after the run at %v s the next timer is due after %v, want %v", s.at, next, seconds(s.next))
				}
			}
		})
	}
}

// A revision changes one timer, adds one and removes one.
func TestAnotherRevisionChangesOnlyTheTimersThatDiffer(t *testing.T) {
	at := func(s float64) time.Time { return creation.Add(seconds(s)) }
	kept := timer("kept", 100, 0)
	timers := New(creation, at(1), at(1))
	timers.Begin([]contract.Timer{timer("gone", 60, 0), kept, sharp(timer("changed", 60, 0))}, at(1), at(1), 0)
	timers.End(well, at(1), 0)
	next := []contract.Timer{kept, sharp(timer("changed", 70, 0)), sharp(timer("new", 30, 0))}
	if due := timers.Begin(next, at(80), at(81), 0); len(due) > 0 {
		t.Errorf("%q are due", due)
	}
	for _, c := range []struct {
		at   float64
		due  []string
		next float64
	}{
		{81, nil, 9},
		{90, []string{"new"}, 10},
		{100, []string{"kept"}, 20},
		{120, []string{"new"}, 20},
		{140, []string{"changed"}, 10},
	} {
		if due := timers.Begin(next, at(80), at(c.at), 0); !slices.Equal(due, c.due) {
			t.Errorf("at %v s %q are due, want %q", c.at, due, c.due)
		}
		if got := timers.End(well, at(c.at), 0); got != seconds(c.next) {
			t.Errorf("at %v s the next is due after %v, want %v s", c.at, got, c.next)
		}
	}
}

// The runs take from nothing to almost two intervals, and their keys wait for a worker.
func TestSharpTimersDoNotDriftInAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, created := []contract.Timer{sharp(timer("a", 30, 7))}, time.Now()
		timers, runs := New(created, created, created), 0
		for time.Since(created) < 2*time.Hour {
			due := timers.Begin(all, created, time.Now(), 0.7)
			late := (time.Since(created) - 7*time.Second) % (30 * time.Second)
			if runs++; len(due) > 0 && late != 3*time.Millisecond {
				t.Fatalf("run %d is %v after its time", runs, late)
			}
			time.Sleep(time.Duration(runs-1) * 17 * time.Second % (59 * time.Second)) // fake time
			time.Sleep(timers.End(well, time.Now(), 0.7) + 3*time.Millisecond)        // fake time
		}
		if runs < 120 {
			t.Errorf("%d runs in two hours", runs)
		}
	})
}

// Durations up to 100 years and clocks that differ by centuries lead to no time in the past
// that comes again and again, and to none that is negative.
func TestTimersEndForAnyTimes(t *testing.T) {
	ms := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 100*365*24*3_600_000), rapid.Just[int64](math.MaxInt64))
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return creation.Add(time.Duration(rapid.Int64().Draw(t, "from the creation")))
	})
	rapid.Check(t, func(t *rapid.T) {
		var all []contract.Timer
		for i := range rapid.IntRange(1, 3).Draw(t, "timers") {
			all = append(all, contract.Timer{
				Name: fmt.Sprint(i), Interval: ms.Draw(t, "interval"), InitialDelay: ms.Draw(t, "delay") - 1,
				Idle: ms.Draw(t, "idle") - 1, Sharp: rapid.Bool().Draw(t, "sharp"),
			})
		}
		followed, now, jitter := moment.Draw(t, "followed"), moment.Draw(t, "now"), rapid.Float64Range(0, 0.999).Draw(t, "jitter")
		timers := New(moment.Draw(t, "created"), followed, now)
		for range 5 {
			timers.Begin(all, followed, now, jitter)
			wait := timers.End(well, now, jitter)
			if wait <= 0 {
				t.Fatalf("the next timer is due after %v", wait)
			}
			now = now.Add(wait)
			due := timers.Begin(all, followed, now, jitter)
			if len(due) == 0 && wait < math.MaxInt64 { // which stands for longer times, too
				t.Fatalf("nothing is due when the time has come, after %v", wait)
			}
			timers.End(well, now, jitter)
		}
	})
}

func TestSoonestIsTheEarlierOfDeadlineAndTimer(t *testing.T) {
	for _, c := range []struct {
		next outcome.Next
		want time.Duration
	}{
		{outcome.Next{}, 0},
		{outcome.Next{Kind: outcome.After, After: time.Second}, time.Second},
		{outcome.Next{Latest: time.Minute}, time.Minute},
		{outcome.Next{Kind: outcome.After, After: time.Second, Latest: time.Minute}, time.Second},
		{outcome.Next{Kind: outcome.Backoff, After: time.Hour, Latest: time.Minute}, time.Minute},
	} {
		if got := c.next.Soonest(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.next, got, c.want)
		}
	}
}
