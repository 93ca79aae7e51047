package wasmtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const handlersDir = "sdk/sdktest/wasmtest/testdata/handlers"

func TestCompiledHandlersKeepTheirProgress(t *testing.T) {
	compiled(t, handlersDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "handlers", wasm)
		site := w.Create(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"shop",
			"labels":{"tier":"web"}},"spec":{"title":"A"}}`)
		calls := func(want string) {
			t.Helper()
			var o struct {
				Status struct {
					Calls string `json:"calls"`
				} `json:"status"`
			}
			if w.Get(site, &o); o.Status.Calls != want {
				t.Errorf("the calls are %q, expected %q", o.Status.Calls, want)
			}
			w.Change(site, `{"status":{"calls":null}}`)
		}
		w.Reconcile("default/shop").ExpectReady().ExpectWrites("finalizer", "status", "handled").ExpectLog("error of a handler is ignored")
		calls("create ")
		w.Change(site, `{"spec":{"title":"B","fail":true}}`)
		run := w.Reconcile("default/shop").ExpectRetry("HandlerFailed").ExpectNext(time.Minute)
		if run.Message != `handler "fail": as the spec says` {
			t.Errorf("the message is %s", run.Message)
		}
		calls("A->B add.spec.fail change.spec.title ")
		w.Reconcile("default/shop").ExpectWaiting("HandlersWaiting")
		w.Advance(time.Minute)
		w.Restart()
		w.Reconcile("default/shop").ExpectRetry("HandlerFailed")
		calls("")
		w.Advance(time.Minute)
		w.Reconcile("default/shop").ExpectReady()
		calls("fail ")
		w.Delete(site)
		w.Reconcile("default/shop").ExpectWrites("status", "release")
		w.ExpectGone(site)
	})
}

func TestCompiledTimerAndStatusHandlersRunTogether(t *testing.T) {
	compiled(t, handlersDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		result := reconcileSite(t, wasm, `{"replicas":3}`, &sdk.Change{Type: sdk.Resynced}, "count")
		if want := `{"calls":"scale ","replicas":3}`; string(result.Status) != want {
			t.Errorf("the status is %s, expected %s", result.Status, want)
		}
	})
}

func TestCompiledDiffOfADeepObjectNeedsNoDeepStack(t *testing.T) {
	compiled(t, handlersDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		deep := func(inner string) string {
			return `{"x":` + strings.Repeat(`[{"a":`, 4_900) + inner + strings.Repeat(`}]`, 4_900) + `,"y":` +
				strings.Repeat(`{"a":`, 9_900) + inner + strings.Repeat(`}`, 9_900) + `}`
		}
		change := &sdk.Change{Type: sdk.Updated, Old: []byte(`{"spec":` + deep("1") + `}`)}
		result := reconcileSite(t, wasm, deep("2"), change)
		if !strings.Contains(string(result.Status), "change.spec.x change.spec.y.a.a.") {
			t.Errorf("the status is %s", result.Status)
		}
	})
}

// reconcileSite returns the result of one run.
func reconcileSite(t *testing.T, wasm []byte, spec string, change *sdk.Change, due ...string) *abi.Result {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	back, err := wasmtest.Load(t, "handlers", wasm).Reconcile(t.Context(), sandbox.Call{Now: now, Request: abi.EncodeRequestParts(&abi.Request{
		Controller: "handlers", Now: now, Sections: []abi.Section{
			{Name: changes.Name, Value: change.Encode()}, {Name: timers.Name, Value: timers.EncodeDue(due)},
		},
		Object: []byte(`{"metadata":{"name":"shop","labels":{"tier":"web"}},"spec":` + spec + `}`),
	})})
	if err != nil {
		t.Fatal(err)
	}
	result, err := abi.DecodeResultFor("", abi.MaxIntents, anySection, back.Output)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// anySection accepts every section of a result.
func anySection(string) func([]byte) error { return func([]byte) error { return nil } }
