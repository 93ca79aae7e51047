package outcome_test

import (
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// grouped adds groups to a run, as "name" or "name=Condition".
func grouped(in outcome.Input, groups ...string) outcome.Input {
	for _, g := range groups {
		name, condition, _ := strings.Cut(g, "=")
		in.Result.Groups = append(in.Result.Groups, abi.Group{Name: name, Condition: condition})
	}
	return in
}

// failing adds the failure of a group.
func failing(in outcome.Input, group string, class abi.Class, reason string) outcome.Input {
	in.Groups = append(in.Groups, outcome.GroupFailure{EffectFailure: abi.EffectFailure{
		Verb: "apply", Ref: abi.Ref{APIVersion: "v1", Kind: "Pod", Name: group}, Class: class, Reason: reason, Message: "exceeded quota", Group: group,
	}, Conflict: reason == "Conflict"})
	return in
}

func TestAGroupThatFailsFailsTheRunAndLeavesTheRestOfTheResult(t *testing.T) {
	ok := func() outcome.Input {
		return grouped(returns(given("Ready=True/Succeeded"), 0, "success", "SourceVerified=True/Verified", "Ready=True/Mine"), "pods=FetchFailed", "services=SourceVerified")
	}
	const (
		retried = "SourceVerified=True/Verified FetchFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/Forbidden -Stalled"
		stalled = "SourceVerified=True/Verified FetchFailed=True/NamespaceTerminating Stalled=True/NamespaceTerminating Ready=False/NamespaceTerminating -Reconciling"
	)
	for _, c := range []struct {
		name   string
		in     outcome.Input
		status string
		class  abi.Class
		next   outcome.Next
	}{
		{"a quota", failing(ok(), "pods", abi.ClassRetry, "Forbidden"), retried, abi.ClassRetry, outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry}},
		{"a missing right stays denied", failing(ok(), "pods", abi.ClassDenied, "Forbidden"), retried, abi.ClassDenied, outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry}},
		{"a namespace that is being deleted", failing(ok(), "pods", abi.ClassStalled, "NamespaceTerminating"), stalled, abi.ClassStalled, outcome.Next{}},
		{
			"the first of two decides", failing(failing(ok(), "pods", abi.ClassRetry, "Forbidden"), "services", abi.ClassStalled, "Second"),
			"SourceVerified=False/Second FetchFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/Forbidden -Stalled", abi.ClassRetry,
			outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := outcome.Decide(c.in)
			equal(t, "status", show(d), c.status)
			equal(t, "message", find(t, d, "FetchFailed").Message, "apply v1 Pod pods: exceeded quota")
			equal(t, "class", d.Class, c.class)
			equal(t, "next", d.Next, c.next)
			equal(t, "Event", d.Event.Message, "apply v1 Pod pods: exceeded quota")
			equal(t, "ended well", d.EndedWell(), false)
			if d.Intents || !d.GuestStatus || !d.KeepMemo {
				t.Errorf("wants the guest's status, the memo, and no more intents: %+v", d)
			}
			c.in.Object.Deleting = true
			equal(t, "finalizer removed", outcome.Decide(c.in).RemoveFinalizer, false)
		})
	}
}

