package outcome_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// Times of the tests: the object's conditions are from before, the run is now.
var (
	before = abi.Time("2026-11-20T08:00:00Z")
	now    = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
)

// gitRepository is gitRepoReadyConditions of the document, without the host's
// own, which are always there.
var gitRepository = abi.Conditions{
	Target:           "Ready",
	Owned:            []string{"SourceVerified", "FetchFailed", "IncludeUnavailable", "ArtifactOutdated"},
	Summarized:       []string{"IncludeUnavailable", "SourceVerified", "FetchFailed", "ArtifactOutdated"},
	NegativePolarity: []string{"FetchFailed", "IncludeUnavailable", "ArtifactOutdated"},
}

// given returns the input of a run of the GitRepository controller at
// generation 2, of an object with these conditions from generation 1.
func given(conditions ...string) outcome.Input {
	in := outcome.Input{
		Controller: &abi.Controller{Conditions: gitRepository},
		Object:     outcome.Object{Generation: 2},
		Result:     &abi.Result{Result: abi.OutcomeSuccess},
		Now:        now,
	}
	for _, c := range conditions {
		existing := parse(c)
		existing.LastTransitionTime, existing.ObservedGeneration = before, 1
		in.Object.Conditions = append(in.Object.Conditions, existing)
	}
	return in
}

// returns sets what the guest returned.
func returns(in outcome.Input, code abi.Code, o abi.Outcome, conditions ...string) outcome.Input {
	in.Code = code
	in.Result = &abi.Result{Result: o}
	for _, c := range conditions {
		in.Result.Conditions = append(in.Result.Conditions, parse(c))
	}
	return in
}

// fails adds the error that explains a code other than 0.
func fails(in outcome.Input, reason, message string) outcome.Input {
	in.Result.Error = &abi.Failure{Reason: reason, Message: message}
	return in
}

// parse reads "Type=Status/Reason: message"; "Type=" removes.
func parse(text string) (c abi.Condition) {
	text, c.Message, _ = strings.Cut(text, ": ")
	c.Type, text, _ = strings.Cut(text, "=")
	c.Status, c.Reason, _ = strings.Cut(text, "/")
	return c
}

