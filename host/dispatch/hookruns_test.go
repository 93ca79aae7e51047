package dispatch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// withKnown gives the fixture a capability that writes an annotation of the widget at the end of each run, or with its
// patch.
func (f *fixture) withKnown(change func(h *Hooks)) {
	h := Hooks{
		Name:  "known",
		Begin: func(_ *any, run *BeginningRun) { run.Kept = "known" },
		Patch: func(*PerformedRun) []byte {
			return []byte(`{"metadata":{"annotations":{"` + knownAnnotation + `":"yes"}}}`)
		},
		Performed: func(ctx context.Context, run *PerformedRun) *effect.Failure {
			if run.Primary.Annotations[knownAnnotation] == "yes" {
				return nil
			}
			return run.Annotate(ctx, knownAnnotation, "yes")
		},
	}
	change(&h)
	f.c.Hooks = []Hooks{{}, h}
}

func unchanged(*Hooks) {}

func (f *fixture) known() string { return f.store[widget][testKey].Annotations[knownAnnotation] }

// did reports whether the last run has led to something.
func (f *fixture) did(what string) bool { return slices.Contains(f.log, what) }

var aPatch = []byte(`{"metadata":{"labels":{"a":"b"}}}`)

func TestAHookWritesWhenAllElseWasPerformed(t *testing.T) {
	f := newFixture(t)
	f.withKnown(unchanged)
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: aPatch, Apply: []abi.Apply{{Object: []byte(aGadget)}}})
	f.run()
	status := slices.IndexFunc(f.log, func(what string) bool { return strings.HasPrefix(what, "status") })
	if at := slices.Index(f.log, "annotate"); status < 0 || at < status || f.known() != "yes" {
		t.Errorf("what happened: %q", f.log)
	}
	f.log = nil
	if f.run(); f.did("annotate") {
		t.Errorf("it is written again: %q", f.log)
	}
}

func TestAHookPatchesWithTheResultIfNothingFollowsThatMayFail(t *testing.T) {
	patch := abi.Result{Result: abi.OutcomeSuccess, Patch: aPatch}
	with := func(change func(*abi.Result)) abi.Result {
		out := patch
		change(&out)
		return out
	}
	for name, c := range map[string]struct {
		code    abi.Code
		result  abi.Result
		writes  []abi.Kind
		patched bool
	}{
		"a patch alone":  {0, patch, nil, true},
		"no patch":       {0, abi.Result{Result: abi.OutcomeSuccess}, nil, false},
		"an apply":       {0, with(func(out *abi.Result) { out.Apply = []abi.Apply{{Object: []byte(aGadget)}} }), nil, false},
		"a delete":       {0, with(func(out *abi.Result) { out.Delete = []abi.Delete{{Ref: gadget.Ref("", "g")}} }), nil, false},
		"a status":       {0, with(func(out *abi.Result) { out.Status = []byte(`{"a":1}`) }), nil, false},
		"fields to give": {0, patch, []abi.Kind{gadget}, false},
		"a retry":        {abi.CodeRetry, patch, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.withKnown(func(h *Hooks) { h.Performed = nil })
			f.c.Revision().Controller.Writes = c.writes
			f.put(aWidget)
			f.ends(c.code, c.result)
			if f.run(); (f.known() == "yes") != c.patched || len(c.result.Patch) > 0 != (len(f.patches) == 1) {
				t.Errorf("%d patches, the annotation is %q", len(f.patches), f.known())
			}
		})
	}
}

// The patch that the plugin asks for is not to fail because of a capability.
func TestAPatchThatIsRefusedWithThatOfAHookIsSentWithoutIt(t *testing.T) {
	f := newFixture(t)
	f.withKnown(unchanged)
	f.put(aWidget)
	f.refuses = func(string) *effect.Failure {
		f.refuses = nil
		return &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Invalid"}}
	}
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: aPatch})
	f.run()
	if f.known() != "yes" || len(f.patches) != 1 || !f.did("annotate") || f.c.keys[testKey].left().previous != nil {
		t.Errorf("%d patches, then %q, annotation %q", len(f.patches), f.log, f.known())
	}
}

