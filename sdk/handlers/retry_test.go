package handlers_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

var errBroken = errors.New("broken")

// failing returns a function that fails so many times.
func failing(times int, err error) handlers.Func[siteSpec, siteStatus] {
	return func(*call) error {
		if times--; times >= 0 {
			return err
		}
		return nil
	}
}

func TestHandlerThatSucceededIsNotCalledAgainWhileItsNeighbourIs(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x := &test{t: t}
		h := &handlerSet{}
		h.OnCreate("one", x.record(nil))
		h.OnCreate("two", x.record(failing(2, errBroken))).Backoff(time.Minute)
		h.OnField("three", "spec.replicas", x.record(nil))
		x.begin(h, base)
		run := x.run("one", "two", "three").ExpectRetry("HandlerFailed").ExpectNext(time.Minute)
		if run.Message != `handler "two": broken` {
			t.Errorf("the message is %s", run.Message)
		}
		x.Advance(time.Minute)
		x.run("two").ExpectRetry("HandlerFailed")
		x.Advance(time.Minute)
		x.run("two").ExpectReady()
		x.run().ExpectReady()
	})
}

func TestProgressInTheAnnotationSurvivesARestart(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(nil))
	h.OnCreate("two", x.record(func(c *call) error {
		if c.Retry == 1 {
			if want := x.Now().Add(-time.Hour); !c.Started.Equal(want) {
				t.Errorf("started at %s, expected %s", c.Started, want)
			}
			return nil
		}
		return errBroken
	}))
	x.begin(h)
	x.run("one", "two")
	x.Restart()
	x.Advance(time.Hour)
	x.run("two").ExpectReady()
}

func TestHandlerWaitsForItsBackoff(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("slow", x.record(failing(1, errBroken))).Backoff(time.Hour)
	h.OnCreate("fast", x.record(failing(2, errBroken))).Backoff(time.Second)
	x.begin(h)
	x.run("slow", "fast").ExpectRetry("HandlerFailed").ExpectNext(time.Second)
	x.Advance(time.Second)
	x.run("fast").ExpectRetry("HandlerFailed").ExpectNext(time.Second)
	x.run().ExpectWaiting("HandlersWaiting").ExpectNext(time.Second)
	x.Advance(time.Second)
	x.run("fast").ExpectWaiting("HandlersWaiting").ExpectNext(time.Hour - 2*time.Second)
	x.Advance(time.Hour)
	x.run("slow").ExpectReady()
}

func TestDefaultBackoffDoubles(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(failing(100, errBroken)))
	x.begin(h)
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		run := x.run("one").ExpectRetry("HandlerFailed")
		if after := time.Duration(run.Result.Error.After) * time.Millisecond; after > want || after < want*4/5 {
			t.Errorf("the backoff is %s, expected %s", after, want)
		}
		x.Advance(want)
	}
}

func TestHandlerFailsWhenItsTriesOrItsTimeAreUsedUp(t *testing.T) {
	for name, limit := range map[string]func(*handlers.Handler[siteSpec, siteStatus]){
		"retries": func(h *handlers.Handler[siteSpec, siteStatus]) { h.Retries(2) },
		"timeout": func(h *handlers.Handler[siteSpec, siteStatus]) { h.Timeout(90 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t}
			h := &handlerSet{}
			limit(h.OnCreate("one", x.record(failing(100, errBroken))).Backoff(time.Minute))
			h.OnCreate("two", x.record(nil))
			x.begin(h)
			x.run("one", "two").ExpectRetry("HandlerFailed").ExpectEvents()
			x.Advance(time.Minute)
			run := x.run("one").ExpectReady().ExpectEvents("HandlerFailed")
			if e := run.Result.Events[0]; e.Type != sdk.Warning || !strings.Contains(e.Message, `handler "one": broken`) {
				t.Errorf("the event is %+v", e)
			}
			x.run().ExpectReady()
			x.change(`{"spec":{"title":"Other"}}`)
			x.run().ExpectReady()
		})
	}
}

