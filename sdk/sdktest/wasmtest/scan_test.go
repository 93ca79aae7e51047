package wasmtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const scanDir = "sdk/sdktest/wasmtest/testdata/scan"

// scannedLabs returns a world with a Lab that starts at once, and one that starts in an hour. Both have
// run.
func scannedLabs(t *testing.T, toolchain wasmbuild.Toolchain) *sdktest.World {
	t.Helper()
	w := wasmtest.New(t, "scan", wasmbuild.Build(t, toolchain, scanDir))
	for name, start := range map[string]time.Time{"a": w.Now(), "b": w.Now().Add(time.Hour)} {
		w.Create(`{"apiVersion":"example.com/v1","kind":"Lab","metadata":{"namespace":"default","name":"` + name + `"},"spec":{"start":"` + start.Format(time.RFC3339) + `"}}`)
		w.Reconcile("default/" + name).ExpectReady()
	}
	return w
}

func TestCompiledScanFindsWhatIsDue(t *testing.T) {
	for _, toolchain := range wasmbuild.Toolchains {
		t.Run(string(toolchain), func(t *testing.T) {
			w := scannedLabs(t, toolchain)
			w.Scan("due").ExpectObjects("default/a").ExpectSignals(`{"by":"due","kept":1}`)
			expectStatus(t, w.Reconcile("default/a").ExpectReady(), `{"phase":"Running","by":"due","runs":2}`)
			lab := sdk.Kind{APIVersion: "example.com/v1", Kind: "Lab"}
			w.Scan("due").ExpectObjects()
			w.Advance(time.Hour)
			w.Scan("due").ExpectObjects("default/b")
			w.Delete(lab.Ref("default", "b"))
			w.Scan("due").ExpectObjects()
		})
	}
}

func TestCompiledScansFailAndAreBounded(t *testing.T) {
	w := scannedLabs(t, wasmbuild.TinyGo)
	scan := func(do string) *sdktest.Scan {
		w.Configure(map[string]string{"do": do})
		return w.Scan("other")
	}
	scan("fail").ExpectFailure(abi.ClassStalled, "Wrong")
	scan("panic").ExpectFailure(abi.ClassPanic, "")
	scan("large").ExpectFailure(abi.ClassStalled, "InvalidSignal")
	if n := len(scan("many").ExpectObjects("default/a").Result.Objects); n != scans.MaxObjects {
		t.Errorf("%d objects", n)
	}
	if s := scan("log").ExpectObjects().ExpectLog("scans"); !slices.Equal(s.Ignored, []string{"default/none", "a"}) {
		t.Errorf("ignored: %q", s.Ignored)
	}
	for range 2 { // nothing is left of a scan
		w.Scan("due").ExpectSignals(`{"by":"due","kept":1}`)
	}
	if a, b := scan("time"), scan("time"); string(a.Result.Objects[0].Signal) == string(b.Result.Objects[0].Signal) {
		t.Errorf("two scans have the same random numbers: %s", a.Result.Objects[0].Signal)
	}
}

// A plugin without scans refuses one: the manifest has none, so that a host never asks.
func TestScanOfAPluginWithoutScansIsRefused(t *testing.T) {
	back, err := wasmtest.Load(t, "bare", build(t, bareDir)).Call(t.Context(), scans.Export, call("bare", "{}"))
	if err != nil || back.Code != abi.CodeStalled || len(back.Output) > 0 {
		t.Errorf("it returns %d %s, %v", back.Code, back.Output, err)
	}
}
