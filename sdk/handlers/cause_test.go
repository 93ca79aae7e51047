package handlers_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

// everything returns a set with one handler for each cause.
func (x *test) everything() *handlerSet {
	h := &handlerSet{}
	h.OnCreate("create", x.record(nil))
	h.OnUpdate("update", x.record(nil))
	h.OnResume("resume", x.record(nil))
	h.OnField("replicas", "spec.replicas", x.record(nil))
	h.OnField("note", "metadata.annotations.note", x.record(nil))
	h.OnEvent("event", x.record(nil))
	return h
}

func TestHandlersAreCalledForTheirChange(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x := &test{t: t}
		x.begin(x.everything(), base)
		x.run("create", "replicas", "note", "event").ExpectReady()
		x.run("event").ExpectReady()
		x.change(`{"spec":{"title":"Other"}}`)
		x.run("update", "event")
		x.change(`{"spec":{"replicas":3}}`)
		x.run("update", "replicas", "event")
		x.change(`{"metadata":{"annotations":{"note":null},"labels":{"tier":"db"}}}`)
		x.run("update", "note", "event")
		x.change(`{"status":{"url":"a"}}`)
		x.run("event")
		x.change(`{"metadata":{"annotations":{"reconcile.thole.dev/requestedAt":"now"}}}`)
		x.run("event")
		x.change(`{"metadata":{"finalizers":["a.b/c"]}}`)
		x.run("event")
	})
}

func TestResumedObjectIsUpdatedIfItDiffersFromOld(t *testing.T) {
	x := &test{t: t}
	x.begin(x.everything())
	x.run("create", "replicas", "note", "event")
	x.Restart()
	x.run("resume", "event").ExpectNoWrites()
	x.change(`{"spec":{"replicas":3}}`)
	x.Restart()
	x.run("update", "resume", "replicas", "event")
	x.run("event")
}

// The old object is kept as a digest: if that is another one, everything counts as changed.
func TestResumedObjectThatIsTooLargeForTheAnnotationIsUpdatedIfItDiffers(t *testing.T) {
	x := &test{t: t}
	x.begin(x.everything())
	x.change(`{"spec":{"title":"` + strings.Repeat("x", 64<<10) + `"}}`)
	x.run("create", "replicas", "note", "event")
	x.Restart()
	x.run("resume", "event").ExpectNoWrites()
	x.change(`{"spec":{"replicas":3}}`)
	x.Restart()
	x.run("update", "resume", "replicas", "note", "event")
	x.Restart()
	x.run("resume", "event")
}

// What was due when the annotation was edited must not be forgotten.
func TestResumedObjectWithAnEditedAnnotationCountsAsChanged(t *testing.T) {
	x := &test{t: t}
	x.begin(x.everything())
	x.run("create", "replicas", "note", "event")
	x.change(`{"spec":{"replicas":3}}`)
	x.editHandled()
	x.Restart()
	x.run("update", "resume", "replicas", "note", "event")
	x.run("event")
}

func TestResumedObjectWithoutOldIsOnlyResumed(t *testing.T) {
	x := &test{t: t}
	x.begin(x.everything(), controller{Changes: sdk.ChangesMemory})
	x.run("create", "replicas", "note", "event")
	x.change(`{"spec":{"replicas":3}}`)
	x.Restart()
	x.run("resume", "event")
}

// The host does not have an old object whose annotation somebody has edited.
func TestWithoutOldEverythingCountsAsChanged(t *testing.T) {
	x := &test{t: t}
	h := x.everything()
	h.OnUpdate("look", func(c *call) error {
		if c.Old != nil || len(c.Diff()) != 2 || c.Diff()[0].Op != handlers.Add {
			t.Errorf("old is %+v, diff %+v", c.Old, c.Diff())
		}
		return nil
	})
	x.begin(h)
	x.run("create", "replicas", "note", "event")
	x.editHandled()
	x.change(`{"spec":{"title":"Other"}}`)
	x.run("update", "replicas", "note", "event")
}

// editHandled makes the annotation of the handled state invalid.
func (x *test) editHandled() {
	var o struct{ Metadata sdk.ObjectMeta }
	x.Get(shop, &o)
	for name := range o.Metadata.Annotations {
		if name != "note" {
			x.change(`{"metadata":{"annotations":{"` + name + `":"edited"}}}`)
		}
	}
}

func TestFieldHandlerOfACreationNeedsAValue(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnField("no", "spec.paused", x.record(nil))
	h.OnField("yes", "spec.title", x.record(func(c *call) error {
		if c.OldValue != nil || string(c.NewValue) != `"Shop"` {
			t.Errorf("old is %s, new %s", c.OldValue, c.NewValue)
		}
		return nil
	}))
	x.begin(h)
	x.run("yes")
	x.change(`{"spec":{"paused":true}}`)
	x.run("no")
	x.change(`{"spec":{"paused":null}}`)
	x.run("no")
}

