package wasmtest_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const (
	bareDir       = "sdk/sdktest/wasmtest/testdata/bare"
	fullDir       = "sdk/sdktest/wasmtest/testdata/full"
	podmanagerDir = "plugins/podmanager"
)

// compiled runs a test with a plugin as compiled by each toolchain.
func compiled(t *testing.T, dir string, test func(t *testing.T, toolchain wasmbuild.Toolchain, wasm []byte)) {
	t.Helper()
	for _, toolchain := range wasmbuild.Toolchains {
		t.Run(string(toolchain), func(t *testing.T) { test(t, toolchain, wasmbuild.Build(t, toolchain, dir)) })
	}
}

// TestPluginImportsOnlyWhatItCalls: an import is a requirement that the host checks
// against the policy.
func TestPluginImportsOnlyWhatItCalls(t *testing.T) {
	for dir, want := range map[string][]string{
		bareDir:       {"input", "output"},
		podmanagerDir: {"get", "input", "log", "output"},
		fullDir:       {"get", "input", "list", "log", "output"},
	} {
		name := dir[strings.LastIndex(dir, "/")+1:]
		t.Run(name, func(t *testing.T) {
			compiled(t, dir, func(t *testing.T, _ wasmbuild.Toolchain, binary []byte) {
				if got := tholeImports(t, binary); !slices.Equal(got, want) {
					t.Errorf("imports are %q, expected %q", got, want)
				}
			})
		})
	}
}

// tholeImports returns the functions of thole/v1 that a module imports, sorted.
func tholeImports(t *testing.T, binary []byte) (names []string) {
	t.Helper()
	r := wasm.NewReader(binary[len(wasm.Header):])
	for r.Len() > 0 {
		id, body := wasm.SectionID(r.Byte()), r.Sub(r.U32())
		if id != wasm.ImportSection {
			continue
		}
		for range body.Count("imports", 4, body.Len()) {
			module, name := body.Name(), body.Name()
			if body.Byte(); module == abi.ImportModule {
				names = append(names, name)
			}
			body.U32() // the signature; plugins import functions only
		}
		if body.Err() != nil {
			t.Fatal(body.Err())
		}
	}
	slices.Sort(names)
	return names
}

func TestIntegersOfAnyTypeKeepTheirValue(t *testing.T) {
	compiled(t, bareDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "bare", wasm)
		const given = `{"id":9007199254740993,"list":[18446744073709551615,-9223372036854775808,1.5]}`
		o := w.Create(`{"apiVersion":"example.com/v1","kind":"Bare","metadata":{"namespace":"default","name":"it"},"spec":{"size":1,"any":` + given + `}}`)
		w.Reconcile("default/it").ExpectReady().ExpectWrites("status")
		var raw sdk.Raw
		if w.Get(o, &raw); !strings.Contains(string(raw), `"any":`+given+`,"map":`+given) {
			t.Errorf("the status is of %s", raw)
		}
		w.Reconcile("default/it").ExpectReady().ExpectNoWrites()
	})
}

func TestCompiledPodManager(t *testing.T) {
	compiled(t, podmanagerDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w := wasmtest.New(t, "podmanager", wasm)
		manager := w.Create(`{"apiVersion":"example.thole.dev/v1","kind":"PodManager",
			"metadata":{"namespace":"default","name":"web"},"spec":{"image":"nginx","args":["-v"]}}`)
		pod := sdk.Kind{APIVersion: "v1", Kind: "Pod"}.Ref("default", "web")

		w.Reconcile("default/web").ExpectReady().
			ExpectWrites("finalizer", "apply v1 Pod default/web", "status").ExpectEvents("PodCreated")
		w.Reconcile("default/web").ExpectReady().ExpectWrites("status")
		w.Reconcile("default/web").ExpectReady().ExpectNoWrites()

		w.Change(manager, `{"spec":{"image":"nginx:2"}}`)
		w.Reconcile("default/web").ExpectReady().ExpectWrites("apply v1 Pod default/web", "status")
		w.Change(manager, `{"spec":{"args":["-q"]}}`)
		w.Reconcile("default/web").ExpectWaiting("ReplacingPod")
		w.Settle("default/web").ExpectReady()
		w.Change(manager, `{"spec":{"image":""}}`)
		w.Reconcile("default/web").ExpectStalled("InvalidImage")
		w.Change(manager, `{"spec":{"image":7}}`)
		if run := w.Reconcile("default/web").ExpectStalled("InvalidSpec"); run.Message != "spec.image: expected a string, found number" {
			t.Errorf("the message is %q", run.Message)
		}
		w.Change(manager, `{"spec":{"image":"nginx"}}`)

		w.Delete(manager)
		w.Reconcile("default/web").ExpectWaiting("PodTerminating").ExpectWrites("delete v1 Pod default/web", "status")
		w.Reconcile("default/web").ExpectWrites("release").ExpectLog("cleaned up")
		w.ExpectGone(manager)
		w.ExpectGone(pod)
	})
}