func TestErrorDeterminesWhatFollows(t *testing.T) {
	const again, never = time.Minute, time.Duration(0)
	for name, c := range map[string]struct {
		mode   handlers.ErrorMode
		err    error
		after  time.Duration // until the next call; never: the handler is done
		events int
	}{
		"an error":             {handlers.ErrorsRetry, errBroken, again, 0},
		"ignored":              {handlers.ErrorsIgnore, errBroken, never, 0},
		"permanent":            {handlers.ErrorsPermanent, errBroken, never, 1},
		"Permanent":            {handlers.ErrorsRetry, handlers.Permanent(errBroken), never, 1},
		"Permanent if ignored": {handlers.ErrorsIgnore, handlers.Permanent(errBroken), never, 1},
		"Stalled":              {handlers.ErrorsRetry, sdk.Stalled("Wrong", errBroken), never, 1},
		"Temporary":            {handlers.ErrorsRetry, handlers.Temporary(errBroken, time.Hour), time.Hour, 0},
		"Temporary if ignored": {handlers.ErrorsIgnore, handlers.Temporary(errBroken, time.Hour), time.Hour, 0},
		"Waiting":              {handlers.ErrorsPermanent, sdk.Waiting("Later", time.Hour, errBroken), time.Hour, 0},
		"Waiting for anything": {handlers.ErrorsPermanent, sdk.Waiting("Later", 0, errBroken), again, 0},
		"Retry":                {handlers.ErrorsRetry, sdk.Retry("Why", errBroken), again, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t}
			h := &handlerSet{}
			h.OnCreate("one", x.record(failing(1, c.err))).Errors(c.mode).Backoff(again)
			x.begin(h)
			run := x.run("one").ExpectNext(c.after)
			if ready := run.Class == abi.ClassNone; ready != (c.after == never) || len(run.Result.Events) != c.events {
				t.Errorf("class %s, events %+v", run.Class, run.Result.Events)
			}
			x.Advance(c.after)
			if c.after == never {
				x.run().ExpectReady()
			} else {
				x.run("one").ExpectReady()
			}
		})
	}
}

func TestReasonOfAnErrorIsThatOfTheRun(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(failing(1, sdk.Retry("NoQuota", errBroken))))
	x.begin(h)
	x.run("one").ExpectRetry("NoQuota")
}

func TestWaitingHandlerUsesUpNoTries(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(failing(5, sdk.Waiting("Later", time.Second, errBroken)))).Retries(2)
	x.begin(h)
	for range 5 {
		x.run("one").ExpectWaiting("HandlersWaiting").ExpectNext(time.Second)
		x.Advance(time.Second)
	}
	x.run("one").ExpectReady()
}

func TestIntentsOfAHandlerThatFailsAreKept(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", func(c *call) error { c.Status.URL = "u"; c.Event(sdk.Normal, "Begun", "so far"); return errBroken })
	h.OnCreate("two", func(c *call) error { c.Status.Replicas = 1; return nil })
	x.begin(h)
	x.run().ExpectRetry("HandlerFailed").ExpectEvents("Begun").ExpectWrites("status", "handled")
	var o struct{ Status siteStatus }
	if x.Get(shop, &o); o.Status != (siteStatus{1, "u"}) {
		t.Errorf("the status is %+v", o.Status)
	}
}