func TestCallHasOldNewAndDiff(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x := &test{t: t}
		h := &handlerSet{}
		h.OnUpdate("update", x.record(func(c *call) error {
			if c.Old == nil || c.Old.Spec.Replicas != 2 || c.Spec.Replicas != 3 || c.Old.Name != "shop" || c.Reason != sdk.Updated {
				t.Errorf("old is %+v, the call %+v", c.Old, c)
			}
			expectDiff(t, c.Diff(), `change metadata.labels.tier "web" "db"`, `add spec.new  {"a":[1]}`, `change spec.replicas 2 3`, `remove spec.title "Shop" `)
			return nil
		}))
		h.OnField("spec", "spec.replicas", x.record(func(c *call) error {
			expectDiff(t, c.Diff(), `change spec.replicas 2 3`)
			return nil
		})).Old("spec.replicas", handlers.Present)
		x.begin(h, base)
		x.run()
		x.change(`{"spec":{"replicas":3,"title":null,"new":{"a":[1]}},"metadata":{"labels":{"tier":"db"}},"status":{"url":"a"}}`)
		x.run("update", "spec")
	})
}

func TestDeletionCallsOnlyHandlersOfItAndOfEvents(t *testing.T) {
	x := &test{t: t}
	h := x.everything()
	h.OnDelete("delete", x.record(nil))
	h.Timer(sdk.Timer{Name: "timer", Interval: time.Minute, InitialDelay: time.Hour}, x.record(nil))
	h.OnCreate("status", func(c *call) error { c.Status.URL = "u"; return nil })
	x.begin(h)
	x.run("create", "replicas", "note", "event").ExpectWrites("finalizer", "status", "handled")
	x.change(`{"spec":{"replicas":3}}`)
	x.Delete(shop)
	x.run("event", "delete").ExpectWrites("release")
	x.ExpectGone(shop)
}

func TestFinalizerIsRemovedWhenAllHandlersAreDone(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	broken := errors.New("broken")
	h.OnDelete("one", x.record(func(*call) error { return nil }))
	h.OnDelete("two", x.record(func(*call) error { return broken }))
	h.OnDelete("three", x.record(func(c *call) error {
		if c.Retry == 0 {
			return sdk.Waiting("Terminating", time.Second, broken)
		}
		return nil
	}))
	h.OnCreate("status", func(c *call) error { c.Status.URL = "u"; return nil })
	x.begin(h)
	x.run()
	x.Delete(shop)
	x.run("one", "two", "three").ExpectRetry("HandlerFailed").ExpectWrites("status", "handled")
	x.Advance(time.Second)
	x.run("two", "three")
	broken = nil
	x.Advance(time.Second)
	x.run("two").ExpectWrites("release")
	x.ExpectGone(shop)
}

func TestOptionalHandlerOfADeletionHasNoFinalizer(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("status", func(c *call) error { c.Status.URL = "u"; return nil })
	h.OnDelete("delete", x.record(func(c *call) error {
		if c.Retry == 0 {
			return errors.New("once more")
		}
		return nil
	})).Optional()
	x.begin(h)
	x.run().ExpectWrites("status", "handled")
	x.Delete(shop)
	x.ExpectGone(shop)
	x.ReconcileGone("default/shop").ExpectRetry("HandlerFailed")
	x.Advance(time.Second)
	x.ReconcileGone("default/shop").ExpectSuccess()
	x.called("delete", "delete")
}

func TestGoneObjectDoesNotCallHandlersThatNeedTheFinalizer(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnDelete("needed", x.record(nil))
	h.OnDelete("optional", x.record(nil)).Optional()
	x.begin(h)
	x.run()
	x.Delete(shop)
	x.ReconcileGone("default/shop").ExpectSuccess()
	x.called("optional")
}

// Another one may be optional, which makes the controller ask for objects that are gone.
func TestVanishedObjectCallsHandlersThatNeedTheFinalizer(t *testing.T) {
	for _, optional := range []bool{false, true} {
		x := &test{t: t}
		h := &handlerSet{}
		h.OnCreate("status", func(c *call) error { c.Status.URL = "u"; return nil })
		h.OnDelete("needed", x.record(nil))
		want := []string{"needed"}
		if optional {
			h.OnDelete("optional", x.record(nil)).Optional()
			want = append(want, "optional")
		}
		x.begin(h)
		x.run()
		x.Vanish(shop)
		x.ReconcileGone("default/shop").ExpectSuccess()
		x.called(want...)
	}
}

func TestErrorOfAnEventHandlerIsIgnored(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnEvent("event", x.record(func(*call) error { return errors.New("broken") }))
	x.begin(h)
	x.run("event").ExpectReady().ExpectLog("is ignored")
	x.run("event").ExpectReady()
}
