package outcome_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
// A repeated run is no failure, so that the delays for failures do not hold for it.
func TestARepeatedRunDoesNotWaitForTheControllersDelay(t *testing.T) {
	in := conflict()
	in.Controller.Retry = abi.Retry{Initial: 3_600_000}
	if next := outcome.Decide(in).Next; next.After > outcome.MinDelay {
		t.Errorf("repeated after %s", next.After)
	}
}

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

// withRetry returns a run that ended with code 1, of a controller with this policy.
func withRetry(policy abi.Retry, failure abi.Failure) outcome.Input {
	in := returns(given(), abi.CodeRetry, "")
	in.Result.Error = &failure
	in.Controller = &abi.Controller{Conditions: gitRepository, Retry: policy}
	return in
}

func TestBackoffIsTheControllers(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		policy abi.Retry
		want   []time.Duration // after 0, 1, 2, 3 and very many tries
	}{
		{abi.Retry{}, []time.Duration{500 * ms, s, 2 * s, 4 * s, 15 * time.Minute}},
		{abi.Retry{Initial: 1000}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 15 * time.Minute}},
		{abi.Retry{Factor: 150}, []time.Duration{500 * ms, 750 * ms, 1125 * ms, 1687500 * time.Microsecond, 15 * time.Minute}},
		{abi.Retry{Factor: 100}, []time.Duration{500 * ms, 500 * ms, 500 * ms, 500 * ms, 500 * ms}},
		{abi.Retry{Factor: 10_000, Cap: 60_000}, []time.Duration{500 * ms, 50 * s, 60 * s, 60 * s, 60 * s}},
		{abi.Retry{Cap: 200}, []time.Duration{200 * ms, 200 * ms, 200 * ms, 200 * ms, 200 * ms}},
		{abi.Retry{Initial: 1, Cap: 1}, []time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}},
		{abi.Retry{Initial: 3_600_000}, []time.Duration{time.Hour, time.Hour, time.Hour, time.Hour, time.Hour}},
	} {
		for i, tries := range []int{0, 1, 2, 3, math.MaxInt} {
			in := withRetry(c.policy, abi.Failure{})
			in.Tries.Attempt = tries
			equal(t, fmt.Sprintf("%+v after %d tries", c.policy, tries), outcome.Decide(in).Next.After, c.want[i])
		}
	}
	equal(t, "jitter", outcome.Delay(abi.Retry{Jitter: 100}, 2, 0.75), 500*ms)
	equal(t, "jitter never goes below the floor", outcome.Delay(abi.Retry{Jitter: 100}, 0, 0.999), 100*ms)
}

// For any policy that a manifest can have, a delay is between 100 ms and the
// cap, and does not shrink from one try to the next.
func TestBackoffOfAnyControllerIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 3_000_000), rapid.Just(int64(3_153_600_000_000)))
		policy := abi.Retry{
			Initial: duration.Draw(t, "initial"), Cap: duration.Draw(t, "cap"),
			Factor: rapid.OneOf(rapid.Just(0), rapid.IntRange(100, 10_000)).Draw(t, "factor"),
			Jitter: rapid.IntRange(0, 100).Draw(t, "jitter"),
		}
		tries := rapid.OneOf(rapid.IntRange(-1, 40), rapid.Just(math.MaxInt-1)).Draw(t, "tries")
		jitter := rapid.Float64Range(0, 0.999).Draw(t, "chance")
		d, next := outcome.Delay(policy, tries, jitter), outcome.Delay(policy, tries+1, jitter)
		limit := max(15*time.Minute, time.Duration(policy.Initial)*time.Millisecond)
		if policy.Cap > 0 {
			limit = max(time.Duration(policy.Cap)*time.Millisecond, 100*time.Millisecond)
		}
		if d < 100*time.Millisecond || d > limit || next < d {
			t.Fatalf("%v, then %v, of at most %v", d, next, limit)
		}
	})
}

func TestNoRunIsRepeatedSoonerThanIn100ms(t *testing.T) {
	interval := given()
	interval.Controller = &abi.Controller{Interval: 1}
	requeueAfter := given()
	requeueAfter.Result.RequeueAfter = 99
	waiting := returns(given(), abi.CodeWaiting, "")
	waiting.Result.Error = &abi.Failure{After: 1}
	for name, in := range map[string]outcome.Input{
		"interval": interval, "requeueAfter": requeueAfter, "waiting": waiting,
		"after an error": withRetry(abi.Retry{}, abi.Failure{After: 1}),
	} {
		equal(t, name, outcome.Decide(in).Next.After, 100*time.Millisecond)
	}
	requeueAfter.Result.RequeueAfter = 101
	equal(t, "more is as it was asked for", outcome.Decide(requeueAfter).Next.After, 101*time.Millisecond)
}

func TestErrorNamesWhenItIsTriedAgain(t *testing.T) {
	in := withRetry(abi.Retry{}, abi.Failure{Reason: "NoQuota", After: 90_000})
	in.Tries.Attempt, in.Jitter = 12, 0.9
	d := outcome.Decide(in)
	// A backoff, so that neither a status event nor a resync shortens it.
	equal(t, "next", d.Next, outcome.Next{Kind: outcome.Backoff, After: 90 * time.Second, Reason: abi.ReasonRetry})
	equal(t, "attempt", d.Tries.Attempt, 13)
	equal(t, "conditions", show(d), "Reconciling=True/ProgressingWithRetry Ready=False/NoQuota -Stalled")

	in.Tries, in.Jitter, in.Code = outcome.Tries{}, 0, abi.CodeStalled
	equal(t, "stalled", outcome.Decide(in).Next, outcome.Next{})
}