// What a run has asked for is not done if one of its effects failed.
func TestHandlersAreCalledAgainAfterAFailedEffect(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x := &test{t: t}
		h := &handlerSet{}
		h.OnCreate("one", x.record(func(c *call) error {
			c.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`))
			return nil
		}))
		h.OnCreate("two", x.record(failing(2, errBroken)))
		x.begin(h, base)
		x.FailWrites(configMap, "Forbidden")
		x.run("one", "two").ExpectClass(abi.ClassRetry)
		x.FailWrites(configMap, "")
		x.run("one", "two").ExpectRetry("HandlerFailed")
		x.Advance(time.Hour)
		x.run("two").ExpectReady()
	})
}

func TestReadThatIsNotAvailableIsNoCall(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(nil))
	h.OnCreate("two", x.record(func(c *call) error {
		if c.Retry != 0 {
			t.Errorf("call %d", c.Retry)
		}
		var o sdk.Raw
		if err := c.Get(configMap.Ref("", "m"), &o); !errors.Is(err, sdk.ErrNotFound) {
			return err
		}
		return nil
	})).Errors(handlers.ErrorsPermanent)
	h.OnCreate("three", x.record(nil))
	x.begin(h)
	x.FailReads(configMap, abi.CodeUnavailable)
	x.run("one", "two").ExpectNoWrites()
	x.FailReads(configMap, 0)
	x.run("one", "two", "three").ExpectReady()
}

func TestNewerChangeStartsTheHandlersAgain(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x := &test{t: t}
		h := &handlerSet{}
		h.OnUpdate("one", x.record(nil))
		h.OnUpdate("two", x.record(func(c *call) error {
			if c.Spec.Title == "B" && (c.Retry != 0 || c.Old.Spec.Title != "Shop") {
				t.Errorf("the call is %+v, old %+v", c, c.Old)
			}
			return errBroken
		})).Backoff(time.Hour)
		h.OnField("replicas", "spec.replicas", x.record(nil))
		x.begin(h, base)
		x.run("replicas")
		x.change(`{"spec":{"title":"A","replicas":3}}`)
		x.run("one", "two", "replicas")
		x.change(`{"metadata":{"annotations":{"reconcile.thole.dev/requestedAt":"now"}},"status":{"url":"a"}}`)
		x.run() // before the backoff is over
		x.change(`{"spec":{"title":"B"}}`)
		x.run("one", "two")
		x.change(`{"spec":{"replicas":4}}`)
		x.run("one", "two", "replicas")
	})
}

func TestFieldHandlerStartsAgainWithAnotherValue(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnField("replicas", "spec.replicas", x.record(func(c *call) error {
		if string(c.NewValue) == "4" && c.Retry == 0 {
			return nil
		}
		return errBroken
	})).Backoff(time.Hour)
	x.begin(h)
	x.run("replicas")
	x.change(`{"spec":{"title":"A"}}`)
	x.run()
	x.change(`{"spec":{"replicas":4}}`)
	x.run("replicas").ExpectReady()
}

func TestChangeThatIsTakenBackIsNotHandled(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnUpdate("one", x.record(failing(100, errBroken)))
	h.OnField("replicas", "spec.replicas", x.record(nil))
	x.begin(h)
	x.run("replicas")
	x.change(`{"spec":{"replicas":3}}`)
	x.run("one", "replicas").ExpectRetry("")
	x.change(`{"spec":{"replicas":2}}`)
	x.run().ExpectReady()
}

// Its own patch is no reason to start a handler again.
func TestOwnPatchIsNoNewerChange(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(func(c *call) error {
		c.Patch(map[string]any{"metadata": map[string]any{"labels": map[string]string{"made": "yes"}}})
		return nil
	}))
	h.OnCreate("two", x.record(failing(1, errBroken)))
	x.begin(h)
	x.run("one", "two").ExpectWrites("patch", "status", "handled")
	x.Advance(time.Second)
	x.run("two").ExpectReady()
}

func TestProgressIsNotWrittenAgainWithoutNews(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("one", x.record(nil))
	h.OnCreate("two", x.record(failing(1, errBroken))).Backoff(time.Hour)
	x.begin(h)
	x.run("one", "two").ExpectWrites("status", "handled")
	x.run().ExpectWrites("status") // the reason of the condition
	x.run().ExpectNoWrites()
}
