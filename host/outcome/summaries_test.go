package outcome_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// several is gitRepository with two further targets: Fetched is about the
// source, and Stored depends on it and on what the document lists for each
// target, Reconciling and Stalled.
var several = abi.Conditions{
	Owned:            []string{"SourceVerified", "FetchFailed", "ArtifactOutdated"},
	Summarized:       []string{"Stored"},
	NegativePolarity: []string{},
	Summaries: []abi.Summary{
		{Target: "Fetched", Summarized: []string{"FetchFailed", "SourceVerified"}, NegativePolarity: []string{"FetchFailed"}},
		{Target: "Stored", Summarized: []string{"Fetched", "ArtifactOutdated", "Stalled", "Reconciling"}, NegativePolarity: []string{"ArtifactOutdated", "Stalled", "Reconciling"}},
	},
}

func withSummaries(in outcome.Input) outcome.Input {
	in.Controller = &abi.Controller{Conditions: several}
	return in
}

func TestEachTargetHasItsSummary(t *testing.T) {
	for _, c := range []struct {
		name     string
		in       outcome.Input
		want     string
		observed int64
	}{
		{
			"without a condition all are True on success",
			given(), "Fetched=True/Succeeded Stored=True/Succeeded Ready=True/Succeeded -Stalled -Reconciling", 2,
		},
		{
			"a bad condition decides its target and those that depend on it",
			returns(given(), 0, "success", "FetchFailed=True/Timeout"),
			"FetchFailed=True/Timeout Fetched=False/Timeout Stored=False/Timeout Ready=False/Timeout -Stalled -Reconciling", 2,
		},
		{
			"a bad condition leaves the targets that do not depend on it",
			returns(given(), 0, "success", "SourceVerified=True/Verified", "ArtifactOutdated=True/NewRevision"),
			"SourceVerified=True/Verified ArtifactOutdated=True/NewRevision Fetched=True/Verified Stored=False/NewRevision Ready=False/NewRevision -Stalled -Reconciling", 2,
		},
		{
			"a failed run concerns the targets that list Reconciling",
			fails(returns(given(), 1, "", "SourceVerified=True/Verified"), "DiskFull", "no space"),
			"SourceVerified=True/Verified Reconciling=True/ProgressingWithRetry Fetched=True/Verified Stored=False/DiskFull Ready=False/DiskFull -Stalled", 0,
		},
		{
			"a stalled run concerns the targets that list Stalled",
			fails(returns(given("Fetched=True/Verified", "SourceVerified=True/Verified"), 2, ""), "InvalidURL", "no scheme"),
			"Stalled=True/InvalidURL Fetched=True/Verified SourceVerified=True/Verified Stored=False/InvalidURL Ready=False/InvalidURL -Reconciling", 2,
		},
		{
			"a waiting run concerns the targets that list Reconciling",
			fails(returns(given("SourceVerified=True/Verified"), 3, ""), "DependencyNotReady", "waiting for infra"),
			"Reconciling=True/DependencyNotReady Fetched=True/Verified Stored=False/DependencyNotReady Ready=False/DependencyNotReady -Stalled", 0,
		},
		{
			"the guest's claim stands beside a good summary",
			returns(given(), 0, "success", "SourceVerified=True/Verified", "Fetched=True/Cloned"),
			"SourceVerified=True/Verified Fetched=True/Cloned Stored=True/Cloned Ready=True/Cloned -Stalled -Reconciling", 2,
		},
		{
			"the guest's claim does not stand against a bad summary",
			returns(given(), 0, "success", "FetchFailed=True/Timeout", "Fetched=True/Cloned"),
			"FetchFailed=True/Timeout Fetched=False/Timeout Stored=False/Timeout Ready=False/Timeout -Stalled -Reconciling", 2,
		},
		{
			"a guest cannot remove a target",
			returns(given("Fetched=False/Timeout", "Stored=False/Timeout"), 0, "success", "Fetched="),
			"Fetched=True/Succeeded Stored=True/Succeeded Ready=True/Succeeded -Stalled -Reconciling", 2,
		},
		{
			"a guest cannot remove a target by an empty run",
			returns(given("Fetched=False/Old", "Stored=False/Old"), 0, "empty", "Fetched="),
			"Fetched=False/Old Stored=False/Old Ready=False/Old -Stalled -Reconciling", 2,
		},
		{
			"on empty targets without a summary stay, seen at this generation",
			returns(given("Fetched=False/Old", "Stored=False/Old", "Ready=False/Old"), 0, "empty"),
			"Fetched=False/Old Stored=False/Old Ready=False/Old -Stalled -Reconciling", 2,
		},
		{
			"a target that nothing has determined is Unknown",
			returns(given(), 0, "empty"),
			"Fetched=Unknown/Undetermined Stored=Unknown/Undetermined Ready=Unknown/Undetermined -Stalled -Reconciling", 2,
		},
		{
			"a run that observes nothing leaves a target whose summary is the same",
			returns(given("SourceVerified=True/Verified", "Fetched=True/Verified"), 0, "requeue"),
			"Reconciling=True/Progressing Stored=False/Progressing Ready=False/Progressing -Stalled", 0,
		},
		{
			"a run that observes nothing writes a summary that has changed",
			returns(given("SourceVerified=True/Verified", "Fetched=False/Timeout", "Stored=False/Progressing: the wanted state is not reached yet"), 0, "requeue"),
			"Reconciling=True/Progressing Fetched=True/Verified Stored=False/Progressing Ready=False/Progressing -Stalled", 0,
		},
		{
			"a run that observes nothing writes a summary with another reason",
			returns(given("SourceVerified=True/Verified", "Fetched=True/Cloned"), 0, "requeue"),
			"Reconciling=True/Progressing Fetched=True/Verified Stored=False/Progressing Ready=False/Progressing -Stalled", 0,
		},
		{
			"a run that observes nothing writes a summary with another message",
			returns(given("SourceVerified=True/Verified", "Fetched=True/Verified: by key"), 0, "requeue"),
			"Reconciling=True/Progressing Fetched=True/Verified Stored=False/Progressing Ready=False/Progressing -Stalled", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := outcome.Decide(withSummaries(c.in))
			equal(t, "status", show(d), c.want)
			equal(t, "observedGeneration", observed(d), c.observed)
		})
	}
}

