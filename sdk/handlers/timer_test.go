package handlers_test

import (
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

func timer(name string) sdk.Timer {
	return sdk.Timer{Name: name, Interval: time.Minute, InitialDelay: time.Second, Idle: time.Hour, Sharp: true}
}

func TestTimersArePartOfTheManifest(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.Timer(timer("probe"), x.record(nil))
	c := h.Controller(controller{Timers: []sdk.Timer{timer("mine")}})
	if want := []sdk.Timer{timer("mine"), timer("probe")}; !slices.Equal(c.Timers, want) {
		t.Errorf("the timers are %+v", c.Timers)
	}
	if c.Cleanup != nil || c.Gone != nil || c.Changes != sdk.ChangesAnnotation {
		t.Errorf("the controller is %+v", c)
	}
}

func TestTimerHandlerIsCalledWhenItIsDue(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.Timer(timer("web"), x.record(nil)).Labels("tier", handlers.Value("web"))
	h.Timer(timer("db"), x.record(nil)).Labels("tier", handlers.Value("db"))
	h.OnUpdate("update", x.record(nil))
	x.begin(h)
	x.due = []string{}
	x.run()
	x.due = []string{"db"}
	x.run()
	x.due = []string{"web", "db"}
	x.run("web").ExpectReady()
	x.change(`{"spec":{"replicas":9}}`)
	x.run("web", "update")
}

// The timer is due until a run ends well, which may be hours later.
func TestTimerGoesOnWhileANeighbourIsRetried(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("create", x.record(failing(1, errBroken))).Backoff(time.Hour)
	h.Timer(timer("probe"), x.record(func(c *call) error {
		if c.Retry != 0 || !c.Started.Equal(x.Now()) {
			t.Errorf("call %d, started at %s", c.Retry, c.Started)
		}
		return nil
	}))
	x.begin(h)
	x.due = []string{"probe"}
	x.run("create", "probe").ExpectRetry("").ExpectNext(time.Minute)
	x.Advance(time.Second)
	x.run().ExpectWaiting("").ExpectNext(time.Minute - time.Second)
	x.Advance(time.Minute - time.Second)
	x.run("probe").ExpectWaiting("").ExpectNext(time.Minute)
	x.Advance(time.Hour)
	x.run("create", "probe").ExpectReady()
}

func TestTimerHandlerIsRetried(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.Timer(timer("probe"), x.record(failing(1, errBroken))).Backoff(time.Second)
	h.OnCreate("create", x.record(nil))
	x.begin(h)
	x.due = []string{"probe"}
	x.run("probe", "create").ExpectRetry("").ExpectNext(time.Second)
	x.change(`{"spec":{"replicas":9}}`) // does not concern the timer
	x.run("create").ExpectWaiting("")
	x.Advance(time.Second)
	x.run("probe").ExpectReady()
}
