package wasmtest_test

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const operatorDir = "sdk/sdktest/wasmtest/testdata/operator"

const operatorSite = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"shop"},"spec":{"title":"A"}}`

func TestCompiledReconcilerKeepsItsPendingEvents(t *testing.T) {
	compiled(t, operatorDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "operator", wasm, "reconciler")
		site := w.Create(operatorSite)
		called := func(action, title, state string) {
			t.Helper()
			r := w.Reconcile("default/shop").ExpectLog("called")
			if f := r.Logs[0].Fields; f["action"] != action || f["title"] != title || f["state"] != state {
				t.Errorf("called with %v, expected %q, %q and %q", f, action, title, state)
			}
		}
		called("created", "A", "")
		w.Change(site, `{"spec":{"title":"B","fail":true}}`)
		called("updated", "B", "")
		w.Advance(10 * time.Second)
		w.Change(site, `{"spec":{"title":"C","fail":null}}`)
		called("updated", "C", "")
		if r := w.Reconcile("default/shop").ExpectWaiting("RetryPending"); len(r.Logs) > 0 {
			t.Errorf("called before the time: %v", r.Logs)
		}
		w.Advance(50 * time.Second)
		called("updated", "C", "B")
		w.Reconcile("default/shop").ExpectReady()
		w.Delete(site)
		w.ReconcileGone("default/shop").ExpectSuccess().ExpectLog("called")
	})
}

func TestCompiledWatcherIsOpinionated(t *testing.T) {
	compiled(t, operatorDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "operator", wasm, "watcher")
		site := w.Create(operatorSite)
		called := func(want string) {
			t.Helper()
			w.Reconcile("default/shop")
			var o struct {
				Status struct {
					Calls string `json:"calls"`
				} `json:"status"`
			}
			if w.Get(site, &o); o.Status.Calls != want {
				t.Errorf("the calls are %q, expected %q", o.Status.Calls, want)
			}
		}
		called("add ")
		called("add ")
		w.Change(site, `{"spec":{"title":"B"}}`)
		called("add A>B ")
		called("add A>B ") // its own patch
		w.Restart()
		called("add A>B sync ")
		w.Change(site, `{"spec":{"fail":true}}`)
		w.Delete(site)
		w.Reconcile("default/shop").ExpectRetry("")
		w.Change(site, `{"spec":{"fail":null}}`)
		w.Reconcile("default/shop").ExpectWrites("status", "release")
		w.ExpectGone(site)
	})
}