// full returns a world with one object, and a function that runs it with a spec.
func full(t *testing.T, wasm []byte) (w *sdktest.World, do func(spec string) *sdktest.Run) {
	t.Helper()
	w = wasmtest.New(t, "full", wasm, "full")
	ref := w.Create(`{"apiVersion":"example.com/v1","kind":"Full","metadata":{"namespace":"default","name":"it"},"spec":{"do":""}}`)
	return w, func(spec string) *sdktest.Run {
		t.Helper()
		w.Change(ref, `{"spec":null}`)
		w.Change(ref, `{"spec":`+spec+`}`)
		return w.Reconcile("default/it")
	}
}

func expectStatus(t *testing.T, r *sdktest.Run, patch string) {
	t.Helper()
	if string(r.Result.Status) != patch {
		t.Errorf("the status patch is %s, expected %s", r.Result.Status, patch)
	}
}

func TestCompiledPluginUsesWholeSDK(t *testing.T) {
	compiled(t, fullDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		w, do := full(t, wasm)
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"m1","labels":{"a":"b"}},"data":{"k":"v"}}`)
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"m2","labels":{"a":"b"}},"data":{"k":"\u00e9\n"}}`)

		expectStatus(t, do(`{"do":"list"}`).ExpectReady().ExpectNext(time.Minute), `{"text":"m1=v m2=é\n "}`)
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"m3"},"data":{"k":"no"}}`)
		w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"m4"},"data":{"k":"4","l":"not read"}}`)
		for _, size := range []string{"1", "2", "3", "0"} {
			w.Change(sdk.Kind{APIVersion: "example.com/v1", Kind: "Full"}.Ref("default", "it"), `{"status":null}`)
			expectStatus(t, do(`{"do":"pages","size":`+size+`}`).ExpectReady(), `{"text":"m1=v m2=é\n m4=4 "}`)
		}
		w.Change(sdk.Kind{APIVersion: "example.com/v1", Kind: "Full"}.Ref("default", "it"), `{"status":{"text":null}}`)
		run := do(`{"do":"copy","parts":{"x":[{"name":"a","share":0.25,"when":"now","any":{"b":[1,null,"c"]},"raw":{"big":9007199254740993}}]}}`)
		expectStatus(t, run.ExpectReady(),
			`{"parts":{"x":[{"name":"a","share":0.25,"when":"now","any":{"b":[1,null,"c"]},"raw":{"big":9007199254740993}}]}}`)
		do(`{"do":"read"}`).ExpectRetry("NotFound").ExpectClass(abi.ClassRetry)
		do(`{"do":"apply"}`).ExpectReady().ExpectEvents("Applied").ExpectCondition("Done", sdk.True, "Applied").
			ExpectCondition("Reached", sdk.True, "Applied").
			ExpectWrites("apply v1 ConfigMap default/it", "apply v1 ConfigMap default/map", "status")
		expectStatus(t, do(`{"do":"time"}`).ExpectReady(), `{"time":"2026-01-01T00:00:00Z"}`)
		do(`{"do":"stall"}`).ExpectStalled("Wrong")
		do(`{"do":"wait"}`).ExpectWaiting("Soon").ExpectNext(time.Second)
		do(`{"do":"process"}`).ExpectWaiting("Processing").ExpectNext(time.Second).ExpectEvents("Processed")
		do(`{"do":"nothing","every":"5m"}`).ExpectReady().ExpectNext(5 * time.Minute)
		do(`{"do":"random"}`).ExpectReady()
		do(`{"do":"memo"}`).ExpectReady().ExpectNext(time.Second)
		expectStatus(t, do(`{"do":"memo"}`), `{"text":"m"}`)
		do(`{"do":"nothing"}`).ExpectReady().ExpectLog("doing")
	})
}

