package outcome_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

func TestTargetConditionFollowsThePrecedence(t *testing.T) {
	for _, c := range []struct {
		name     string
		in       outcome.Input
		want     string
		messages string
	}{
		{"the guest's Ready stands beside a good summary", returns(given(), 0, "success", "SourceVerified=True/Verified", "Ready=True/Stored: stored"), "Ready=True/Stored", "stored"},
		{"the guest's Ready=True does not stand against a bad summary", returns(given(), 0, "success", "SourceVerified=False/BadKey: unknown key", "Ready=True/Stored"), "Ready=False/BadKey", "unknown key"},
		{"the guest may set Ready=False on success", returns(given(), 0, "success", "Ready=False/Degraded: half of it"), "Ready=False/Degraded", "half of it"},
		{"the guest's Ready=False does not replace a bad summary", returns(given(), 0, "success", "SourceVerified=False/BadKey: unknown key", "Ready=False/Mine"), "Ready=False/BadKey", "unknown key"},
		{"a guest cannot remove the target", returns(given("Ready=True/Old"), 0, "success", "Ready="), "Ready=True/Succeeded", "the wanted state is reached"},
		{"the guest's Ready=False replaces Progressing", returns(given(), 0, "requeue", "Ready=False/Cloning: 40 %"), "Ready=False/Cloning", "40 %"},
		{"the failure replaces the guest's Ready=False", fails(returns(given(), 1, "", "Ready=False/Cloning"), "CloneFailed", "refused"), "Ready=False/CloneFailed", "refused"},
		{"the guest's Ready stands on empty", returns(given("Ready=True/Old"), 0, "empty", "Ready=False/Suspended: by hand"), "Ready=False/Suspended", "by hand"},
		{
			"True with negative polarity ranks before False with positive",
			returns(given("SourceVerified=False/BadKey"), 0, "success", "ArtifactOutdated=True/NewRevision: v2"),
			"Ready=False/NewRevision", "v2",
		},
		{
			"True with positive polarity ranks before False with negative",
			returns(given("FetchFailed=False/Fetched"), 0, "success", "SourceVerified=True/Verified: by key"),
			"Ready=True/Verified", "by key",
		},
		{"Unknown ranks last", returns(given("SourceVerified=Unknown/NoKey"), 0, "success", "FetchFailed=False/Fetched: v1"), "Ready=True/Fetched", "v1"},
		{"Unknown alone makes the target Unknown", given("SourceVerified=Unknown/NoKey: none"), "Ready=Unknown/NoKey", "none"},
		{
			"among equals the first of the manifest decides",
			returns(given(), 0, "success", "ArtifactOutdated=True/NewRevision", "FetchFailed=True/Timeout: 10 s"),
			"Ready=False/Timeout", "10 s",
		},
		{
			"the target is not summarized from itself",
			func() outcome.Input {
				in := given("Ready=False/Old")
				in.Controller = &abi.Controller{Conditions: abi.Conditions{Summarized: []string{"Ready"}}}
				return in
			}(),
			"Ready=True/Succeeded", "the wanted state is reached",
		},
		{
			"a summarized condition of another writer counts",
			func() outcome.Input {
				in := given("QuotaExceeded=True/TooMany: 5 of 5")
				in.Controller = &abi.Controller{Conditions: abi.Conditions{Summarized: []string{"QuotaExceeded"}, NegativePolarity: []string{"QuotaExceeded"}}}
				return in
			}(),
			"Ready=False/TooMany", "5 of 5",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := outcome.Decide(c.in)
			ready := find(t, d, "Ready")
			equal(t, "target", ready.Type+"="+ready.Status+"/"+ready.Reason, c.want)
			equal(t, "message", ready.Message, c.messages)
		})
	}
}

func TestLastTransitionTimeChangesOnlyWithStatus(t *testing.T) {
	in := returns(given("Ready=True/Succeeded", "SourceVerified=False/BadKey"), 0, "success", "SourceVerified=True/Verified")
	in.Now = now.Add(900 * time.Millisecond).In(time.FixedZone("elsewhere", 3600))
	d := outcome.Decide(in)
	ready, verified := find(t, d, "Ready"), find(t, d, "SourceVerified")
	equal(t, "same status, other reason", ready.LastTransitionTime, before)
	equal(t, "other status", verified.LastTransitionTime, abi.TimeOf(now))
	equal(t, "generation of the object that the guest was given", ready.ObservedGeneration, 2)
}