func TestFurtherTargetsBelongToTheController(t *testing.T) {
	claim := withSummaries(returns(given(), 0, "success", "Stored=False/Mine"))
	equal(t, "class", outcome.Decide(claim).Class, abi.ClassNone)
	equal(t, "condition", find(t, outcome.Decide(claim), "Stored").Reason, "Mine")

	failed := claim
	failed.Effect = &abi.EffectFailure{Verb: "apply", Reason: "Forbidden", Message: "no"}
	equal(t, "after a failed effect the claim is not written", find(t, outcome.Decide(failed), "Stored").Reason, "Forbidden")

	deleting := claim
	deleting.Object.Deleting = true
	equal(t, "after the cleanup only what the guest set is written", show(outcome.Decide(deleting)), "Stored=False/Mine")

	claim.Controller = &abi.Controller{Conditions: gitRepository}
	equal(t, "another controller's target", outcome.Decide(claim).Class, abi.ClassABI)
}

func TestFurtherTargetsOfAControllerWithAnotherTarget(t *testing.T) {
	in := fails(returns(given("Ready=True/Succeeded", "Stalled=True/Theirs"), 1, ""), "QuotaFailed", "no answer")
	in.Controller = &abi.Controller{Conditions: abi.Conditions{
		Target:    "QuotaReady",
		Summaries: []abi.Summary{{Target: "QuotaRead", Summarized: []string{"Stalled", "Reconciling"}}},
	}}
	equal(t, "failure", show(outcome.Decide(in)), "QuotaRead=False/QuotaFailed QuotaReady=False/QuotaFailed")
	equal(t, "success", show(outcome.Decide(returns(in, 0, "success"))), "QuotaRead=True/Succeeded QuotaReady=True/Succeeded")
}