func TestAFailureOfAHookFailsARunThatHasEndedWell(t *testing.T) {
	for name, c := range map[string]struct {
		code   abi.Code
		reason string // why the run has failed
	}{"success": {0, "Forbidden"}, "a run that has failed": {abi.CodeRetry, "Own"}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.withKnown(unchanged)
			f.put(aWidget)
			f.ends(c.code, abi.Result{Result: abi.OutcomeSuccess, Error: &abi.Failure{Reason: "Own"}})
			f.fail["annotate"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbPatch, Class: abi.ClassRetry, Reason: "Forbidden"}}
			f.run()
			if tries := f.c.keys[testKey].left().tries; tries.Attempt != 1 {
				t.Errorf("the run has ended with %+v", tries)
			}
			last := ""
			for _, what := range f.log {
				if strings.HasPrefix(what, "status") {
					last = what
				}
			}
			if !strings.Contains(last, "Ready=False/"+c.reason) {
				t.Errorf("what happened: %q", f.log)
			}
		})
	}
}

// The guest is not called again, and the hook is.
func TestAHookWhoseWriteIsPostponedIsCalledAgain(t *testing.T) {
	f := newFixture(t)
	f.withKnown(unchanged)
	f.put(aWidget)
	f.fail["annotate"] = &effect.Failure{Later: time.Nanosecond}
	f.run()
	delete(f.fail, "annotate")
	f.c.keys[testKey].notBefore = time.Time{}
	f.request = nil
	if f.run(abi.ReasonRetry); f.request != nil || f.known() != "yes" {
		t.Errorf("the annotation is %q, the guest was called: %+v", f.known(), f.request)
	}
}

// It would claim what is not done yet.
func TestAHookIsNotCalledBeforePostponedEffects(t *testing.T) {
	f := newFixture(t)
	f.withKnown(unchanged)
	f.put(aWidget)
	f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", time.Minute)
	if f.run(); f.did("annotate") {
		t.Errorf("what happened: %q", f.log)
	}
}

func TestTheEventOfAHookIsSentIfThereIsNoOther(t *testing.T) {
	event := func(reason string) func(*Hooks) {
		return func(h *Hooks) {
			h.Performed = func(_ context.Context, run *PerformedRun) *effect.Failure {
				run.Event = &abi.Event{Type: abi.EventWarning, Reason: reason}
				return nil
			}
		}
	}
	f := newFixture(t)
	f.withKnown(event("Known"))
	f.c.Hooks = append(f.c.Hooks, Hooks{
		Begin: func(_ *any, run *BeginningRun) { run.Kept = "second" },
		Performed: func(_ context.Context, run *PerformedRun) *effect.Failure {
			run.Event = &abi.Event{Type: abi.EventWarning, Reason: "Second"}
			return nil
		},
	})
	f.put(aWidget)
	if f.run(); !f.did("event Warning Known") || f.did("event Warning Second") {
		t.Errorf("what happened: %q", f.log)
	}
	f.log, f.reconcile = nil, panics
	if f.run(); !f.did("event Warning Panic") || f.did("event Warning Known") {
		t.Errorf("of a run that has failed: %q", f.log)
	}
}

func TestAHookKnowsHowTheEffectsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		widget string
		code   abi.Code
		fails  string
		want   PerformedRun
	}{
		"success":   {aWidget, 0, "", PerformedRun{EndedWell: true, Performed: true}},
		"a retry":   {aWidget, abi.CodeRetry, "", PerformedRun{Performed: true}},
		"a failure": {aWidget, 0, "apply", PerformedRun{}},
		"a cleanup": {strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1), 0, "", PerformedRun{EndedWell: true, Performed: true, Released: true}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var got PerformedRun
			f.withKnown(func(h *Hooks) {
				h.Performed = func(_ context.Context, run *PerformedRun) *effect.Failure {
					got = *run
					return nil
				}
			})
			f.put(c.widget)
			f.ends(c.code, abi.Result{Result: abi.OutcomeSuccess, Apply: []abi.Apply{{Object: []byte(aGadget)}}})
			f.fail[c.fails] = &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry}}
			f.run()
			if got.EndedWell != c.want.EndedWell || got.Performed != c.want.Performed || got.Released != c.want.Released || got.Returned == nil || got.Given == nil || got.Kept != "known" {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAHookWithoutAPartInTheRunIsNotCalledAtItsEnd(t *testing.T) {
	f := newFixture(t)
	f.withKnown(func(h *Hooks) { h.Begin = func(*any, *BeginningRun) {} })
	f.put(aWidget)
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Patch: aPatch})
	if f.run(); f.known() != "" || f.did("annotate") {
		t.Errorf("what happened: %q, the annotation is %q", f.log, f.known())
	}
}

func TestARunWaitsForAHook(t *testing.T) {
	f := newFixture(t)
	waits, begun := time.Duration(0), 0
	f.c.Hooks = []Hooks{
		{Begin: func(*any, *BeginningRun) { begun++ }},
		{Wait: func(any, *BeginningRun) time.Duration { return waits }, Begin: func(*any, *BeginningRun) { begun++ }},
		{Wait: func(any, *BeginningRun) time.Duration { return waits / 2 }},
	}
	f.put(aWidget)
	waits = time.Second
	if f.run(abi.ReasonPrimary); f.request != nil || begun > 0 || f.done[0].After != time.Second {
		t.Errorf("%d begun, %+v, then %+v", begun, f.request, f.done)
	}
	waits = 0
	if f.run(); f.request == nil || begun != 2 {
		t.Errorf("%d begun, %+v", begun, f.request)
	}
}

// It is about to perform what the plugin has returned already.
func TestAParkedRunWaitsForNoHook(t *testing.T) {
	f := newFixture(t)
	waits, begun := time.Duration(0), 0
	f.c.Hooks = []Hooks{{
		Wait:  func(any, *BeginningRun) time.Duration { return waits },
		Begin: func(*any, *BeginningRun) { begun++ },
	}}
	f.put(aWidget)
	f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", time.Nanosecond)
	f.run(abi.ReasonPrimary)
	delete(f.fail, "apply")
	f.c.keys[testKey].notBefore = time.Time{}
	waits, f.log = time.Second, nil
	if f.run(abi.ReasonRetry); !f.did("apply") || begun != 1 {
		t.Errorf("%d begun, %q", begun, f.log)
	}
}

func TestASectionOfAResultIsCheckedByItsHook(t *testing.T) {
	for name, c := range map[string]struct {
		section abi.Section
		want    string // in the failure; "": none
	}{
		"a good one":              {abi.Section{Name: "ledger", Value: []byte(`1`)}, ""},
		"a bad one":               {abi.Section{Name: "ledger", Value: []byte(`"bad"`)}, "ledger: is bad"},
		"of no capability":        {abi.Section{Name: "lodger", Value: []byte(`1`)}, `unknown field "lodger"`},
		"of one without the hook": {abi.Section{Name: "known", Value: []byte(`1`)}, `unknown field "known"`},
		"of one that has no name": {abi.Section{Name: "", Value: []byte(`1`)}, `unknown field ""`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLedger(t)
			f.c.Hooks = append(f.c.Hooks, Hooks{Name: "known"})
			f.put(aWidget)
			f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Sections: []abi.Section{c.section}})
			f.run()
			failed := strings.Join(f.messages, "\n")
			if (c.want == "") != (f.c.keys[testKey].left().previous == nil) || !strings.Contains(failed, c.want) {
				t.Errorf("%q", failed)
			}
		})
	}
}