func TestRepeatedSuccessSetsTheSameConditions(t *testing.T) {
	in := returns(given(), 0, "success", "SourceVerified=True/Verified: by key")
	first := outcome.Decide(in)
	in.Object.Conditions = first.Set
	in.Now = now.Add(time.Hour)
	second := outcome.Decide(in)
	if !slices.Equal(first.Set, second.Set) {
		t.Errorf("the second run sets\n%v\nafter\n%v", second.Set, first.Set)
	}
}

func TestOwnedConditionsGetTheObservedGeneration(t *testing.T) {
	in := returns(given("SourceVerified=True/Verified: by key", "Foreign=True/Other"), 0, "success")
	d := outcome.Decide(in)
	c := find(t, d, "SourceVerified")
	equal(t, "generation", c.ObservedGeneration, 2)
	equal(t, "transition", c.LastTransitionTime, before)
	equal(t, "message", c.Message, "by key")
	if strings.Contains(show(d), "Foreign") {
		t.Errorf("changes another writer's condition: %s", show(d))
	}
	retry := outcome.Decide(fails(returns(in, 1, ""), "CloneFailed", "refused"))
	if strings.Contains(show(retry), "SourceVerified") {
		t.Errorf("a run that does not observe the generation sets an owned condition: %s", show(retry))
	}
}

func TestConditionWithEmptyStatusIsRemoved(t *testing.T) {
	d := outcome.Decide(returns(given("FetchFailed=True/Timeout"), 0, "success", "FetchFailed="))
	equal(t, "status", show(d), "Ready=True/Succeeded -FetchFailed -Stalled -Reconciling")
}

func TestControllerWithAnotherTargetDoesNotWriteStalledAndReconciling(t *testing.T) {
	in := fails(returns(given("Ready=True/Succeeded", "Stalled=True/Theirs"), 1, ""), "QuotaFailed", "no answer")
	in.Controller = &abi.Controller{Conditions: abi.Conditions{Target: "QuotaReady"}}
	d := outcome.Decide(in)
	equal(t, "failure", show(d), "QuotaReady=False/QuotaFailed")

	d = outcome.Decide(returns(in, 0, "success"))
	equal(t, "success", show(d), "QuotaReady=True/Succeeded")
	equal(t, "observedGeneration", observed(d), 0)

	in = returns(given("QuotaReady=True/Succeeded", "Reconciling=True/Theirs"), 0, "empty")
	in.Controller = &abi.Controller{Conditions: abi.Conditions{Target: "QuotaReady"}}
	equal(t, "empty", show(outcome.Decide(in)), "QuotaReady=True/Succeeded")
}

func TestInvalidResultFailsWithClassABI(t *testing.T) {
	noResult := given()
	noResult.Result = nil
	for _, c := range []struct {
		in   outcome.Input
		want string
	}{
		{noResult, "returned without a result"},
		{returns(given(), 7, ""), "unknown code 7"},
		{returns(given(), -1, ""), "unknown code -1"},
		{returns(given(), 0, ""), `result: "" is not allowed`},
		{returns(given(), 0, "success", "Foreign=True/Mine"), `condition "Foreign": not owned`},
		{returns(given(), 0, "success", "FetchFailed=Maybe/Timeout"), `status "Maybe"`},
		{returns(given(), 0, "success", "FetchFailed=True/no spaces"), `reason "no spaces"`},
		{returns(given(), 0, "success", "FetchFailed=True/Ends:"), `reason "Ends:"`},
		{returns(given(), 0, "success", "FetchFailed=True/"), `reason ""`},
	} {
		d := outcome.Decide(c.in)
		equal(t, "class of "+c.want, d.Class, abi.ClassABI)
		equal(t, "status of "+c.want, show(d), "Reconciling=True/ProgressingWithRetry Ready=False/ContractBroken -Stalled")
		if !strings.Contains(d.Message, c.want) {
			t.Errorf("message %q does not contain %q", d.Message, c.want)
		}
		if d.Intents || d.GuestStatus || d.KeepMemo {
			t.Errorf("an invalid result is honoured (%s): %+v", c.want, d)
		}
	}
}

// TestResultOfAPrimaryWithoutStatusHasNone: with for.metadataOnly the host does not keep
// the status that a patch or a condition would be part of.
func TestResultOfAPrimaryWithoutStatusHasNone(t *testing.T) {
	of := func(result abi.Result) outcome.Input {
		in := given()
		in.Controller = &abi.Controller{For: abi.Followed{Selector: abi.Selector{MetadataOnly: true}}}
		result.Result, in.Result = abi.OutcomeSuccess, &result
		return in
	}
	for want, in := range map[string]outcome.Input{
		"status: cannot be set beside for.metadataOnly":     of(abi.Result{Status: []byte(`{"a":1}`)}),
		"conditions: cannot be set beside for.metadataOnly": of(abi.Result{Conditions: []abi.Condition{{Type: "Ready"}}}),
	} {
		if d := outcome.Decide(in); d.Class != abi.ClassABI || d.Reason != "ContractBroken" || !strings.Contains(d.Message, want) || d.Intents {
			t.Errorf("%s: %+v", want, d)
		}
	}
	if d := outcome.Decide(of(abi.Result{Patch: []byte(`{"spec":{"a":1}}`)})); d.Class != abi.ClassNone || !d.Intents {
		t.Errorf("a patch of the spec: %+v", d)
	}
}