// drawSummaries replaces the conditions of a controller by any with summaries
// that a manifest may have.
func drawSummaries(t *rapid.T) abi.Conditions {
	declared := gitRepository
	sources := slices.Concat(types, []string{"ArtifactOutdated"})
	sources = slices.DeleteFunc(sources, func(s string) bool { return s == "Ready" })
	for _, target := range []string{"Fetched", "Stored"} {
		listed := rapid.SliceOfNDistinct(rapid.SampledFrom(sources), 1, -1, rapid.ID[string]).Draw(t, "summarized by "+target)
		negative := slices.DeleteFunc(slices.Clone(listed), func(string) bool { return rapid.Bool().Draw(t, "positive") })
		declared.Summaries = append(declared.Summaries, abi.Summary{Target: target, Summarized: listed, NegativePolarity: negative})
		sources = append(sources, target)
	}
	return declared
}

// bad reports whether one of the conditions that a summary lists is bad.
func bad(s abi.Summary, conditions map[string]abi.Condition) bool {
	return slices.ContainsFunc(s.Summarized, func(kind string) bool {
		c, exists := conditions[kind]
		negative := kind == "Stalled" || kind == "Reconciling" || slices.Contains(s.NegativePolarity, kind)
		return exists && (c.Status == "True" && negative || c.Status == "False" && !negative)
	})
}

func TestFurtherTargetsFollowFromTheirSummaries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		declared := drawSummaries(t)
		in.Controller = &abi.Controller{Conditions: declared}
		for _, s := range declared.Summaries {
			if rapid.Bool().Draw(t, "exists") {
				in.Object.Conditions = append(in.Object.Conditions, abi.Condition{
					Type: s.Target, Status: rapid.SampledFrom(statuses).Draw(t, "status of "+s.Target), Reason: "Old",
					LastTransitionTime: before, ObservedGeneration: 1,
				})
			}
		}
		d := outcome.Decide(in)
		if len(d.Set) == 0 || d.RemoveFinalizer {
			return
		}
		after := written(in, d)
		for _, s := range declared.Summaries {
			c, exists := after[s.Target]
			switch {
			case !exists:
				t.Fatalf("no %s: %s", s.Target, show(d))
			case bad(s, after) != (c.Status == "False") && c.Reason != "Old":
				t.Fatalf("%s=%s/%s summarizes %+v", c.Type, c.Status, c.Reason, after)
			case bad(s, after) && c.Status != "False":
				t.Fatalf("%s=%s/%s against a bad condition in %+v", c.Type, c.Status, c.Reason, after)
			case d.ObservedGeneration != nil && c.ObservedGeneration != in.Object.Generation:
				t.Fatalf("%s has generation %d after a run that observed the object", c.Type, c.ObservedGeneration)
			}
		}
		if ready := after["Ready"]; ready.Status == "True" && d.ObservedGeneration == nil {
			t.Fatalf("Ready without observedGeneration: %s", show(d))
		}
	})
}

func TestSummariesDecidedAgainAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs(t)
		in.Controller = &abi.Controller{Conditions: drawSummaries(t)}
		first := outcome.Decide(in)
		if first.RemoveFinalizer {
			return
		}
		again := in
		again.Object.Conditions = nil
		for _, c := range written(in, first) {
			again.Object.Conditions = append(again.Object.Conditions, c)
		}
		after := written(in, first)
		for kind, c := range written(again, outcome.Decide(again)) {
			if c != after[kind] {
				t.Fatalf("the second run writes %+v over %+v", c, after[kind])
			}
		}
	})
}
