package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// newHeld is a fixture whose widget has had a run and has the finalizer.
func newHeld(t *testing.T) *fixture {
	f := newFixture(t)
	f.put(aWidget)
	f.run()
	f.log, f.request = nil, nil
	return f
}

// expectVanished expects what has become of the objects that have vanished.
func (f *fixture) expectVanished(want ...outcome.LateCleanup) {
	f.t.Helper()
	var got []outcome.LateCleanup
	for _, what := range f.log {
		if end, ok := strings.CutPrefix(what, "vanished: "); ok {
			got = append(got, outcome.LateCleanup(end))
		}
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("what became of vanished objects: %q, want %q", got, want)
	}
	lost := len(want) > 0 && want[0] != outcome.LateCleanupSucceeded
	if told := slices.Contains(f.log, "event Warning CleanupLost"); told != lost {
		f.t.Errorf("an Event tells of a loss: %t", told)
	}
}

func (f *fixture) expectNothingLeft() {
	f.t.Helper()
	if n := len(f.c.goneObjects.byKey) + f.c.goneObjects.bytes + len(f.c.cleanedUp); n > 0 {
		f.t.Errorf("left: %+v, %v", f.c.goneObjects, f.c.cleanedUp)
	}
}

func TestACleanupRunsForAnObjectThatHasVanished(t *testing.T) {
	f := newHeld(t)
	last := f.remove()
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess, Status: []byte(`{"a":1}`), Patch: []byte(`{"spec":{"x":3}}`), Delete: []abi.Delete{{Ref: gadget.Ref("ns", "g")}}})
	f.run(abi.ReasonPrimary)
	if !f.isGone() || !f.request.Deleting || f.given() != string(last.Raw) {
		t.Errorf("the request is %+v", f.request)
	}
	if len(f.patches) > 0 || slices.ContainsFunc(f.log, func(what string) bool { return strings.HasPrefix(what, "status") }) {
		t.Errorf("it is written to: %q", f.log)
	}
	f.expectVanished(outcome.LateCleanupSucceeded)
	f.expectNothingLeft()
	f.request = nil
	if f.run(); f.request != nil || !slices.Contains(f.log, "cache forgets ns/w") {
		t.Errorf("then: %+v, %q", f.request, f.log)
	}
}

// vanishing is a situation in which an object is gone.
type vanishing struct {
	finalizer, deleting, ran, leads, gone, exists, unread, lost bool
}

// wants returns whether a request comes, and whether it is for the cleanup.
func (v vanishing) wants() (request, cleanup bool) {
	held := v.finalizer && !v.deleting && v.ran
	switch {
	case !v.leads:
		return false, false
	case held && !v.lost && v.unread:
		return false, false
	case held && !v.lost && !v.exists:
		return true, true
	}
	return v.gone, false
}