func TestAStateIsOfOneObjectAndOneTerm(t *testing.T) {
	f := newLedger(t)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	o := f.put(aWidget)
	changed := func(o *object.Object) (n int) {
		f.c.ChangeState(1, o, func(any) { n++ })
		return n
	}
	if n := changed(o); n != 0 {
		t.Error("there is a state before the first run")
	}
	f.run()
	f.expectEntry("first", "")
	handled := f.given()
	other, err := object.Parse([]byte(strings.Replace(aWidget, "u1", "u2", 1)), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	if n := changed(o); n != 1 || changed(other) != 0 {
		t.Errorf("%d states", n)
	}
	f.c.ChangeState(0, o, func(any) { t.Error("another capability has it") })
	f.run()
	f.expectEntry("changed", handled) // by the host's conditions
	l.lose()
	l.lead()
	f.run()
	f.expectEntry("first", "")
}

// What it was for is of the term before.
func TestARunThatEndsInAnotherTermChangesNoState(t *testing.T) {
	f := newLedger(t)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	f.put(aWidget)
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		l.lose()
		l.lead()
		f.c.lead()
		return succeed(ctx, call)
	}
	f.run()
	f.reconcile = succeed
	f.run()
	f.expectEntry("first", "")
}

func TestARunThatEndsInAnotherTermHasNoDeadline(t *testing.T) {
	f := newFixture(t)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	f.c.Hooks = []Hooks{{
		Begin:    func(state *any, _ *BeginningRun) { *state = new(int) },
		Deadline: func(any, *outcome.Decision, time.Time) time.Duration { return time.Hour },
	}}
	f.put(aWidget)
	f.run()
	if next := f.done[0].Latest; next != time.Hour {
		t.Fatalf("the deadline is %v", next)
	}
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		f.c.mu.Lock()
		f.c.beginTerm(l.Leading())
		f.c.mu.Unlock()
		return succeed(ctx, call)
	}
	f.run()
	if next := f.done[1].Latest; next != 0 {
		t.Errorf("the deadline is %v", next)
	}
}

func TestTheStateOfAnObjectThatIsGoneIsOfOneTerm(t *testing.T) {
	for name, again := range map[string]bool{"in the term": false, "in the next": true} {
		f := newLedger(t)
		f.c.Revision().Controller.Gone = true
		f.put(aWidget)
		f.run()
		old := f.given()
		f.remove()
		if again {
			f.c.beginTerm(nil)
			old = ""
		}
		t.Log(name)
		f.run()
		f.expectEntry("deleted", old)
	}
}

func TestAHookKnowsWhetherAnObjectWasCreated(t *testing.T) {
	again := strings.Replace(aWidget, "u1", "u2", 1)
	for name, c := range map[string]struct {
		before func(f *fixture)
		want   string
	}{
		"created":               {func(f *fixture) { f.c.Observe(nil, f.put(aWidget), false) }, "created"},
		"found":                 {func(f *fixture) { f.c.Observe(nil, f.put(aWidget), true) }, "first"},
		"before its event":      {func(f *fixture) { f.put(aWidget) }, "first"},
		"again":                 {func(f *fixture) { f.put(aWidget); f.run(); f.put(again) }, "created"},
		"again, since the term": {func(f *fixture) { f.put(aWidget); f.run(); f.c.beginTerm(nil); f.put(again) }, "first"},
		"in the term before":    {func(f *fixture) { f.c.Observe(nil, f.put(aWidget), false); f.c.beginTerm(nil) }, "first"},
		"again, after a run for the one that is gone": {func(f *fixture) { f.put(aWidget); f.run(); f.remove(); f.run(); f.put(again) }, "created"},
		"again, since the term in which the one before went": {func(f *fixture) {
			f.put(aWidget)
			f.run()
			f.remove()
			f.c.beginTerm(nil)
			f.run()
			f.put(again)
		}, "first"},
		"after its first run": {func(f *fixture) {
			f.reconcile = panics
			o := f.put(aWidget)
			f.run()
			f.c.Observe(nil, o, false)
		}, "created"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLedger(t)
			f.c.revision.Load().Controller.Gone = true
			c.before(f)
			f.run()
			f.expectEntry(c.want, "")
			if len(f.c.created) > 0 {
				t.Errorf("left: %v", f.c.created)
			}
		})
	}
}
