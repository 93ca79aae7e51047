package wasmtest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const (
	configsyncDir = "plugins/configsync"
	kexDaemonDir  = "plugins/kopfexample-daemon"
	mykindDir     = "plugins/mykind"
	ttlDir        = "plugins/ttl"
)

// sources creates a ConfigMap and the namespaces into which it is copied.
func sources(w *sdktest.World, namespaces, size int) (source sdk.Ref) {
	w.CrossNamespace()
	for i := range namespaces {
		w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n%03d","labels":{"team":"a"}}}`, i))
	}
	return w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":%q},
		"metadata":{"namespace":"from","name":"shared","annotations":{"configsync.thole.dev/namespaces":"team=a"}}}`, strings.Repeat("x", size)))
}

func TestCompiledConfigSync(t *testing.T) {
	compiled(t, configsyncDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "configsync", wasm, "configmap")
		source := sources(w, 300, 10)
		copied := sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}.Ref("n007", "shared")

		for _, want := range []int{251, 50, 0} {
			if run := w.Reconcile("from/shared").ExpectSuccess(); len(run.Writes) != want {
				t.Errorf("%d writes, expected %d", len(run.Writes), want)
			}
		}
		w.Change(copied, `{"data":{"b":"c"}}`)
		w.Reconcile("from/shared").ExpectSuccess().ExpectWrites("delete v1 ConfigMap n007/shared")
		w.Reconcile("from/shared").ExpectSuccess().ExpectWrites("apply v1 ConfigMap n007/shared")
		w.Reconcile("n007/shared").ExpectEmpty().ExpectNoWrites()
		w.FailWrite("apply v1 ConfigMap n000/shared", "Forbidden")
		w.Change(source, `{"data":{"a":"new"}}`)
		w.Reconcile("from/shared").ExpectRetry("Forbidden")
		if run := w.Reconcile("from/shared").ExpectSuccess(); len(run.Writes) != 250 {
			t.Errorf("%d writes after the failure", len(run.Writes))
		}
		w.Change(source, `{"metadata":{"annotations":{"configsync.thole.dev/namespaces":"team in"}}}`)
		w.Reconcile("from/shared").ExpectStalled("InvalidSelector")
		w.Delete(source)
		for range 2 {
			w.Reconcile("from/shared")
		}
		w.ExpectGone(source)
		w.ExpectGone(copied)
	})
}

// TestConfigSyncFitsIntoItsMemory has the largest runs that the README promises:
// every copy exists, and as many as fit into a result are written.
func TestConfigSyncFitsIntoItsMemory(t *testing.T) {
	wasm := build(t, configsyncDir)
	for _, c := range []struct{ namespaces, size, writes int }{{240, 50 << 10, 20}, {12, 1<<20 - 100, 1}} {
		w := wasmtest.New(t, "configsync", wasm, "configmap")
		sources(w, c.namespaces, c.size)
		for i := range c.namespaces {
			w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":%q},"metadata":{"namespace":"n%03d","name":"shared",
				"labels":{"configsync.thole.dev/source":"from.shared"},"annotations":{"configsync.thole.dev/source":"from/shared"}}}`,
				strings.Repeat("y", c.size), i))
		}
		if run := w.Reconcile("from/shared").ExpectSuccess(); len(run.Writes) != 1+c.writes {
			t.Errorf("%d copies of %d bytes: %d writes, expected the finalizer and %d", c.namespaces, c.size, len(run.Writes), c.writes)
		}
	}
}

func TestCompiledTTL(t *testing.T) {
	compiled(t, ttlDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "ttl", wasm, "job")
		job := w.Create(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"default","name":"j",
			"annotations":{"ttl.thole.dev/expires-after":"1d12h"}},"spec":{"template":{}},"status":{"active":1}}`)
		annotate := func(annotations string) { w.Change(job, `{"metadata":{"annotations":`+annotations+`}}`) }

		w.Reconcile("default/j").ExpectSuccess().ExpectNoWrites().ExpectNext(36 * time.Hour)
		annotate(`{"ttl.thole.dev/expires-after":"soon"}`)
		w.Reconcile("default/j").ExpectStalled("InvalidTTL").ExpectNoWrites()
		annotate(`{"ttl.thole.dev/expires-after":null,"ttl.thole.dev/expires-at":"9999-12-31T23:59:59+01:00"}`)
		w.Reconcile("default/j").ExpectSuccess().ExpectNoWrites()
		annotate(`{"ttl.thole.dev/expires-at":null}`)
		w.Reconcile("default/j").ExpectEmpty().ExpectNoWrites()
		annotate(`{"ttl.thole.dev/expires-at":"2026-01-01T00:00:05Z"}`)
		w.Advance(5 * time.Second)
		w.Reconcile("default/j").ExpectSuccess().ExpectWrites("delete batch/v1 Job default/j").ExpectEvents("Expired")
		w.ExpectGone(job)
	})
}

func TestCompiledKopfExampleDaemon(t *testing.T) {
	w := wasmtest.New(t, "kopfexample-daemon", build(t, kexDaemonDir))
	kex := w.Create(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"namespace":"default","name":"k"},"spec":{"replicas":2}}`)
	w.Reconcile("default/k").ExpectReady().ExpectWrites("finalizer", "apply v1 Pod default/k-0", "apply v1 Pod default/k-1", "status")
	w.Step("default/k").ExpectEvents(sdk.DaemonStart).ExpectSignals("2")
	w.Reconcile("default/k").ExpectReady().ExpectWrites("status")

	w.Delete(sdk.Kind{APIVersion: "v1", Kind: "Pod"}.Ref("default", "k-0"))
	w.Step("default/k").ExpectEvents(sdk.DaemonIndex).ExpectSignals("1")
	w.Reconcile("default/k").ExpectReady().ExpectWrites("apply v1 Pod default/k-0", "status")
	w.Step("default/k").ExpectEvents(sdk.DaemonIndex).ExpectSignals("2")
	w.Reconcile("default/k").ExpectReady().ExpectWrites("status")
	w.Reconcile("default/k").ExpectNoWrites()

	w.Delete(kex)
	w.Reconcile("default/k").ExpectWrites("release").LastStep.ExpectSuccess()
	w.ExpectGone(kex)
}

// TestCompiledMyKind sends requests, reviews and converts as a module.
func TestCompiledMyKind(t *testing.T) {
	w := wasmtest.New(t, "mykind", build(t, mykindDir))
	stored := map[string]string{}
	w.ServeHTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if stored[r.URL.Path] = string(body); r.Method == http.MethodDelete {
			delete(stored, r.URL.Path)
		}
	}))
	w.Configure(map[string]string{"service": "https://info.example.com"})
	v1 := `{"apiVersion":"example.thole.dev/v1","kind":"MyKind","metadata":{"namespace":"default","name":"m","uid":"u"},"spec":{"someInfo":"a","otherInfo":"b"}}`
	v2 := w.ReviewCreate(w.Convert(v1, "v2").Object).ExpectAllowed().Object
	m := w.Create(v2)
	w.RoundTrip(v1, "v2")
	w.Reconcile("default/m").ExpectReady()
	if got := stored["/info/default/m"]; got != `{"someInfo":"a","otherInfo":"b"}` || !strings.Contains(string(v2), `"audience":"everyone"`) {
		t.Errorf("the service has %q of %s", stored, v2)
	}
	w.Delete(m)
	w.Reconcile("default/m")
	if w.ExpectGone(m); len(stored) > 0 {
		t.Errorf("the service has %q", stored)
	}
}