func (v vanishing) happens(t *testing.T) *fixture {
	f := newFixture(t)
	f.c.revision.Load().Controller.Gone = v.gone
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	l.lead()
	text := aWidget
	if !v.finalizer {
		text = strings.Replace(text, `"finalizers":["f"]`, `"labels":{}`, 1)
	}
	o := f.put(text)
	if v.ran {
		f.run()
	}
	if v.deleting {
		o = patched(t, o, `{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
	}
	if v.exists {
		f.live = o
	}
	if v.unread {
		f.liveError = errors.New("no connection")
	}
	delete(f.store[widget], testKey)
	f.log, f.request, f.done = nil, nil, nil
	if !v.leads {
		l.lose()
	}
	if v.lost {
		f.c.ObserveLost(o)
	} else {
		f.c.Observe(o, nil, false)
	}
	if v.leads {
		f.run()
	}
	return f
}

func TestWhichObjectsHaveVanished(t *testing.T) {
	for bits := range 1 << 8 {
		is := func(bit int) bool { return bits&(1<<bit) != 0 }
		v := vanishing{is(0), is(1), is(2), is(3), is(4), is(5), is(6), is(7)}
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			f := v.happens(t)
			request, cleanup := v.wants()
			if got := f.request != nil; got != request {
				t.Fatalf("a request comes: %t, want %t; %q", got, request, f.log)
			}
			if request && (!f.request.Gone || f.request.Deleting != cleanup) {
				t.Errorf("the request is %+v, want a cleanup: %t", f.request, cleanup)
			}
			held := v.finalizer && !v.deleting && v.ran
			switch {
			case cleanup:
				f.expectVanished(outcome.LateCleanupSucceeded)
			case held && !v.leads:
				f.expectVanished(outcome.LateCleanupStopped)
			case held && v.lost:
				f.expectVanished(outcome.LateCleanupRestored)
			default:
				f.expectVanished()
			}
			if asked := slices.Contains(f.log, "exists ns/w"); asked != (held && v.leads && !v.lost) {
				t.Errorf("the API server is asked: %t", asked)
			}
			if waits := held && v.leads && !v.lost && v.unread; !waits {
				f.expectNothingLeft()
			} else if next := f.done[len(f.done)-1]; next.Kind != outcome.Backoff || !next.Outage {
				t.Errorf("then %+v", next)
			}
		})
	}
}

func TestAFailedReadOfAVanishedObjectIsRepeated(t *testing.T) {
	f := newHeld(t)
	f.remove()
	f.liveError = errors.New("no connection")
	for range 10 {
		f.run()
	}
	first, last := f.done[len(f.done)-10], f.done[len(f.done)-1]
	if f.request != nil || first.After != minReadAgain || last.After != maxReadAgain {
		t.Errorf("a request: %t, pauses from %s to %s", f.request != nil, first.After, last.After)
	}
	f.liveError = nil
	if f.run(); !f.isGone() {
		t.Error("no cleanup follows")
	}
	f.expectVanished(outcome.LateCleanupSucceeded)
}

func TestTheCleanupOfAVanishedObjectIsRepeatedUntilItSucceeds(t *testing.T) {
	f := newHeld(t)
	f.remove()
	f.reconcile = panics
	for attempt := range 2 {
		if f.run(); !f.isGone() || f.request.Attempt != attempt {
			t.Errorf("the request is %+v", f.request)
		}
	}
	f.reconcile = succeed
	f.run()
	f.expectVanished(outcome.LateCleanupSucceeded)
	if n := len(slices.DeleteFunc(f.log, func(what string) bool { return what != "exists ns/w" })); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
	f.request = nil
	if f.run(); f.request != nil {
		t.Errorf("after it has succeeded: %+v", f.request)
	}
}

// Nobody has to ask the API server for the first one: there cannot be two of a name.
func TestAnObjectThatIsCreatedAgainRunsAfterTheCleanupOfTheOneThatHasVanished(t *testing.T) {
	f := newHeld(t)
	old := f.store[widget][testKey]
	f.putUnseen(strings.Replace(aWidget, "u1", "u2", 1))
	if f.run(); f.request != nil {
		t.Error("it runs before the informer has shown that the first one is gone")
	}
	f.c.Observe(old, nil, false)
	f.c.Observe(nil, f.store[widget][testKey], false)
	f.liveError = errors.New("not to be asked")
	f.run()
	if uid, _ := rawjson.Lookup(f.request.Object, "metadata", "uid"); string(uid) != `"u1"` || !f.request.Deleting {
		t.Errorf("the first request is for %s: %+v", uid, f.request)
	}
	f.run()
	if uid, _ := rawjson.Lookup(f.request.Object, "metadata", "uid"); string(uid) != `"u2"` || f.request.Deleting || f.request.Gone {
		t.Errorf("the second request is for %s: %+v", uid, f.request)
	}
}

// The store of the informer lacks the object before its event is delivered.
func TestTheStateOfAnObjectIsKeptUntilTheInformerHasShownThatItIsGone(t *testing.T) {
	f := newHeld(t)
	last := f.store[widget][testKey]
	delete(f.store[widget], testKey)
	for range 3 {
		f.run()
	}
	if pauses := f.done[len(f.done)-3:]; f.request != nil || pauses[0].After >= pauses[2].After || pauses[2].Kind != outcome.After {
		t.Errorf("before the event: %+v, %+v", f.request, pauses)
	}
	f.c.Observe(last, nil, false)
	if f.run(); !f.isGone() || !f.request.Deleting {
		t.Errorf("after the event: %+v", f.request)
	}
}

func TestAnEventThatDoesNotComeIsNotAwaitedForEver(t *testing.T) {
	f := newHeld(t)
	delete(f.store[widget], testKey)
	for range maxAwaited + 1 {
		f.run()
	}
	if f.c.keys[testKey] != nil {
		t.Error("the object is remembered")
	}
}

// The watch was interrupted: the informer has not shown the deletionTimestamp.
func TestNoCleanupFollowsOneThatHasSucceeded(t *testing.T) {
	f := newHeld(t)
	shown := f.store[widget][testKey]
	f.store[widget][testKey] = patched(t, shown, `{"metadata":{"deletionTimestamp":"2026-11-20T12:00:00Z"}}`)
	f.run()
	if !f.request.Deleting || f.request.Gone {
		t.Fatalf("the cleanup is %+v", f.request)
	}
	f.request = nil
	f.c.Observe(shown, nil, false)
	if f.run(); f.request != nil {
		t.Errorf("then: %+v", f.request)
	}
	f.expectVanished()
	f.expectNothingLeft()
}

// The watch was interrupted: the informer has not shown what the run wrote.
func TestTheLastOwnWriteIsTheLastKnownState(t *testing.T) {
	for name, c := range map[string]struct {
		wrote   string
		cleanup bool
	}{
		"the finalizer": {`{"metadata":{"finalizers":["f"],"resourceVersion":"7"},"status":{"id":"x"}}`, true},
		"a status of an object that is being deleted": {`{"metadata":{"finalizers":["f"],"deletionTimestamp":"2026-11-20T12:00:00Z"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			shown := f.put(strings.Replace(aWidget, `"finalizers":["f"]`, `"labels":{}`, 1))
			f.run()
			f.request, f.lastKnown = nil, patched(t, shown, c.wrote)
			delete(f.store[widget], testKey)
			f.c.Observe(shown, nil, false)
			f.run()
			if got := f.request != nil; got != c.cleanup || got && f.given() != string(f.lastKnown.Raw) {
				t.Errorf("the request is %+v", f.request)
			}
		})
	}
}

func TestASuspendedObjectThatHasVanishedIsCleanedUp(t *testing.T) {
	f := newHeld(t)
	f.edit(`{"metadata":{"annotations":{"` + Suspend + `":"true"}}}`)
	f.remove()
	if f.run(); !f.isGone() {
		t.Error("no cleanup runs")
	}
}

func TestTheCleanupOfAnObjectThatVanishesDuringItsRunFollowsIt(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.remove()
		return returns(&abi.Result{Memo: []byte(`1`)})
	}
	f.run()
	f.reconcile = succeed
	if f.run(); !f.isGone() || string(f.request.Memo) != "1" {
		t.Errorf("the request is %+v", f.request)
	}
	f.expectVanished(outcome.LateCleanupSucceeded)
}

