package outcome_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

var (
	types    = []string{"Ready", "Reconciling", "Stalled", "SourceVerified", "FetchFailed", "Foreign"}
	statuses = []string{"True", "False", "Unknown"}
	reasons  = []string{"Succeeded", "Progressing", "ProgressingWithRetry", "Waiting", "Mine"}
)

// inputs draws any input that a host could pass, invalid results among them.
func inputs(t *rapid.T) outcome.Input {
	in := given()
	in.Now = now
	in.Object.Deleting = rapid.Bool().Draw(t, "deleting")
	in.Object.Unheld = in.Object.Deleting && rapid.Bool().Draw(t, "unheld")
	in.Tries = outcome.Tries{Attempt: rapid.Int().Draw(t, "attempt"), Requeues: rapid.Int().Draw(t, "requeues"), Conflicts: rapid.Int().Draw(t, "conflicts")}
	in.Controller.Retry = abi.Retry{
		Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"), Then: rapid.SampledFrom([]abi.Then{"", abi.ThenStalled, abi.ThenCap}).Draw(t, "then"),
	}
	in.Jitter = rapid.Float64Range(0, 0.999).Draw(t, "jitter")
	in.Uncounted = rapid.IntRange(0, 3).Draw(t, "uncounted") == 0
	in.Conflict, in.Outage = rapid.Bool().Draw(t, "conflict"), rapid.Bool().Draw(t, "outage")
	for _, kind := range rapid.SliceOfDistinct(rapid.SampledFrom(types), rapid.ID[string]).Draw(t, "existing") {
		in.Object.Conditions = append(in.Object.Conditions, abi.Condition{
			Type: kind, Status: rapid.SampledFrom(statuses).Draw(t, "status"), Reason: rapid.SampledFrom(reasons).Draw(t, "reason"),
			LastTransitionTime: before, ObservedGeneration: rapid.Int64Range(1, 2).Draw(t, "generation"),
		})
	}
	classes := append(abi.Classes(), abi.ClassNone)
	if rapid.IntRange(0, 5).Draw(t, "fault") == 0 {
		in.Result, in.Fault = nil, &outcome.Fault{Class: rapid.SampledFrom(classes).Draw(t, "class")}
		return in
	}
	in.Code = abi.Code(rapid.IntRange(-1, 4).Draw(t, "code"))
	in.Result.Result = rapid.SampledFrom([]abi.Outcome{"success", "requeue", "empty", ""}).Draw(t, "result")
	if rapid.Bool().Draw(t, "error") {
		in.Result.Error = &abi.Failure{After: rapid.Int64Range(0, 800_000).Draw(t, "after"), Terminal: rapid.Bool().Draw(t, "terminal")}
	}
	in.Result.RequeueAfter = rapid.Int64Range(0, 1<<50).Draw(t, "requeueAfter")
	for range rapid.IntRange(0, 3).Draw(t, "claims") {
		in.Result.Conditions = append(in.Result.Conditions, abi.Condition{
			Type: rapid.SampledFrom(types[:5]).Draw(t, "type"), Status: rapid.SampledFrom(append(statuses, "")).Draw(t, "status"),
			Reason: rapid.SampledFrom(reasons).Draw(t, "reason"),
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "effect") == 0 {
		in.Effect = &abi.EffectFailure{Verb: "apply", Class: rapid.SampledFrom(classes).Draw(t, "effect class")}
	}
	drawGroups(t, &in, classes)
	return in
}

// drawGroups draws groups of intents, of which some have failed. None has if a condition is not
// the controller's: nothing of such a result is performed.
func drawGroups(t *rapid.T, in *outcome.Input, classes []abi.Class) {
	valid := true
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string]).Draw(t, "groups") {
		condition := rapid.SampledFrom(append(types, "")).Draw(t, "condition")
		in.Result.Groups = append(in.Result.Groups, abi.Group{Name: name, Condition: condition})
		valid = valid && (condition == "" || slices.Contains(in.Controller.Conditions.Owned, condition))
		if rapid.Bool().Draw(t, "fails") {
			in.Groups = append(in.Groups, outcome.GroupFailure{
				EffectFailure: abi.EffectFailure{Verb: "apply", Class: rapid.SampledFrom(classes).Draw(t, "group class"), Group: name},
				Conflict:      rapid.Bool().Draw(t, "group conflict"), Full: rapid.Bool().Draw(t, "group full"),
			})
		}
	}
	if !valid {
		in.Groups = nil
	}
}

// written returns the object's conditions after a decision.
func written(in outcome.Input, d outcome.Decision) map[string]abi.Condition {
	after := map[string]abi.Condition{}
	for _, c := range in.Object.Conditions {
		after[c.Type] = c
	}
	for _, kind := range d.Remove {
		delete(after, kind)
	}
	for _, c := range d.Set {
		after[c.Type] = c
	}
	return after
}

func TestDecideIsDeterministicAndDoesNotChangeItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		was, _ := json.Marshal(in)
		first, second := outcome.Decide(in), outcome.Decide(in)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("decides\n%+v\nthen\n%+v", first, second)
		}
		if is, _ := json.Marshal(in); string(is) != string(was) {
			t.Fatalf("changed its input from\n%s\nto\n%s", was, is)
		}
	})
}

