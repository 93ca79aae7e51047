package devloop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/runner"
)

func TestIsReadyIsAboutThePresentGeneration(t *testing.T) {
	s := newSampleState()
	isReady := func(o *object) bool {
		s.ready[o.GroupVersionKind().GroupKind()] = true
		return s.isReady(&sampleObject{latest: o})
	}
	o := objectOf(t, managerYAML+"status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}\n")
	if !isReady(o) {
		t.Error("not Ready")
	}
	o.SetGeneration(2)
	if isReady(o) {
		t.Error("Ready of an older generation")
	}
	if isReady(objectOf(t, managerYAML)) {
		t.Error("Ready without a condition")
	}
}

func TestAnObjectWithoutConditionsOfTheHostIsReadyAfterASuccess(t *testing.T) {
	s, _, _ := sampleSession(t)
	o := s.sample.objects["PodManager ns/web"]
	o.latest = o.wanted.DeepCopy()
	clear(s.sample.ready)
	run := events.RunEnded{Run: events.Run{Controller: "managers", Object: "ns/web"}}
	ready := func(result outcome.Metric, class abi.Class) bool {
		run.Result, run.Failure.Class = string(result), class
		s.sample.noteRun(run)
		return s.sample.isReady(o)
	}
	if ready(outcome.MetricError, abi.ClassRetry) || ready(outcome.MetricRequeue, abi.ClassNone) || ready(outcome.MetricRequeueAfter, abi.ClassWaiting) {
		t.Error("Ready without a success")
	}
	if !ready(outcome.MetricSuccess, abi.ClassNone) || !ready(outcome.MetricRequeueAfter, abi.ClassNone) {
		t.Error("not Ready after a success")
	}
	o.latest.Object["status"] = map[string]any{"observedGeneration": o.latest.GetGeneration() - 1}
	if s.sample.isReady(o) {
		t.Error("Ready of an older generation")
	}
}

// sampleSession is a session with one applied object of the sample, "PodManager
// ns/web", and a plugin for its kind.
func sampleSession(t *testing.T) (s *session, out *strings.Builder, ended func() error) {
	t.Helper()
	out = &strings.Builder{}
	s = &session{out: &printer{out: out}, sample: newSampleState(), watch: newObjectWatch(nil)}
	ctx, fail := context.WithCancelCause(t.Context())
	s.fail = fail
	wanted := objectOf(t, strings.Replace(managerYAML, "name: web", "namespace: ns, name: web", 1))
	s.sample.objects[named(wanted)] = &sampleObject{wanted: wanted, applied: time.Now()}
	s.sample.primaries["managers"] = wanted.GroupVersionKind().GroupKind()
	s.sample.ready[wanted.GroupVersionKind().GroupKind()] = true
	return s, out, func() error { return context.Cause(ctx) }
}

// becomesReady is the change that makes the object of sampleSession Ready.
func becomesReady(s *session) *objectChange {
	o := s.sample.objects["PodManager ns/web"].wanted.DeepCopy()
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	return &objectChange{new: o}
}

func TestSessionWithOnceEndsWhenTheSampleIsReady(t *testing.T) {
	run := events.RunEnded{Run: events.Run{Plugin: "p", Controller: "managers", Object: "ns/web", Revision: 1}}
	for name, reverse := range map[string]bool{"run first": false, "Ready first": true} {
		t.Run(name, func(t *testing.T) {
			s, out, ended := sampleSession(t)
			s.Once = true
			steps := []func(){
				func() { s.onEvent(t.Context(), time.Now(), run) },
				func() { s.onSampleChange(time.Now(), becomesReady(s)) },
			}
			if reverse {
				steps[0], steps[1] = steps[1], steps[0]
			}
			other := run
			other.Object = "ns/other"
			s.onEvent(t.Context(), time.Now(), other)
			steps[0]()
			if ended() != nil {
				t.Fatal("it ended after the first of the two")
			}
			steps[1]()
			if ended() != errDone { //nolint:errorlint // the cause itself
				t.Errorf("it ended with %v\n%s", ended(), out)
			}
			if got := strings.Count(out.String(), "ready      PodManager ns/web, "); got != 1 {
				t.Errorf("Ready is shown %d times:\n%s", got, out)
			}
		})
	}
}

func TestDescribeNotReady(t *testing.T) {
	manager := objectOf(t, managerYAML)
	stalled := objectOf(t, managerYAML+"status: {conditions: [{type: Stalled, status: 'True', reason: NoImage, message: name one}, {type: Ready, status: 'False'}]}\n")
	for want, o := range map[string]*sampleObject{
		"PodManager web was not seen yet":                                                   {wanted: manager},
		"PodManager web has no condition: it was not reconciled":                            {wanted: manager, latest: manager},
		"PodManager web has no condition: its last run has not succeeded":                   {wanted: manager, latest: manager, ran: true},
		"PodManager web has Ready=False\nPodManager web has Stalled=True NoImage: name one": {wanted: manager, latest: stalled},
	} {
		if got := strings.Join(describeNotReady(o), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	refused := runner.PluginStatus{Status: catalog.Status{Name: "p", State: catalog.Failed, FailedStep: "verify", LastError: "no export"}}
	if got, want := describePlugin(refused), "plugin p is failed: verify: no export"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