func TestPostponedEffectsAreDroppedWithAnObjectThatHasVanished(t *testing.T) {
	f := parked(t)
	f.log, f.request = nil, nil
	f.remove()
	f.ends(0, abi.Result{Result: abi.OutcomeSuccess})
	if f.run(); !f.isGone() || slices.Contains(f.log, "apply") {
		t.Errorf("the request is %+v: %q", f.request, f.log)
	}
}

func TestEachLossOfACleanupIsReported(t *testing.T) {
	for want, lose := range map[outcome.LateCleanup]func(*fixture){
		outcome.LateCleanupStalled: func(f *fixture) {
			f.remove()
			f.ends(abi.CodeStalled, abi.Result{Error: &abi.Failure{Message: "no"}})
			f.run()
		},
		outcome.LateCleanupTooLarge: func(f *fixture) {
			f.c.goneObjects.bytes = maxGoneBytes
			f.remove()
			f.c.goneObjects.bytes -= maxGoneBytes
		},
		outcome.LateCleanupReplaced: func(f *fixture) {
			f.remove()
			f.swap(func(r *Revision) { r.Controller.Finalizer = false })
		},
		outcome.LateCleanupRestored: func(f *fixture) { f.c.ObserveLost(f.store[widget][testKey]) },
		outcome.LateCleanupStopped: func(f *fixture) {
			f.remove()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			f.c.Run(ctx)
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			f := newHeld(t)
			f.t = t
			lose(f)
			f.expectVanished(want)
			f.expectNothingLeft()
			delete(f.store[widget], testKey)
			f.reconcile, f.request = succeed, nil
			if f.run(); f.request != nil {
				t.Errorf("a request comes: %+v", f.request)
			}
		})
	}
}