func TestFieldsAreHonouredWithEveryCode(t *testing.T) {
	for code := range abi.Code(4) {
		d := outcome.Decide(returns(given(), code, "success"))
		if !d.Intents || !d.GuestStatus || !d.KeepMemo {
			t.Errorf("code %d: %+v", code, d)
		}
	}
}

func TestFailedEffectDropsGuestStatusAndKeepsMemo(t *testing.T) {
	in := returns(given(), 0, "success")
	in.Effect = &abi.EffectFailure{Verb: "apply", Ref: abi.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "b"}, Message: "quota exceeded"}
	d := outcome.Decide(in)
	equal(t, "message", d.Message, "apply v1 Pod a/b: quota exceeded")
	equal(t, "class", d.Class, abi.ClassRetry)
	if d.Intents || d.GuestStatus || !d.KeepMemo {
		t.Errorf("wants no intents, no guest status, the memo: %+v", d)
	}
	in.Effect.Class = abi.ClassStalled
	equal(t, "class stalled", show(outcome.Decide(in)), "Stalled=True/Stalled Ready=False/Stalled -Reconciling")
}

func TestTriesCountRetriesAndRequeues(t *testing.T) {
	at := func(in outcome.Input) outcome.Input { in.Tries = outcome.Tries{Attempt: 3, Requeues: 2}; return in }
	timeout := at(given())
	timeout.Result, timeout.Fault = nil, &outcome.Fault{Class: abi.ClassTimeout}
	for _, c := range []struct {
		name string
		in   outcome.Input
		want outcome.Tries
	}{
		{"success resets", at(given()), outcome.Tries{}},
		{"retry", at(returns(given(), 1, "")), outcome.Tries{Attempt: 4, Requeues: 2}},
		{"host failure", timeout, outcome.Tries{Attempt: 4, Requeues: 2}},
		{"conflict (409)", at(conflict()), outcome.Tries{Attempt: 3, Requeues: 2, Conflicts: 1}},
		{"requeue is no failure, and counts for itself", at(returns(given(), 0, "requeue")), outcome.Tries{Requeues: 3}},
		{"empty resets", at(returns(given(), 0, "empty")), outcome.Tries{}},
		{"stalled resets", at(returns(given(), 2, "")), outcome.Tries{}},
		{"waiting resets", at(returns(given(), 3, "")), outcome.Tries{}},
		{"retry at the largest int", func() outcome.Input {
			in := returns(given(), 1, "")
			in.Tries.Attempt = math.MaxInt
			return in
		}(), outcome.Tries{Attempt: math.MaxInt}},
	} {
		equal(t, c.name, outcome.Decide(c.in).Tries, c.want)
	}
}

// Failures that are far apart are not one long failure: the twelfth of them used
// to be repeated after 15 minutes.
func TestFailuresBetweenOtherEndsBackOffAsTheFirst(t *testing.T) {
	for name, between := range map[string]outcome.Input{
		"success": given(), "empty": returns(given(), 0, "empty"),
		"stalled": returns(given(), 2, ""), "waiting": returns(given(), 3, ""),
	} {
		var tries outcome.Tries
		for range 12 {
			failure := returns(given(), 1, "")
			failure.Tries = tries
			d := outcome.Decide(failure)
			equal(t, "backoff after "+name, d.Next.After, 500*time.Millisecond)
			between.Tries = d.Tries
			tries = outcome.Decide(between).Tries
		}
	}
}

func TestBackoffGrowsWithAttemptsAndRequeues(t *testing.T) {
	in := returns(given(), 1, "")
	in.Tries = outcome.Tries{Attempt: 1, Requeues: 2}
	equal(t, "after three tries", outcome.Decide(in).Next.After, 4*time.Second)
	in.Tries = outcome.Tries{Attempt: math.MaxInt, Requeues: math.MaxInt}
	equal(t, "after very many", outcome.Decide(in).Next.After, 15*time.Minute)
	in.Effect, in.Conflict = &abi.EffectFailure{Reason: "Conflict"}, true
	equal(t, "a conflict is repeated without a longer delay", outcome.Decide(in).Next.After, 500*time.Millisecond)
}

