package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// newGrouped returns a fixture whose guest applies one object in each of these groups.
func newGrouped(t *testing.T, groups ...string) *fixture {
	f := newFixture(t)
	f.groups = map[string]*effect.Failure{}
	f.c.Hooks = []Hooks{ledger()}
	f.put(aWidget)
	f.swap(func(r *Revision) {
		r.Controller.Conditions = abi.Conditions{Owned: []string{"PodsFailed"}, NegativePolarity: []string{"PodsFailed"}}
	})
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		result := &abi.Result{Status: []byte(`{"n":1}`), Memo: []byte(`"m"`), Sections: progress(`"p"`), Groups: []abi.Group{{Name: "pods", Condition: "PodsFailed"}}}
		for i, g := range groups {
			result.Apply = append(result.Apply, abi.Apply{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g%d"}}`, i), Group: g})
		}
		return returns(result)
	}
	f.log = nil
	return f
}

// refusal is the failure of an intent.
func refusal(class abi.Class, reason string) *effect.Failure {
	return &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbApply, Ref: gadget.Ref("ns", reason), Class: class, Reason: reason, Message: "no"}}
}

func TestAGroupThatFailsLeavesTheStatusToTheGuest(t *testing.T) {
	f := newGrouped(t, "pods", "", "services")
	f.shares = true
	f.groups["pods"], f.groups["services"] = refusal(abi.ClassDenied, "Forbidden"), refusal(abi.ClassRetry, "Second")
	f.run()
	f.expect(
		"apply",
		`status PodsFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch={"n":1}`,
		"commit reads", "event Warning Forbidden", "metric error denied",
	)
	if next := f.done[0]; next.Kind != outcome.Backoff {
		t.Errorf("the next run: %+v", next)
	}
	clear(f.groups)
	f.run()
	failures := f.request.Previous.Failures
	if len(failures) != 2 || failures[0].Group != "pods" || failures[0].Reason != "Forbidden" || failures[1].Group != "services" || f.request.Previous.Class != abi.ClassDenied {
		t.Errorf("the next run knows of %+v", f.request.Previous)
	}
	if string(f.request.Memo) != `"m"` || f.request.Attempt != 1 {
		t.Errorf("memo %s, attempt %d", f.request.Memo, f.request.Attempt)
	}
	f.expect(
		"apply", "apply", "apply", "release all=false",
		`status PodsFailed=False/Succeeded Ready=True/Succeeded patch={"n":1}`,
		"commit reads", "metric success ",
	)
}

