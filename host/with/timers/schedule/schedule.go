// Package schedule decides when the timers of an object are due, as a function of time: abi/timers/SPEC.md. The
// tests of plugins use it, too.
package schedule

import (
	"slices"
	"time"

	contract "github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/host/outcome"
)

// Timers is when the timers of one object are due, from its first run on. [Timers.Begin] and
// [Timers.End] enclose each of its runs. The times of a grid are those of the wall clock,
// all others also have what the clock of the process shows.
type Timers struct {
	all       []contract.Timer // of the controller
	states    []timerState     // of all, in the same order
	created   time.Time        // when the object was created; the grids begin there
	unchanged time.Time        // since when nobody but its own runs has changed the object
	resting   bool             // until the next run
}

// timerState is the state of one timer.
type timerState struct {
	at  time.Time // the next time by interval; idle may make the timer due later
	due bool      // a run has named the timer, and none that did has ended well
}

// New returns the schedule of an object before its first run. created is its
// creationTimestamp, which counts as now if it is later: the clocks differ then. followed
// is since when the host reconciles the object.
func New(created, followed, now time.Time) Timers {
	if created.IsZero() || created.After(now) {
		created = now
	}
	t := Timers{created: created, unchanged: created}
	if followed.After(created) {
		t.unchanged = followed
	}
	return t
}

// Begin begins a run and returns the names of the timers that are due. all are those of the
// controller, which another revision may have changed. The first time of one that is new or
// changed is not before followed, since when the host reconciles with the timers: not before
// its second, because a creationTimestamp has whole seconds. jitter is in [0,1).
func (t *Timers) Begin(all []contract.Timer, followed, now time.Time, jitter float64) (due []string) {
	t.adopt(all, followed.Truncate(time.Second), jitter)
	for i := range t.all {
		s := &t.states[i]
		if t.resting && s.at.Before(now) { // what passed meanwhile is not made up for
			s.at = t.first(t.all[i], now, jitter)
		}
		if s.due = s.due || !t.dueAt(i).After(now); s.due {
			due = append(due, t.all[i].Name)
		}
	}
	t.resting = false
	return due
}

// End ends a run and returns the time until the next timer is due, which is positive, or 0
// if there is none. Those that the run has named stay due unless it has ended well: the next
// run names them again, and has its time from the decision.
func (t *Timers) End(d *outcome.Decision, now time.Time, jitter float64) time.Duration {
	if d.IsStalled() {
		t.Rest()
		return 0
	}
	for i := range t.all {
		if s := &t.states[i]; s.due && d.EndedWell() {
			s.at, s.due = t.following(t.all[i], now, jitter), false
		}
	}
	return t.untilNext(now)
}

// Until returns the time until the next timer is due, as End does, for a run that has nothing to do
// with timers.
func (t *Timers) Until(now time.Time) time.Duration {
	if t.resting {
		return 0
	}
	return t.untilNext(now)
}

// Rest makes no timer due before the next run.
func (t *Timers) Rest() { t.resting = true }

// Changed records that somebody else has changed the spec, labels or annotations of the object.
func (t *Timers) Changed(at time.Time) { t.unchanged = at }

// adopt makes all the timers of the object. Those that were the same before keep their state.
func (t *Timers) adopt(all []contract.Timer, from time.Time, jitter float64) {
	if slices.Equal(t.all, all) {
		return
	}
	states := make([]timerState, len(all))
	for i, timer := range all {
		if known := slices.Index(t.all, timer); known >= 0 {
			states[i] = t.states[known]
		} else {
			states[i].at = t.first(timer, from, jitter)
		}
	}
	t.all, t.states = all, states
}

// first returns the first time of a timer: the first one of its grid that is not before from.
func (t *Timers) first(timer contract.Timer, from time.Time, jitter float64) time.Time {
	interval := outcome.Asked(timer.Interval)
	at := gridTime(t.origin(timer), interval, from)
	if timer.Sharp {
		return at
	}
	return at.Add(outcome.AddJitter(interval, outcome.IntervalJitter, jitter) - interval)
}

// following returns the time of a timer that follows a run that has ended well.
func (t *Timers) following(timer contract.Timer, now time.Time, jitter float64) time.Time {
	interval := outcome.Asked(timer.Interval)
	if timer.Sharp {
		return gridTime(t.origin(timer), interval, now.Add(1))
	}
	return now.Add(outcome.AddJitter(interval, outcome.IntervalJitter, jitter))
}

// origin is the first time of the grid of a timer.
func (t *Timers) origin(timer contract.Timer) time.Time {
	return t.created.Add(Milliseconds(timer.InitialDelay))
}

// gridTime returns the first of the times origin, origin+interval, origin+2*interval and so on
// that is not before from. It has no monotonic clock reading.
func gridTime(origin time.Time, interval time.Duration, from time.Time) time.Time {
	origin, from = origin.Round(0), from.Round(0)
	passed := from.Sub(origin)
	if passed <= 0 {
		return origin
	}
	if rest := passed % interval; rest > 0 {
		return from.Add(interval - rest)
	}
	return from
}

// dueAt returns when a timer is due that no run has named yet.
func (t *Timers) dueAt(i int) time.Time {
	timer, at := t.all[i], t.states[i].at
	idle := t.unchanged.Add(Milliseconds(timer.Idle))
	switch {
	case timer.Idle == 0 || !idle.After(at):
		return at
	case timer.Sharp:
		return gridTime(at, outcome.Asked(timer.Interval), idle)
	default:
		return idle
	}
}

// untilNext returns the time until the first timer is due that no run has named, at least a
// nanosecond; 0 if there is none.
func (t *Timers) untilNext(now time.Time) (next time.Duration) {
	for i := range t.all {
		if t.states[i].due {
			continue
		}
		if wait := max(t.dueAt(i).Sub(now), 1); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// Milliseconds returns a duration of the contract.
func Milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