func TestLargeRequeueAfterDoesNotOverflow(t *testing.T) {
	in := given()
	in.Result.RequeueAfter = math.MaxInt64
	if after := outcome.Decide(in).Next.After; after < 100*365*24*time.Hour {
		t.Errorf("requeueAfter overflows to %v", after)
	}
}

func TestFinalizerIsRemovedOnlyAfterSuccess(t *testing.T) {
	deleting := func(in outcome.Input) outcome.Input { in.Object.Deleting = true; return in }
	in := deleting(returns(given("Ready=True/Succeeded", "Reconciling=True/Progressing"), 0, "success", "FetchFailed=False/Gone"))
	in.Result.RequeueAfter = 1000
	d := outcome.Decide(in)
	equal(t, "finalizer removed", d.RemoveFinalizer, true)
	equal(t, "only the conditions of the guest", show(d), "FetchFailed=False/Gone")
	equal(t, "observedGeneration", observed(d), 0)
	equal(t, "next", d.Next, outcome.Next{})

	for name, in := range map[string]outcome.Input{
		"requeue": returns(given(), 0, "requeue"), "empty": returns(given(), 0, "empty"), "retry": returns(given(), 1, ""),
		"stalled": returns(given(), 2, ""), "waiting": returns(given(), 3, ""),
	} {
		equal(t, "finalizer removed after "+name, outcome.Decide(deleting(in)).RemoveFinalizer, false)
	}
	failed := deleting(given())
	failed.Effect = &abi.EffectFailure{Verb: "delete"}
	equal(t, "finalizer removed after a failed effect", outcome.Decide(failed).RemoveFinalizer, false)
}

func TestFailureEmitsOneEvent(t *testing.T) {
	if e := outcome.Decide(given()).Event; e != nil {
		t.Errorf("success emits %v", e)
	}
	e := outcome.Decide(fails(returns(given(), 2, ""), "InvalidURL", "no scheme")).Event
	equal(t, "stalled", *e, abi.Event{Type: "Warning", Reason: "InvalidURL", Message: "no scheme"})
	e = outcome.Decide(fails(returns(given(), 3, ""), "DependencyNotReady", strings.Repeat("é", 2000)+" why")).Event
	equal(t, "waiting is normal", e.Type, "Normal")
	if len(e.Message) > 1024 || !strings.Contains(e.Message, "é...é") || !strings.HasSuffix(e.Message, " why") {
		t.Errorf("message of %d bytes, ends with %q", len(e.Message), e.Message[len(e.Message)-8:])
	}
}

func TestDelayDoublesUpToFifteenMinutes(t *testing.T) {
	want := []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second, 512 * time.Second, 15 * time.Minute, 15 * time.Minute,
	}
	for tries, d := range want {
		equal(t, "delay", outcome.Delay(abi.Retry{}, tries, 0), d)
	}
	equal(t, "jitter takes up to a fifth off", outcome.Delay(abi.Retry{}, 0, 0.5), 450*time.Millisecond)
}

func TestNothingIsRemovedFromAnObjectThatOthersHold(t *testing.T) {
	in := returns(given(), 0, "success")
	in.Object.Deleting, in.Result.RequeueAfter = true, 5000
	held := outcome.Decide(in)
	in.Object.Unheld = true
	unheld := outcome.Decide(in)
	if !held.RemoveFinalizer || unheld.RemoveFinalizer {
		t.Errorf("the finalizer is removed: %t if it is there, else %t", held.RemoveFinalizer, unheld.RemoveFinalizer)
	}
	equal(t, "conditions", show(unheld), "Ready=True/Succeeded -Stalled -Reconciling")
}

func TestAnObjectThatIsBeingDeletedRunsAgainOnlyIfTheGuestAsksForIt(t *testing.T) {
	for _, c := range []struct {
		name         string
		unheld       bool
		requeueAfter int64
		want         outcome.Next
	}{
		{"others hold it, and a time is asked for", true, 5000, outcome.Next{Kind: outcome.After, After: 5 * time.Second, Reason: abi.ReasonRequeue}},
		{"others hold it, and there is an interval", true, 0, outcome.Next{}},
		{"its cleanup succeeded", false, 5000, outcome.Next{}},
	} {
		in := returns(given(), 0, "success")
		in.Object.Deleting, in.Object.Unheld, in.Result.RequeueAfter, in.Controller.Interval = true, c.unheld, c.requeueAfter, 60_000
		equal(t, c.name, outcome.Decide(in).Next, c.want)
	}
}