// The checks are those of Flux's condition checker.
func TestStatusPassesTheConditionChecksOfFlux(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		d := outcome.Decide(in)
		if len(d.Set) == 0 && len(d.Remove) == 0 || d.RemoveFinalizer {
			return
		}
		after := written(in, d)
		ready, hasReady := after["Ready"]
		_, reconciling := after["Reconciling"]
		_, stalled := after["Stalled"]
		switch {
		case !hasReady:
			t.Fatalf("Ready condition must always be present: %s", show(d))
		case reconciling && stalled:
			t.Fatalf("Only one of Reconciling condition or Stalled condition must be present at a time: %s", show(d))
		case (reconciling || stalled) && ready.Status != "False":
			t.Fatalf("Ready condition must be False when Reconciling or Stalled condition is True: %s", show(d))
		case after["FetchFailed"].Status == "True" && ready.Status == "True":
			t.Fatalf("Negative polarity condition cannot be True when Ready condition is True: %s", show(d))
		case d.ObservedGeneration == nil && ready.Status == "True":
			t.Fatalf("Ready condition must be False when the ObservedGeneration is less than the object Generation: %s", show(d))
		}
		for _, c := range after {
			if ready.Status == "True" && c.Type != "Foreign" && c.ObservedGeneration != in.Object.Generation {
				t.Fatalf("Ready with %s at generation %d: %s", c.Type, c.ObservedGeneration, show(d))
			}
		}
	})
}

// kstatus reads an object as Current when it is observed, neither Reconciling
// nor Stalled, and Ready is not there or True.
func TestOnlySuccessAndEmptyMakeTheObjectCurrent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		in.Object.Deleting = false
		d := outcome.Decide(in)
		if d.ObservedGeneration == nil {
			return
		}
		after := written(in, d)
		ready, hasReady := after["Ready"]
		current := after["Reconciling"].Status != "True" && after["Stalled"].Status != "True" && (!hasReady || ready.Status == "True")
		asked := d.Class == abi.ClassNone && in.Code == abi.CodeOK && in.Result.Result != abi.OutcomeRequeue
		if current && !asked {
			t.Fatalf("%+v makes the object current: %s", in, show(d))
		}
	})
}

func TestConditionsOfOtherWritersAreNeverChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := outcome.Decide(inputs(t))
		foreign := func(c abi.Condition) bool { return c.Type == "Foreign" }
		if slices.ContainsFunc(d.Set, foreign) || slices.Contains(d.Remove, "Foreign") {
			t.Fatalf("changes another writer's condition: %s", show(d))
		}
	})
}

func TestLastTransitionTimeIsKeptExactlyWithTheStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		for _, c := range outcome.Decide(in).Set {
			want := abi.TimeOf(now)
			for _, old := range in.Object.Conditions {
				if old.Type == c.Type && old.Status == c.Status {
					want = before
				}
			}
			if c.LastTransitionTime != want || c.ObservedGeneration != in.Object.Generation || c.Reason == "" {
				t.Fatalf("wrote %+v over %+v", c, in.Object.Conditions)
			}
		}
	})
}

func TestTriesAndNextAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		d := outcome.Decide(in)
		grew := d.Tries.Attempt > max(in.Tries.Attempt, 0) || d.Tries.Requeues > max(in.Tries.Requeues, 0)
		switch {
		case grew && d.Next.Kind != outcome.Backoff && in.Controller.Retry.Attempts == 0:
			t.Fatalf("a try without backoff: %+v", d)
		case grew && d.Next.Kind == outcome.AwaitChange && !slices.ContainsFunc(d.Set, func(c abi.Condition) bool { return c.Type == "Stalled" }):
			t.Fatalf("no further try, and not stalled: %+v", d)
		case d.Next.Kind != outcome.AwaitChange && d.Next.After < 100*time.Millisecond:
			t.Fatalf("repeated after %v", d.Next.After)
		case d.Next.Kind == outcome.AwaitChange && d.Next != (outcome.Next{}):
			t.Fatalf("awaits a change but names a time: %+v", d.Next)
		case d.Next.Kind != outcome.AwaitChange && (d.Next.After <= 0 || d.Next.Reason == ""):
			t.Fatalf("a timed run without time or reason: %+v", d.Next)
		case d.Next.Kind == outcome.Backoff && d.Next.After > 15*time.Minute:
			t.Fatalf("a backoff of %v", d.Next.After)
		case (d.Class == abi.ClassNone) != (d.Message == ""):
			t.Fatalf("class %q with message %q", d.Class, d.Message)
		case d.RemoveFinalizer && !(in.Object.Deleting && !in.Object.Unheld && d.Class == abi.ClassNone):
			t.Fatalf("removes the finalizer: %+v", d)
		}
	})
}

func TestDelayIsMonotoneAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tries := rapid.IntRange(-1, 70).Draw(t, "tries")
		jitter := rapid.Float64Range(0, 0.999)
		d, next := outcome.Delay(abi.Retry{}, tries, jitter.Draw(t, "jitter")), outcome.Delay(abi.Retry{}, tries+1, jitter.Draw(t, "next jitter"))
		if d < 400*time.Millisecond || d > 15*time.Minute {
			t.Fatalf("Delay(%d) = %v", tries, d)
		}
		if tries >= 0 && tries < 9 && next <= d {
			t.Fatalf("Delay(%d) = %v, then %v", tries, d, next)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	in := returns(given("Ready=True/Verified", "SourceVerified=True/Verified"), 0, "success", "SourceVerified=True/Verified")
	b.ReportAllocs()
	for b.Loop() {
		outcome.Decide(in)
	}
}