// TestUnencodableValueDoesNotTrap: encoding/json panics internally for a value that
// it cannot encode, and TinyGo cannot recover.
func TestUnencodableValueDoesNotTrap(t *testing.T) {
	compiled(t, fullDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		_, do := full(t, wasm)
		do(`{"do":"nan"}`).ExpectStalled("InvalidStatus")
		do(`{"do":"channel"}`).ExpectStalled("InvalidObject")
		do(`{"do":5}`).ExpectStalled("InvalidSpec")
		do(`{"do":"panic"}`).ExpectClass(abi.ClassPanic)
		do(`{"do":"nothing"}`).ExpectReady()
	})
}

// TestMemoryIsResetAfterRun: whatever a run leaves in its heap, the next one starts
// from the same memory.
func TestMemoryIsResetAfterRun(t *testing.T) {
	guest := wasmtest.Load(t, "full", build(t, fullDir))
	reconcile := func(spec string) string {
		t.Helper()
		back, err := guest.Reconcile(t.Context(), call("full", spec))
		if err != nil {
			t.Fatal(err)
		}
		return string(back.Output)
	}
	want := reconcile(`{"do":"keep"}`)
	if !strings.Contains(want, `"text":"i"`) {
		t.Fatalf("the first run returns %s", want)
	}
	for _, size := range []string{"1", "5000", "60000", "1000000", "3"} {
		for range 3 {
			reconcile(`{"do":"grow","size":` + size + `}`)
		}
		if got := reconcile(`{"do":"keep"}`); got != want {
			t.Errorf("after runs that used %s bytes: %s", size, got)
		}
	}
	if stats := guest.Stats(); stats.Mode != "reset" {
		t.Errorf("stats = %+v", stats)
	}
}

// TestToolchainsReturnSameBytes compares TinyGo with standard Go.
func TestToolchainsReturnSameBytes(t *testing.T) {
	tinygo := wasmtest.Load(t, "full", build(t, fullDir))
	standard := wasmtest.Load(t, "full", wasmbuild.Build(t, wasmbuild.Go, fullDir))
	for _, spec := range []string{
		`{"do":""}`, `{"do":"copy","parts":{}}`, `{"do":"copy","parts":{"b":[],"a":null,"\u2028<&>":[{"name":"\u0000\ud800","share":1e21}]}}`,
		`{"do":"copy","parts":{"x":[{"name":"a","share":1e-7,"any":{"z":1.0,"a":12345678901234567890}}]}}`,
		`{"do":"apply"}`, `{"do":"read"}`, `{"do":"list"}`, `{"do":"time"}`, `{"do":"nan"}`, `{"do":"channel"}`, `{"do":"random"}`, `{"do":"memo"}`,
		`{"do":1}`, `{"do":"copy","parts":{"x":{"y":1}}}`, `{"do":"copy","parts":{"x":[{"share":"1"}]}}`, `[]`, `null`, `{"DO":"stall"}`,
	} {
		a, err := tinygo.Reconcile(t.Context(), call("full", spec))
		if err != nil {
			t.Fatal(err)
		}
		b, err := standard.Reconcile(t.Context(), call("full", spec))
		if err != nil {
			t.Fatal(err)
		}
		if a.Code != b.Code || !bytes.Equal(a.Output, b.Output) {
			t.Errorf("%s: TinyGo returns %d %s\nGo returns %d %s", spec, a.Code, a.Output, b.Code, b.Output)
		}
	}
}

func call(controller, spec string) sandbox.Call {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return sandbox.Call{Now: now, Request: abi.EncodeRequestParts(&abi.Request{
		Controller: controller, Now: now,
		Object: []byte(`{"apiVersion":"example.com/v1","kind":"Full","metadata":{"namespace":"default","name":"it","uid":"u"},"spec":` + spec + `}`),
	})}
}
