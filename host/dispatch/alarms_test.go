package dispatch

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// alarms is a capability of the tests, with a state for each object: it runs objects at times. Its section in
// a controller is a list of them.
type alarms struct {
	followed time.Time
	without  int      // how many revisions had no alarms
	calls    []string // of the hooks without a state, and of Requested
}

// alarm is due at first after the creation of the object, and then every so often: at times of that grid, or from
// the end of a run on.
type alarm struct {
	Name         string
	First, Every time.Duration
	Grid         bool
}

// section returns the section of a controller with alarms.
func section(all ...alarm) []abi.Section {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return []abi.Section{{Name: "alarms", Value: text}}
}

func alarmsOf(rev *Revision) (all []alarm) {
	if text := rev.Controller.Section("alarms"); text != nil {
		if err := json.Unmarshal(text, &all); err != nil {
			panic(err)
		}
	}
	return all
}

// alarmState is that of one object.
type alarmState struct {
	all     []alarm
	created time.Time // of the object; if it has none, its first run
	at      []time.Time
	due     []bool
	resting bool
	without int // of alarms, when it was made
}

func newAlarms() (*alarms, Hooks) {
	a := &alarms{followed: time.Now()}
	return a, Hooks{
		Begin: a.begin, Deadline: a.deadline,
		Suspended: func(state any) { state.(*alarmState).resting = true },
		Requested: func(any, time.Time) { a.calls = append(a.calls, "requested") },
		Replaced: func(_, next *Revision) {
			if a.calls = append(a.calls, "replaced"); len(alarmsOf(next)) == 0 {
				a.without++
			}
		},
		Term: func() { a.followed, a.calls = time.Now(), append(a.calls, "term") },
	}
}

func (a *alarms) begin(state *any, run *BeginningRun) {
	all := alarmsOf(run.Revision)
	if len(all) == 0 || run.Object.Deleting() {
		*state = nil
		return
	}
	s, _ := (*state).(*alarmState)
	if s == nil || !slices.Equal(s.all, all) {
		s = &alarmState{all: all, at: make([]time.Time, len(all)), due: make([]bool, len(all)), resting: true, without: a.without}
		if s.created = run.Object.CreationTimestamp.Time; s.created.IsZero() {
			s.created = run.Now
		}
		*state = s
	}
	created := s.created
	var names []string
	for i, one := range all {
		if s.at[i].IsZero() {
			s.at[i] = one.following(created, a.followed)
		} else if s.resting && s.at[i].Before(run.Now) {
			s.at[i] = one.following(created, run.Now)
		}
		if s.due[i] = s.due[i] || !s.at[i].After(run.Now); s.due[i] {
			names = append(names, one.Name)
		}
	}
	if s.resting = false; names != nil {
		text, _ := json.Marshal(names)
		run.Sections = append(run.Sections, abi.Section{Name: "alarms", Value: text})
		run.Reasons = append(run.Reasons, abi.ReasonTimer)
	}
}

// following returns the first time of the grid that is not before from.
func (a alarm) following(created, from time.Time) time.Time {
	at := created.Add(a.First)
	for at.Before(from) {
		at = at.Add(a.Every)
	}
	return at
}

func (a *alarms) deadline(state any, decision *outcome.Decision, now time.Time) (next time.Duration) {
	s := state.(*alarmState)
	if decision != nil && decision.IsStalled() {
		s.resting = true
	}
	if s.resting || s.without != a.without {
		return 0
	}
	for i, one := range s.all {
		if decision != nil && decision.EndedWell() && s.due[i] {
			s.due[i] = false
			if s.at[i] = one.following(s.at[i].Add(-one.First), now.Add(1)); !one.Grid {
				s.at[i] = now.Add(one.Every)
			}
		}
		if s.due[i] {
			continue
		}
		if wait := max(s.at[i].Sub(now), 1); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// alarmed returns the names that a request has of alarms that are due.
func alarmed(q *abi.Request) (names []string) {
	if text := q.Section("alarms"); text != nil {
		if err := json.Unmarshal(text, &names); err != nil {
			panic(err)
		}
	}
	return names
}
