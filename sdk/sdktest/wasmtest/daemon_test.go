package wasmtest_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const daemonDir = "sdk/sdktest/wasmtest/testdata/daemon"

// daemonSite returns a world with one Site that has the finalizer, and a function that changes what
// its daemon does.
func daemonSite(t *testing.T) (w *sdktest.World, site sdk.Ref, do func(what string)) {
	t.Helper()
	w = wasmtest.New(t, "daemon", build(t, daemonDir))
	site = w.Create(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"shop"}}`)
	w.Reconcile("default/shop").ExpectReady().ExpectWrites("finalizer", "status")
	return w, site, func(what string) {
		t.Helper()
		w.Change(site, `{"spec":{"do":"`+what+`"}}`)
	}
}

func TestCompiledDaemonIsWokenSignalsAndStops(t *testing.T) {
	w, site, do := daemonSite(t)
	w.Step("default/shop").ExpectEvents(sdk.DaemonStart).ExpectSignals(`{"steps":1,"count":0}`)
	w.Step("default/shop").ExpectNoStep()
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a","labels":{"owner":"shop"}}}`)
	w.Step("default/shop").ExpectEvents(sdk.DaemonIndex).ExpectSignals(`{"steps":2,"count":1}`)
	w.Advance(time.Minute)
	w.Step("default/shop").ExpectEvents(sdk.DaemonTime).ExpectSignals(`{"steps":3,"count":1}`)
	expectStatus(t, w.Reconcile("default/shop").ExpectReady(), `{"steps":3,"count":1}`)
	w.Reconcile("default/shop").ExpectNoWrites()

	do("get")
	w.Step("default/shop").ExpectEvents(sdk.DaemonObject).ExpectSignals(`{"steps":4,"count":0}`)
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"words"},"data":{"hello":"hi"}}`)
	w.Step("default/shop").ExpectEvents(sdk.DaemonRead).ExpectSignals(`{"steps":5,"count":0,"text":"hi"}`)

	w.Delete(site)
	w.Reconcile("default/shop").ExpectWrites("release").LastStep.ExpectEvents(sdk.DaemonStop).ExpectSuccess().ExpectLog("stops")
	w.ExpectGone(site)
}

func TestCompiledDaemonKeepsNothingButItsState(t *testing.T) {
	w, _, do := daemonSite(t)
	w.Step("default/shop").ExpectSuccess()
	do("keep")
	w.Step("default/shop").ExpectSignals(`{"steps":2,"count":1}`)
	do("time")
	s := w.Step("default/shop").ExpectSuccess()
	if got := string(s.Result.Signals[0]); got[:len(got)-3] != `{"steps":3,"count":0,"text":"2026-01-01T00:00:00Z ` {
		t.Errorf("it signals %s", got)
	}
}

func TestCompiledDaemonFailsAndEnds(t *testing.T) {
	w, _, do := daemonSite(t)
	w.Step("default/shop").ExpectSuccess()
	do("fail")
	w.Step("default/shop").ExpectFailure(abi.ClassStalled, "Wrong")
	w.Reconcile("default/shop").ExpectStalled("Wrong")
	do("panic")
	w.Step("default/shop").ExpectEvents(sdk.DaemonStart).ExpectFailure(abi.ClassPanic, "")
	w.Reconcile("default/shop").ExpectClass(abi.ClassPanic)
	do("end")
	w.Step("default/shop").ExpectEvents(sdk.DaemonStart).ExpectSignals(`{"steps":1,"count":0}`)
	w.Reconcile("default/shop").ExpectReady()
	w.Advance(time.Hour)
	w.Step("default/shop").ExpectNoStep()
}

// A plugin without daemons refuses a step: the manifest has none, so that a host never asks.
func TestStepOfAPluginWithoutDaemonsIsRefused(t *testing.T) {
	back, err := wasmtest.Load(t, "bare", build(t, bareDir)).Call(t.Context(), daemon.Export, call("bare", "{}"))
	if err != nil || back.Code != abi.CodeStalled || len(back.Output) > 0 {
		t.Errorf("it returns %d %s, %v", back.Code, back.Output, err)
	}
}