// show lists the changes of a decision to the conditions.
func show(d outcome.Decision) string {
	var out []string
	for _, c := range d.Set {
		out = append(out, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	for _, t := range d.Remove {
		out = append(out, "-"+t)
	}
	return strings.Join(out, " ")
}

// observed returns the observedGeneration that is written, 0 for none.
func observed(d outcome.Decision) int64 {
	if d.ObservedGeneration == nil {
		return 0
	}
	return *d.ObservedGeneration
}

// find returns a condition that the decision sets.
func find(t *testing.T, d outcome.Decision, kind string) abi.Condition {
	t.Helper()
	for _, c := range d.Set {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("the decision does not set %s: %s", kind, show(d))
	return abi.Condition{}
}

const (
	progressing = "Reconciling=True/Progressing: the wanted state is not reached yet"
	wasStalled  = "Stalled=True/InvalidURL: no scheme"
)

// cases are the result table of the design ("design:") and the document
// flux-result-computation ("flux:"). Each row is named by the sentence that it
// tests.
var cases = []struct {
	quote    string
	in       outcome.Input
	status   string // changes of conditions
	observed int64
	next     outcome.Next
	metric   outcome.Metric
	class    abi.Class
}{
	{
		quote:  "flux: When the reconciliation error is nil and the reconciliation was successful, the Reconciling condition can be removed.",
		in:     given(progressing),
		status: "Ready=True/Succeeded -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: Stalled status condition is removed when there is no error",
		in:     given(wasStalled, "Ready=False/InvalidURL: no scheme"),
		status: "Ready=True/Succeeded -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote: "flux: For a reconciler that always reconciles at some particular interval of time, ResultSuccess is ctrl.Result with RequeueAfter value as the requeue interval.",
		in: func() outcome.Input {
			in := given()
			in.Controller = &abi.Controller{Conditions: gitRepository, Interval: 60_000}
			return in
		}(),
		status: "Ready=True/Succeeded -Stalled -Reconciling", observed: 2, metric: "requeue_after",
		next: outcome.Next{Kind: outcome.After, After: time.Minute, Reason: abi.ReasonRequeue},
	},
	{
		quote: "design: success: interval, requeueAfter or await change (the guest's duration takes precedence over the manifest's)",
		in: func() outcome.Input {
			in := given()
			in.Controller = &abi.Controller{Conditions: gitRepository, Interval: 60_000}
			in.Result.RequeueAfter = 1500
			return in
		}(),
		status: "Ready=True/Succeeded -Stalled -Reconciling", observed: 2, metric: "requeue_after",
		next: outcome.Next{Kind: outcome.After, After: 1500 * time.Millisecond, Reason: abi.ReasonRequeue},
	},
	{
		quote:  "flux: However, for a reconciler that reconciles only when there's an event related to the objects it watches, the ResultSuccess is an empty ctrl.Result value",
		in:     given(),
		status: "Ready=True/Succeeded -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: Summarize conditions are the conditions that the target condition depends on.",
		in:     returns(given(), 0, "success", "SourceVerified=True/Verified"),
		status: "SourceVerified=True/Verified Ready=True/Verified -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: NegativePolarity conditions are the conditions in Summarize with negative polarity. (True is bad, also on success)",
		in:     returns(given(), 0, "success", "ArtifactOutdated=True/NewRevision"),
		status: "ArtifactOutdated=True/NewRevision Ready=False/NewRevision -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: If the res value was ResultRequeue, which means we need to retry, Reconciling condition should not be removed.",
		in:     returns(given("Reconciling=True/NewGeneration"), 0, "requeue"),
		status: "Reconciling=True/Progressing Ready=False/Progressing -Stalled", metric: "requeue",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRequeue},
	},
	{
		quote:  "design: requeue: True/Progressing, removed, False, no, backoff (the guest's reason of Reconciling is kept)",
		in:     returns(given(wasStalled), 0, "requeue", "Reconciling=True/Cloning"),
		status: "Reconciling=True/Cloning Ready=False/Cloning -Stalled", metric: "requeue",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRequeue},
	},
	{
		quote:  "flux: If a requeue is requested, the current generation has not been reconciled successfully. (the guest's Ready=True does not stand)",
		in:     returns(given(), 0, "requeue", "Ready=True/Fine"),
		status: "Reconciling=True/Progressing Ready=False/Progressing -Stalled", metric: "requeue",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRequeue},
	},
	{
		quote:  "flux: ResultEmpty doesn't mean that the reconciliation was successful. (Ready unchanged, seen at this generation)",
		in:     returns(given("Ready=False/FetchFailed: timeout"), 0, "empty"),
		status: "Ready=False/FetchFailed -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "design: empty, no error: only if the guest set it (the host's Reconciling is removed)",
		in:     returns(given(progressing, "Ready=False/Progressing"), 0, "empty"),
		status: "Ready=False/Progressing -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: Note that, the Reconciling condition is added by the core operations code, in this section, we only evaluate if it should stay or be removed. (empty, set in this run)",
		in:     returns(given("Ready=True/Succeeded"), 0, "empty", "Reconciling=True/NewRevision"),
		status: "Reconciling=True/NewRevision Ready=False/NewRevision -Stalled", observed: 2, metric: "success",
	},
	{
		quote:  "flux: the Reconciling status remains on the object status across the reconciliation loop runs. (empty, set by the guest in an earlier run)",
		in:     returns(given("Reconciling=True/NewRevision", "Ready=False/NewRevision"), 0, "empty"),
		status: "Reconciling=True/NewRevision Ready=False/NewRevision -Stalled", observed: 2, metric: "success",
	},
	{
		quote:  "design: empty: summary, else unchanged",
		in:     returns(given("Ready=True/Succeeded"), 0, "empty", "FetchFailed=True/Timeout"),
		status: "FetchFailed=True/Timeout Ready=False/Timeout -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: Usually, when using kstatus, the Ready condition is expected to be present. (empty at the first run)",
		in:     returns(given(), 0, "empty"),
		status: "Ready=Unknown/Undetermined -Stalled -Reconciling", observed: 2, metric: "success",
	},
	{
		quote:  "flux: The reconcile resulted in some error, but we are not in stalled state.",
		in:     fails(returns(given(wasStalled, "Ready=False/InvalidURL"), 1, ""), "CloneFailed", "connection refused"),
		status: "Reconciling=True/ProgressingWithRetry Ready=False/CloneFailed -Stalled", metric: "error", class: "retry",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry},
	},
	{
		quote:  "flux: The reconcile resulted in some error (the host's reason replaces the guest's)",
		in:     fails(returns(given(), 1, "", "Reconciling=True/Cloning"), "CloneFailed", "connection refused"),
		status: "Reconciling=True/ProgressingWithRetry Ready=False/CloneFailed -Stalled", metric: "error", class: "retry",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry},
	},
	{
		quote:  "flux: The Ready condition summary depends on the values of other conditions. (a declared condition decides, with its own reason)",
		in:     fails(returns(given(), 1, "", "FetchFailed=True/AuthFailed: 401"), "CloneFailed", "could not clone"),
		status: "FetchFailed=True/AuthFailed Reconciling=True/ProgressingWithRetry Ready=False/AuthFailed -Stalled", metric: "error", class: "retry",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry},
	},
	{
		quote:  "flux: Stalled status condition is added to the object when an Stalling error is encountered with empty result.",
		in:     fails(returns(given(progressing), 2, "empty"), "InvalidURL", "no scheme"),
		status: "Stalled=True/InvalidURL Ready=False/InvalidURL -Reconciling", observed: 2, metric: "error", class: "stalled",
	},
	{
		quote:  "design: code 2 implies empty (whatever the result says beside it)",
		in:     fails(returns(given(), 2, "requeue"), "InvalidURL", "no scheme"),
		status: "Stalled=True/InvalidURL Ready=False/InvalidURL -Reconciling", observed: 2, metric: "error", class: "stalled",
	},
	{
		quote:  "flux: Reconciling and Stalled status conditions are mutually exclusive. (the guest's Reconciling does not stand beside Stalled)",
		in:     fails(returns(given(), 2, "", "Reconciling=True/Cloning"), "InvalidURL", "no scheme"),
		status: "Stalled=True/InvalidURL Ready=False/InvalidURL -Reconciling", observed: 2, metric: "error", class: "stalled",
	},
	{
		quote: "flux: The reconciler needs to wait and retry. Return no error. The result contains the requeue after value.",
		in: func() outcome.Input {
			in := fails(returns(given(wasStalled), 3, ""), "DependencyNotReady", "waiting for infra")
			in.Result.Error.After = 5000
			return in
		}(),
		status: "Reconciling=True/DependencyNotReady Ready=False/DependencyNotReady -Stalled", metric: "requeue_after", class: "waiting",
		next: outcome.Next{Kind: outcome.After, After: 5 * time.Second, Reason: abi.ReasonRequeue},
	},
	{
		quote:  "design: waiting: after (30 s when the guest names none)",
		in:     returns(given(), 3, ""),
		status: "Reconciling=True/Waiting Ready=False/Waiting -Stalled", metric: "requeue_after", class: "waiting",
		next: outcome.Next{Kind: outcome.After, After: 30 * time.Second, Reason: abi.ReasonRequeue},
	},
	{
		quote: "design: retry, host failure: True/ProgressingWithRetry, removed, False/reason, no, backoff",
		in: func() outcome.Input {
			in := given(wasStalled)
			in.Result, in.Fault = nil, &outcome.Fault{Class: abi.ClassPanic, Message: "unreachable"}
			return in
		}(),
		status: "Reconciling=True/ProgressingWithRetry Ready=False/Panic -Stalled", metric: "error", class: "panic",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry, Yields: true},
	},
	{
		quote: "design: When one fails the rest is skipped and the outcome is decided again with that failure: the guest's status and Ready claim are not written, the host's conditions are",
		in: func() outcome.Input {
			in := returns(given(), 0, "success", "Ready=True/Stored", "SourceVerified=True/Verified")
			in.Effect = &abi.EffectFailure{
				Verb: "apply", Ref: abi.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "b"},
				Class: abi.ClassDenied, Reason: "Forbidden", Message: "no",
			}
			return in
		}(),
		status: "Reconciling=True/ProgressingWithRetry Ready=False/Forbidden -Stalled", metric: "error", class: "denied",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry},
	},
	{
		quote: "design: a 409 costs none (the first four in a row, and leaves the conditions as they are)",
		in: func() outcome.Input {
			in := given("Ready=True/Succeeded")
			in.Effect, in.Conflict = &abi.EffectFailure{Verb: "patch", Reason: "Conflict"}, true
			return in
		}(),
		metric: "requeue", class: "retry",
		next: outcome.Next{Kind: outcome.Backoff, After: 500 * time.Millisecond, Reason: abi.ReasonRetry},
	},
}

func TestDecideFollowsTheResultTable(t *testing.T) {
	for _, c := range cases {
		t.Run(c.quote, func(t *testing.T) {
			d := outcome.Decide(c.in)
			equal(t, "status", show(d), c.status)
			equal(t, "observedGeneration", observed(d), c.observed)
			equal(t, "next run", d.Next, c.next)
			equal(t, "metric", d.Metric, c.metric)
			equal(t, "class", d.Class, c.class)
		})
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
