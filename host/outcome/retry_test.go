package outcome_test

import (
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// conflict returns a run whose apply met a newer version of its object.
func conflict() outcome.Input {
	in := given("Ready=True/Succeeded")
	in.Effect = &abi.EffectFailure{Verb: "apply", Class: abi.ClassRetry, Reason: "Conflict", Message: "the object has been modified"}
	in.Conflict = true
	return in
}

func TestConflictsInARowAreToldFromTheFifthOn(t *testing.T) {
	var tries outcome.Tries
	decide := func(in outcome.Input) outcome.Decision {
		in.Tries = tries
		d := outcome.Decide(in)
		tries = d.Tries
		return d
	}
	for range 4 {
		d := decide(conflict())
		equal(t, "a single conflict is repeated", d.Uncounted, true)
		equal(t, "conditions", show(d), "")
		equal(t, "event", d.Event, nil)
		equal(t, "attempt", tries.Attempt, 0)
		equal(t, "backoff", d.Next.After, 500*time.Millisecond)
	}
	for i := range 6 {
		d := decide(conflict())
		equal(t, "counted", d.Uncounted, false)
		equal(t, "conditions", show(d), "Reconciling=True/ProgressingWithRetry Ready=False/Conflict -Stalled")
		equal(t, "attempt", tries.Attempt, i+1)
		equal(t, "backoff", d.Next.After, 500*time.Millisecond<<i)
		// The message must not change from run to run: each would be one more
		// write of the status, and one more conflict for others.
		equal(t, "message", d.Message, "other writers keep changing what the run writes: apply: the object has been modified")
		if d.Event == nil || d.Event.Type != abi.EventWarning {
			t.Errorf("event %+v", d.Event)
		}
	}
	decide(returns(given(), 1, ""))
	equal(t, "after another end", tries, outcome.Tries{Attempt: 7, Blameless: 6})
	equal(t, "the next conflict is a single one", decide(conflict()).Uncounted, true)
}

// Somebody's change resets the tries, and may be what the next conflict is with.
func TestResetKeepsTheConflictsInARow(t *testing.T) {
	tries := outcome.Tries{Attempt: 3, Requeues: 2, Conflicts: 4, Blameless: 1}.Reset()
	equal(t, "after the reset", tries, outcome.Tries{Conflicts: 4})
}

func TestARunThatDidNotTakePlaceIsNoConflict(t *testing.T) {
	in := given("Ready=True/Succeeded")
	in.Result, in.Fault, in.Uncounted = nil, &outcome.Fault{Message: "not synced"}, true
	in.Tries = outcome.Tries{Attempt: 2, Conflicts: 4}
	for range 20 {
		d := outcome.Decide(in)
		equal(t, "tries", d.Tries, outcome.Tries{Attempt: 2, Conflicts: 4})
		equal(t, "conditions", show(d), "")
		if d.Event != nil || strings.Contains(d.Message, "writers") {
			t.Errorf("told as a conflict: %+v", d)
		}
		in.Tries = d.Tries
	}
}
