package handlers_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

// watching returns a test with a handler that counts, and one for what it has counted.
func watching(t *testing.T, count func() int, react func(*call) error) (*test, *handlerSet) {
	t.Helper()
	x := &test{t: t}
	h := &handlerSet{}
	h.OnEvent("count", func(c *call) error { c.Status.Replicas = count(); return nil })
	h.OnField("react", "status.replicas", x.record(react))
	return x, h
}

func TestStatusThatARunChangesIsHandledInTheSameRun(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		n := 0
		x, h := watching(t, func() int { return n }, func(c *call) error {
			if string(c.NewValue) != "1" && string(c.NewValue) != "2" && c.NewValue != nil {
				t.Errorf("the value is %s", c.NewValue)
			}
			return nil
		})
		x.begin(h, base)
		x.run().ExpectReady()
		n = 1
		x.run("react").ExpectReady()
		x.run().ExpectReady()
		x.run().ExpectReady()
		n = 2
		x.run("react")
		n = 0
		x.run("react")
		x.run()
	})
}

func TestStatusThatOthersChangeIsHandled(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x := &test{t: t}
		h := &handlerSet{}
		h.OnField("phase", "status.phase", x.record(nil))
		x.begin(h, base)
		x.run()
		x.change(`{"status":{"phase":"Up"}}`)
		x.run("phase")
		x.change(`{"status":{"url":"u"}}`)
		x.run()
		x.change(`{"status":{"phase":null}}`)
		x.run("phase")
		x.run()
	})
}

// What was handled is not known after a restart, so that no change can be missed.
func TestStatusIsHandledOnceMoreAfterARestart(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		n := 1
		x, h := watching(t, func() int { return n }, nil)
		x.begin(h, base)
		x.run("react")
		n = 2
		x.Restart()
		x.run("react")
		x.Restart()
		x.run("react")
		x.run()
	})
}

func TestStatusHandlerIsRetriedUntilItIsDone(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		n := 1
		fail := true
		x, h := watching(t, func() int { return n }, func(*call) error {
			if fail {
				return errBroken
			}
			return nil
		})
		x.begin(h, base)
		x.run("react").ExpectRetry("HandlerFailed")
		x.run().ExpectWaiting("")
		n = 2 // another value is not bound to the backoff
		x.run("react").ExpectRetry("HandlerFailed")
		fail = false
		x.Advance(time.Second)
		x.run("react").ExpectReady()
		x.run()
	})
}

func TestStatusThatWasHandledIsNotHandledAgainWhileANeighbourIsRetried(t *testing.T) {
	x, h := watching(t, func() int { return 1 }, nil)
	h.OnCreate("create", x.record(failing(1, errBroken)))
	x.begin(h)
	x.run("react", "create")
	x.Advance(time.Second)
	x.run("create").ExpectReady()
	x.run()
}

func TestStatusIsHandledAgainAfterAFailedEffect(t *testing.T) {
	each(t, func(t *testing.T, base controller) {
		x, h := watching(t, func() int { return 1 }, func(c *call) error {
			c.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`))
			return nil
		})
		h.OnField("absent", "status.phase", x.record(nil))
		x.begin(h, base)
		x.FailWrites(configMap, "Forbidden")
		x.run("react").ExpectClass(abi.ClassRetry)
		x.FailWrites(configMap, "")
		x.run("react").ExpectReady()
		x.run()
	})
}

func TestStatusThatALaterHandlerChangesIsHandledInTheNextRun(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnField("react", "status.replicas", x.record(nil))
	h.OnCreate("count", x.record(func(c *call) error { c.Status.Replicas = 3; return nil }))
	x.begin(h)
	x.run("count").ExpectReady().ExpectNext(100 * time.Millisecond)
	x.run("react").ExpectReady().ExpectNext(0)
}

func TestMemoOfTheAuthorIsKeptBesideThatOfTheHandlers(t *testing.T) {
	x, h := watching(t, func() int { return 1 }, func(c *call) error { c.SetMemo("mine"); return nil })
	var memo string
	h.OnEvent("look", func(c *call) error {
		_, err := c.Memo(&memo)
		return err
	})
	x.begin(h)
	x.run("react")
	memo = ""
	if x.run().ExpectReady(); memo != "mine" {
		t.Errorf("the memo is %q", memo)
	}
}

func TestFilterByStatusSeesWhatTheRunHasChanged(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnEvent("set", func(c *call) error { c.Status.URL = "u"; return nil })
	h.OnCreate("yes", x.record(nil)).Field("status.url", handlers.Value("u"))
	h.OnCreate("no", x.record(nil)).Field("status.url", handlers.Absent)
	x.begin(h)
	run := x.run("yes")
	if run.Result.Memo != nil {
		t.Errorf("the memo is %s", run.Result.Memo)
	}
}