func TestAGroupThatFailsKeepsTheFinalizer(t *testing.T) {
	f := newGrouped(t, "pods")
	f.groups["pods"] = refusal(abi.ClassRetry, "Forbidden")
	f.put(string(mergePatch(t, []byte(aWidget), `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	f.run()
	if log := strings.Join(f.log, "\n"); strings.Contains(log, "remove finalizer") || !strings.Contains(log, "PodsFailed=True/Forbidden") {
		t.Errorf("what happened:\n%s", log)
	}
	clear(f.groups)
	f.run()
	if !slices.Contains(f.log, "remove finalizer") {
		t.Errorf("what happened:\n%s", strings.Join(f.log, "\n"))
	}
}

func TestARunWithAGroupThatFailsHasNotEndedWell(t *testing.T) {
	f := newGrouped(t, "pods")
	f.groups["pods"] = refusal(abi.ClassRetry, "Forbidden")
	f.run()
	clear(f.groups)
	f.run()
	if e := entryOf(f.request); e.Type != "first" || string(e.Progress) != "null" {
		t.Errorf("the entry after a group that failed: %+v", e)
	}
	f.run()
	if e := entryOf(f.request); e.Type == "first" {
		t.Errorf("the entry after a run that ended well: %+v", e)
	}
}

func TestAPostponementPerformsTheGroupsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newGrouped(t, "pods", "")
		f.groups["pods"] = refusal(abi.ClassRetry, "Forbidden")
		f.groups["pods"].Uncertain = true
		f.fail["apply"] = refusal(abi.ClassRetry, "TooManyRequests")
		f.fail["apply"].Later = time.Second
		f.run()
		f.expect("apply", "commit reads", "metric requeue_after ")
		delete(f.fail, "apply")
		time.Sleep(time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.expect(
			"refresh Gadget", "apply",
			`status PodsFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch={"n":1}`,
			"commit reads", "event Warning Forbidden", "metric error retry",
		)
		if failures := f.c.keys[testKey].previous.Failures; len(failures) != 1 {
			t.Errorf("the failures are %+v", failures)
		}
	})
}

func TestAnIntentOfNoGroupThatFailsDecidesTheRun(t *testing.T) {
	f := newGrouped(t, "pods", "")
	f.groups["pods"], f.fail["apply"] = refusal(abi.ClassRetry, "Forbidden"), refusal(abi.ClassDenied, "NotDeclared")
	f.run()
	f.expect(
		"apply",
		"status PodsFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/NotDeclared patch=",
		"commit reads", "event Warning NotDeclared", "metric error denied",
	)
	if failures := f.c.keys[testKey].previous.Failures; len(failures) != 2 || failures[0].Group != "pods" || failures[1].Group != "" {
		t.Errorf("the failures are %+v", failures)
	}
}

func TestAConflictInAGroupDecidesOnlyAlone(t *testing.T) {
	f := newGrouped(t, "stale", "pods")
	f.groups["stale"] = refusal(abi.ClassRetry, "Conflict")
	f.groups["stale"].Conflict = true
	f.run()
	f.expect("apply", `status  patch={"n":1}`, "commit reads", "metric requeue retry")
	f.groups["pods"] = refusal(abi.ClassRetry, "Forbidden")
	f.run()
	f.expect(
		`status PodsFailed=True/Forbidden Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch={"n":1}`,
		"commit reads", "event Warning Forbidden", "metric error retry",
	)
	if failures := f.c.keys[testKey].previous.Failures; len(failures) != 2 || failures[0].Group != "stale" {
		t.Errorf("the failures, in order, are %+v", failures)
	}
}

func TestALimitOfBytesInAGroupIsNoFaultOfTheObject(t *testing.T) {
	f := newGrouped(t, "pods")
	f.groups["pods"] = refusal(abi.ClassRetry, "StoredLimit")
	f.groups["pods"].Full = true
	f.run()
	if !slices.ContainsFunc(f.log, func(line string) bool { return strings.HasSuffix(line, `patch={"n":1} full`) }) {
		t.Errorf("the status may not be beyond the limit: %q", f.log)
	}
	if tries := f.c.keys[testKey].tries; tries.Blameless != 1 {
		t.Errorf("the attempts: %+v", tries)
	}
}

func TestAConditionOfAGroupThatTheControllerDoesNotOwnIsRefused(t *testing.T) {
	f := newGrouped(t, "pods")
	f.swap(func(r *Revision) { r.Controller.Conditions = abi.Conditions{} })
	f.log = nil
	f.run()
	f.expect(
		"status Reconciling=True/ProgressingWithRetry Ready=False/ContractBroken patch=",
		"commit reads", "event Warning ContractBroken", "metric error abi",
	)
}

// What is kept of failures until the next run is bounded, and does not bound what is decided by them.
func TestVeryManyFailuresOfGroupsAreNotAllKept(t *testing.T) {
	var groups []string
	for i := range abi.MaxIntents {
		groups = append(groups, fmt.Sprint("g", i))
	}
	f := newGrouped(t, append(groups[1:], "pods")...)
	for _, g := range append(groups, "pods") {
		f.groups[g] = refusal(abi.ClassRetry, "Forbidden")
		f.groups[g].Message = strings.Repeat("x", abi.MaxErrorMessage)
	}
	f.run()
	size := 0
	for _, failure := range f.c.keys[testKey].previous.Failures {
		size += sizeOf(&failure)
	}
	if size == 0 || size > abi.MaxGroupFailures {
		t.Errorf("%d bytes are kept", size)
	}
	if !slices.ContainsFunc(f.log, func(line string) bool { return strings.Contains(line, "PodsFailed=True/Forbidden") }) {
		t.Errorf("the last failure is not in its condition: %q", f.log)
	}
}