func TestTheConditionOfAGroup(t *testing.T) {
	for _, c := range []struct{ name, condition, guest, failed, want string }{
		{"is good by its polarity", "SourceVerified", "", "", "SourceVerified=True/Succeeded"},
		{"is good by its negative polarity", "FetchFailed", "", "", "FetchFailed=False/Succeeded"},
		{"is bad by its polarity", "SourceVerified", "", "g", "SourceVerified=False/Forbidden"},
		{"is bad by its negative polarity", "FetchFailed", "", "g", "FetchFailed=True/Forbidden"},
		{"is the guest's if the group has not failed", "FetchFailed", "FetchFailed=True/Mine", "", "FetchFailed=True/Mine"},
		{"is removed by the guest if the group has not failed", "FetchFailed", "FetchFailed=", "", "-FetchFailed"},
		{"is bad whatever the guest has set", "FetchFailed", "FetchFailed=False/Mine", "g", "FetchFailed=True/Forbidden"},
		{"is not that of another group", "SourceVerified", "", "other", "SourceVerified=True/Succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := returns(given(), 0, "success")
			if c.guest != "" {
				in = returns(given(), 0, "success", c.guest)
			}
			in = grouped(in, "g="+c.condition, "other")
			if c.failed != "" {
				in = failing(in, c.failed, abi.ClassRetry, "Forbidden")
			}
			if got := " " + show(outcome.Decide(in)) + " "; !strings.Contains(got, " "+c.want+" ") {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTwoGroupsMayHaveOneCondition(t *testing.T) {
	both := grouped(given(), "a=SourceVerified", "b=SourceVerified")
	equal(t, "none fails", find(t, outcome.Decide(both), "SourceVerified").Status, "True")
	d := outcome.Decide(failing(both, "b", abi.ClassRetry, "Forbidden"))
	equal(t, "the second fails", find(t, d, "SourceVerified").Reason, "Forbidden")
}

func TestAnEffectThatEndsTheRunTellsOfTheGroupsThatFailedBefore(t *testing.T) {
	in := failing(grouped(returns(given(), 0, "success", "IncludeUnavailable=False/Mine"), "pods=FetchFailed", "later=SourceVerified"), "pods", abi.ClassRetry, "Forbidden")
	in.Effect = &abi.EffectFailure{Verb: "delete", Class: abi.ClassDenied, Reason: "NotControlled", Message: "not yours"}
	d := outcome.Decide(in)
	equal(t, "status", show(d), "FetchFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/Forbidden -Stalled")
	equal(t, "reason", d.Reason, "NotControlled")
	if d.GuestStatus || d.Intents || !d.KeepMemo {
		t.Errorf("the status of the guest is written although the run ended early: %+v", d)
	}
}

func TestAConflictInAGroupIsNoAttempt(t *testing.T) {
	in := failing(grouped(returns(given("Ready=True/Succeeded"), 0, "success", "SourceVerified=True/Verified"), "pods=FetchFailed"), "pods", abi.ClassRetry, "Conflict")
	d := outcome.Decide(in)
	if !d.Uncounted || !d.GuestStatus || !d.KeepMemo || d.Intents || d.Tries.Attempt != 0 {
		t.Errorf("wants another run soon, and the status of the guest: %+v", d)
	}
	equal(t, "the conditions stay", show(d), "")
	in.Uncounted = true
	equal(t, "status of a run that did not take place", outcome.Decide(in).GuestStatus, false)
	in.Uncounted, in.Tries.Conflicts = false, 4
	d = outcome.Decide(in)
	equal(t, "the fifth", find(t, d, "FetchFailed").Status, "True")
	equal(t, "attempts", d.Tries.Attempt, 1)

	in.Tries.Conflicts = 0
	d = outcome.Decide(failing(in, "services", abi.ClassRetry, "Forbidden"))
	equal(t, "another failure decides", d.Reason, "Forbidden")
	equal(t, "the condition of the group with the conflict", find(t, d, "FetchFailed").Reason, "Conflict")
}

func TestTheNextRunAfterAFailedGroupIsAtTheEarlierOfBackoffAndRequeueAfter(t *testing.T) {
	const long = 10 // failed runs: the backoff is 8 minutes and a half
	asks := func(code abi.Code, o abi.Outcome) outcome.Input {
		in := grouped(returns(given(), code, o), "pods")
		in.Result.RequeueAfter, in.Tries.Attempt = 3000, long
		return in
	}
	quota := func(in outcome.Input) outcome.Input { return failing(in, "pods", abi.ClassRetry, "Forbidden") }
	backoff := outcome.Next{Kind: outcome.Backoff, After: 512 * time.Second, Reason: abi.ReasonRetry}
	early := outcome.Next{Kind: outcome.Backoff, After: 3 * time.Second, Reason: abi.ReasonRequeue}
	for _, c := range []struct {
		name   string
		in     outcome.Input
		change func(*outcome.Input)
		want   outcome.Next
	}{
		{"an earlier time", quota(asks(0, "success")), func(*outcome.Input) {}, early},
		{"a later time", quota(asks(0, "success")), func(in *outcome.Input) { in.Result.RequeueAfter = 600_000 }, backoff},
		{"no time", quota(asks(0, "success")), func(in *outcome.Input) { in.Result.RequeueAfter = 0 }, backoff},
		{"the interval does not count", quota(asks(0, "success")), func(in *outcome.Input) { in.Result.RequeueAfter, in.Controller.Interval = 0, 3000 }, backoff},
		{"too short a time", quota(asks(0, "success")), func(in *outcome.Input) { in.Result.RequeueAfter = 1 }, outcome.Next{Kind: outcome.Backoff, After: 100 * time.Millisecond, Reason: abi.ReasonRequeue}},
		{"the attempts are used up, and it is tried on", quota(asks(0, "success")), func(in *outcome.Input) {
			in.Controller.Retry = abi.Retry{Attempts: 1, Then: abi.ThenCap}
		}, early},
		{"the attempts are used up", quota(asks(0, "success")), func(in *outcome.Input) { in.Controller.Retry = abi.Retry{Attempts: 1} }, outcome.Next{}},
		{"a result that succeeded in nothing", quota(asks(0, "requeue")), func(*outcome.Input) {}, backoff},
		{"a run that failed itself", quota(asks(1, "success")), func(*outcome.Input) {}, backoff},
		{"an effect of no group failed, too", quota(asks(0, "success")), func(in *outcome.Input) {
			in.Effect = &abi.EffectFailure{Verb: "patch", Class: abi.ClassRetry, Reason: "Invalid"}
		}, backoff},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change(&c.in)
			d := outcome.Decide(c.in)
			equal(t, "next", d.Next, c.want)
			equal(t, "attempts", d.Tries.Attempt, long+1)
			equal(t, "ended well", d.EndedWell(), false)
		})
	}
	waits := failing(asks(0, "success"), "pods", abi.ClassWaiting, "Replacing")
	equal(t, "next beside a group that waits", outcome.Decide(waits).Next, outcome.Next{Kind: outcome.After, After: 3 * time.Second, Reason: abi.ReasonRequeue})
	waits.Result.RequeueAfter = 600_000
	equal(t, "next beside a group that waits, at a later time", outcome.Decide(waits).Next.After, 30*time.Second)
	stalled := failing(asks(0, "success"), "pods", abi.ClassStalled, "NamespaceTerminating")
	equal(t, "next after a group for which only a change helps", outcome.Decide(stalled).Next, outcome.Next{})
}

func TestGroupsOfAResultMustBeAllowed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*outcome.Input)
		want   string
	}{
		{"a condition of somebody else", func(in *outcome.Input) { in.Result.Groups[0].Condition = "Foreign" }, `"Foreign" of "pods" is not owned by the controller: list it in Conditions.Owned`},
		{"the target", func(in *outcome.Input) { in.Result.Groups[0].Condition = "Ready" }, "follows from how the run ends"},
		{"one of the host", func(in *outcome.Input) { in.Result.Groups[0].Condition = "Stalled" }, "follows from how the run ends"},
		{"the target of a summary", func(in *outcome.Input) {
			in.Controller.Conditions.Summaries = []abi.Summary{{Target: "FetchFailed", Summarized: []string{"SourceVerified"}}}
		}, "follows from how the run ends"},
		{"a status that is the guest's", func(in *outcome.Input) {
			in.Controller = &abi.Controller{StatusOwner: abi.StatusOwnerGuest}
		}, "cannot be set beside StatusOwner"},
		{"a status that is not known", func(in *outcome.Input) {
			in.Controller = &abi.Controller{For: abi.Followed{Selector: abi.Selector{MetadataOnly: true}}}
		}, "cannot be set beside for.metadataOnly"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := grouped(given(), "pods=FetchFailed")
			c.change(&in)
			if d := outcome.Decide(in); d.Class != abi.ClassABI || !strings.Contains(d.Message, c.want) || d.Intents || d.GuestStatus {
				t.Errorf("%+v", d)
			}
		})
	}
	in := grouped(given(), "pods")
	in.Controller = &abi.Controller{StatusOwner: abi.StatusOwnerGuest}
	equal(t, "a group without a condition", outcome.Decide(in).Class, abi.ClassNone)
}