// Another replica may reconcile an object of the same name before this one leads again.
func TestACleanupIsLostWithTheLease(t *testing.T) {
	f := newHeld(t)
	f.remove()
	f.c.EndTerm()
	f.expectVanished(outcome.LateCleanupStopped)
	f.expectNothingLeft()

	f.put(aWidget)
	f.run()
	f.c.EndTerm()
	f.log = nil
	f.remove()
	if f.expectVanished(); len(f.c.goneObjects.byKey) > 0 {
		t.Error("an object has its cleanup to come that has had no run in the term")
	}
}

// The cleanup in progress may succeed.
func TestACleanupInProgressIsNotLostUntilItHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		reconcile reconcileFunc
		want      outcome.LateCleanup
	}{
		"succeeds": {succeed, outcome.LateCleanupSucceeded}, "fails": {panics, outcome.LateCleanupReplaced},
	} {
		t.Run(name, func(t *testing.T) {
			f := newHeld(t)
			f.remove()
			f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
				f.swap(func(r *Revision) { r.Controller.Finalizer = false })
				f.expectVanished()
				return c.reconcile(ctx, call)
			}
			f.run()
			f.run()
			f.expectVanished(c.want)
			f.expectNothingLeft()
		})
	}
}

func TestARevisionThatAsksForObjectsThatAreGoneIsGivenThoseWithoutACleanup(t *testing.T) {
	f := newHeld(t)
	f.remove()
	f.swap(func(r *Revision) { r.Controller.Finalizer, r.Controller.Gone = false, true })
	f.expectVanished(outcome.LateCleanupReplaced)
	if f.run(); !f.isGone() || f.request.Deleting {
		t.Errorf("the request is %+v", f.request)
	}
}

func TestSignalsOfTheLastCallOfATurnAreGivenToTheCleanupOfAnObjectThatHasVanished(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		f.signals(`"last"`)
		f.request = nil
		f.remove()
		f.run(abi.ReasonPrimary)
		f.expectCalls("last")
		if f.request == nil || !f.request.Deleting || len(f.request.Signals) != 1 {
			t.Errorf("the request is %+v", f.request)
		}
	})
}

// A target that is gone reports its cleanup to the effects, which end it where nothing can be done.
func TestTheEffectsKnowACleanupOfAnObjectThatIsGone(t *testing.T) {
	r := run{guestCall: guestCall{c: &Controller{}, revision: &Revision{}, given: &object.Object{}}, origin: origin{gone: &goneObject{}, cleanup: true, state: &keyState{carried: &carried{}}}}
	if target := r.target(); target != (effect.Target{Controller: &r.revision.Controller, Gone: true, Cleanup: true}) {
		t.Errorf("%+v", target)
	}
}