func TestTerminalErrorIsNotTriedAgain(t *testing.T) {
	for _, code := range []abi.Code{abi.CodeRetry, abi.CodeStalled, abi.CodeWaiting} {
		in := withRetry(abi.Retry{}, abi.Failure{Reason: "NoQuota", After: 1000, Terminal: true})
		in.Code, in.Tries = code, outcome.Tries{Attempt: 3}
		d := outcome.Decide(in)
		equal(t, "next", d.Next, outcome.Next{})
		equal(t, "class", d.Class, abi.ClassStalled)
		equal(t, "tries", d.Tries, outcome.Tries{})
		equal(t, "conditions", show(d), "Stalled=True/NoQuota Ready=False/NoQuota -Reconciling")
	}
	in := withRetry(abi.Retry{}, abi.Failure{Terminal: true})
	in.Code, in.Result.Result = abi.CodeOK, abi.OutcomeSuccess
	equal(t, "an error beside success", outcome.Decide(in).Class, abi.ClassNone)
}

// A write that the API server refuses while watches go on ends without a signal.
func TestFailuresOfTheAPIServerAreRepeatedEachMinute(t *testing.T) {
	for _, c := range []struct {
		outage bool
		policy abi.Retry
		want   time.Duration
	}{
		{true, abi.Retry{}, time.Minute},
		{false, abi.Retry{}, 15 * time.Minute},
		{true, abi.Retry{Cap: 5000}, 5 * time.Second},
		{true, abi.Retry{Initial: 120_000, Cap: 900_000}, 2 * time.Minute},
	} {
		in := withRetry(c.policy, abi.Failure{})
		in.Effect, in.Outage, in.Tries = &abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "InternalError"}, c.outage, outcome.Tries{Attempt: 20, Blameless: 15}
		for jitter, least := range map[float64]time.Duration{0: c.want, 0.999: c.want * 4 / 5} {
			in.Jitter = jitter
			if after := outcome.Decide(in).Next.After; after > c.want || after < least {
				t.Errorf("outage %v, %+v: after %s, want up to %s", c.outage, c.policy, after, c.want)
			}
		}
	}
}

func TestLastAttemptIsStalled(t *testing.T) {
	var tries outcome.Tries
	decide := func(in outcome.Input) outcome.Decision {
		in.Tries = tries
		d := outcome.Decide(in)
		tries = d.Tries
		return d
	}
	failure := withRetry(abi.Retry{Attempts: 3}, abi.Failure{Reason: "CloneFailed", Message: "refused"})
	unreachable := failure
	unreachable.Effect, unreachable.Outage = &abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "Unavailable"}, true
	hostFailed := failure
	hostFailed.Fault = &outcome.Fault{Message: "no memory"}
	panicked := failure
	panicked.Fault = &outcome.Fault{Class: abi.ClassPanic}
	for range 2 {
		equal(t, "next", decide(failure).Next.Kind, outcome.Backoff)
		// These say nothing about the object, and use up no attempt.
		for range 7 {
			equal(t, "next", decide(unreachable).Next.Kind, outcome.Backoff)
			equal(t, "next", decide(hostFailed).Next.Kind, outcome.Backoff)
			conflicting := conflict()
			conflicting.Controller = failure.Controller
			equal(t, "next", decide(conflicting).Next.Kind, outcome.Backoff)
		}
	}
	d := decide(failure)
	equal(t, "the third", d.Next, outcome.Next{})
	equal(t, "class", d.Class, abi.ClassRetry)
	equal(t, "conditions", show(d), "Stalled=True/CloneFailed Ready=False/CloneFailed -Reconciling")
	equal(t, "message", find(t, d, "Stalled").Message, "refused (not tried again after 3 attempts)")
	equal(t, "observedGeneration", observed(d), 2)
	equal(t, "event", d.Event.Type, abi.EventWarning)
	equal(t, "a trigger leads to one run", show(decide(failure)), show(d))
	equal(t, "of any failure", show(decide(panicked)), "Stalled=True/Panic Ready=False/Panic -Reconciling")
	tries = tries.Reset()
	equal(t, "after a change of the object", decide(failure).Next.After, 500*time.Millisecond)
	decide(returns(given(), 0, "empty"))
	decide(failure)
	equal(t, "attempts are counted in a row", decide(failure).Next.Kind, outcome.Backoff)
	equal(t, "the only attempt", decide(withRetry(abi.Retry{Attempts: 1}, abi.Failure{})).Next, outcome.Next{})
}

func TestAttemptsMayEndInTheCap(t *testing.T) {
	for _, factor := range []int{100, 200} {
		policy := abi.Retry{Initial: 1000, Factor: factor, Cap: 60_000, Attempts: 2, Then: abi.ThenCap}
		in := withRetry(policy, abi.Failure{After: 5000})
		equal(t, "the first", outcome.Decide(in).Next.After, 5*time.Second)
		for attempt := range 3 {
			in.Tries.Attempt = attempt + 1
			d := outcome.Decide(in)
			equal(t, "then", d.Next, outcome.Next{Kind: outcome.Backoff, After: time.Minute, Reason: abi.ReasonRetry})
			equal(t, "conditions", show(d), "Reconciling=True/ProgressingWithRetry Ready=False/Failed -Stalled")
		}
	}
}
