package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/await"
)

// askingPlugin returns a plugin each run of which sends its request to a URL by HTTP, waits for
// the answer, and succeeds. So the server sees every run as the plugin sees it, and determines
// how long it takes.
func askingPlugin(name, url string, controllers ...abi.Controller) []byte {
	const manifestAt, resultAt, callAt = 1 << 10, 24 << 10, 32 << 10
	for i := range controllers {
		controllers[i].Sections = append(controllers[i].Sections, abi.Section{Name: contract.Name, Value: contract.Encode([]contract.Host{{Host: "*", Methods: []string{http.MethodPost}}})})
	}
	manifest := abi.EncodeManifest(&abi.Manifest{
		Name: name, Version: "1", Controllers: controllers,
	})
	result := abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess})
	// The body is what follows: the request of the run takes the place of this one byte.
	call := contract.EncodeCall(&contract.Call{Method: http.MethodPost, URL: url, Timeout: 300_000, Body: []byte{'x'}})
	call = call[:len(call)-1]
	ptrLen, ptr := []wasm.ValueType{wasm.I32, wasm.I32}, []wasm.ValueType{wasm.I32}
	var m tck.Module
	input := m.Import(abi.ImportModule, abi.ImportInput, ptrLen, nil)
	output := m.Import(abi.ImportModule, abi.ImportOutput, ptrLen, nil)
	ask := m.Import(abi.ImportModule, contract.Import, ptrLen, []wasm.ValueType{wasm.I64})
	write := func(offset int32, text []byte) [][]byte {
		m.Data(offset, text)
		return [][]byte{tck.I32Const(offset), tck.I32Const(int32(len(text))), tck.Call(output), tck.I32Const(0)}
	}
	m.Data(callAt, call)
	m.Memory(2)
	m.ExportMemory(abi.ExportMemory)
	m.Export(abi.ExportMarker, m.Func(nil, nil, nil))
	m.Export(abi.ExportDescribe, m.Func(nil, ptr, nil, write(manifestAt, manifest)...))
	m.Export(abi.ExportReconcile, m.Func(ptr, ptr, nil, append([][]byte{
		tck.I32Const(callAt + int32(len(call))), tck.LocalGet(0), tck.Call(input),
		tck.I32Const(callAt), tck.LocalGet(0), tck.I32Const(int32(len(call))), tck.I32Add, tck.Call(ask), tck.Drop,
	}, write(resultAt, result)...)...))
	return m.Bytes()
}

// asked is what a test needs of the request of a run.
type asked struct {
	Controller string
	Object     struct{ Metadata struct{ Name string } }
	Reasons    []string
	Timers     []string
}

// asking is the server of an [askingPlugin].
type asking struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	runs    map[string][]asked       // by controller and name of the object
	running map[string]int           // how many of them are under way
	held    map[string]chan struct{} // those that are not answered before it is closed
}

func newAsking(t *testing.T) *asking {
	a := &asking{t: t, runs: map[string][]asked{}, running: map[string]int{}, held: map[string]chan struct{}{}}
	a.server = httptest.NewServer(a)
	t.Cleanup(a.server.Close)
	return a
}

// config is the policy and the configuration that allow a plugin to ask.
func (a *asking) config(plugin string) (policy, config string) {
	entry := fmt.Sprintf("{host: '%s', scheme: http, methods: [POST], addresses: [loopback]}", strings.TrimPrefix(a.server.URL, "http://"))
	return "limits: {timeout: 5m}\nhttp: {hosts: [" + entry + "]}\n", "limits: {timeout: 5m}\nallow: {http: {" + plugin + ": [" + entry + "]}}\n"
}

// ServeHTTP implements http.Handler.
func (a *asking) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var run asked
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		a.t.Errorf("the request of a run cannot be read: %v", err)
	}
	key := run.Controller + " " + run.Object.Metadata.Name
	a.mu.Lock()
	a.runs[key] = append(a.runs[key], run)
	if a.running[key]++; a.running[key] > 1 {
		a.t.Errorf("%s is run %d times at once", key, a.running[key])
	}
	held := a.held[key]
	a.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[key]--
}

// hold keeps the runs of an object under way until release is called.
func (a *asking) hold(key string) (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := make(chan struct{})
	a.held[key] = held
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.held, key)
		close(held)
	}
}

// of returns the runs of an object so far.
func (a *asking) of(key string) []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.runs[key])
}

func (a *asking) await(key string, runs int) {
	a.t.Helper()
	await.Until(a.t, fmt.Sprintf("%s has run %d times", key, runs), func() bool { return len(a.of(key)) >= runs })
}

// While an object runs, nothing runs it a second time: no change, no request and no timer. What
// came meanwhile is one more run, with all of its reasons. Other objects do not wait for it.
func TestAnObjectIsNeverRunTwiceAtOnce(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d, a := namespace(t), newDirectory(t), newAsking(t)
	policy, config := a.config("asking")
	d.installPolicy("asking", policy)
	d.install("asking", askingPlugin("asking", a.server.URL,
		abi.Controller{Name: "main", For: stampKind.All()},
		abi.Controller{
			Name: "timed", For: stampKind.All(), Conditions: abi.Conditions{Target: "Timed"},
			Sections: []abi.Section{{Name: "timers", Value: []byte(`[{"name":"tick","interval":300}]`)}},
		}))
	releaseTimed := a.hold("timed a")
	p := start(t, d, ns, config)
	p.awaitRunning("asking", 1)
	createStamp(t, ns, "a", "1")
	a.await("timed a", 1)
	await.Until(t, "a is Ready", func() bool { return ready(get(t, stamps, ns, "a")) })
	before := len(a.of("main a"))
	// This run has nothing to write. Otherwise it would have to write in conflict with the
	// changes below, and would be repeated because of that too.
	releaseMain := a.hold("main a")
	annotate(t, stamps, ns, "a", "e2e.thole.dev/run", "now")
	a.await("main a", before+1)

	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", "2"))
	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", "3"))
	annotate(t, stamps, ns, "a", "reconcile.thole.dev/requestedAt", "now")
	createStamp(t, ns, "b", "1") // the host learns of it after those changes
	a.await("main b", 1)
	a.await("timed b", 4) // several times by its timer, whose interval has thus passed for a as well
	for key, want := range map[string]int{"main a": before + 1, "timed a": 1} {
		if n := len(a.of(key)); n != want {
			t.Errorf("%s has run %d times more while its run was under way", key, n-want)
		}
	}

	releaseMain()
	a.await("main a", before+2)
	createStamp(t, ns, "c", "1")
	a.await("main c", 1)
	switch runs := a.of("main a")[before+1:]; {
	case len(runs) != 1:
		t.Errorf("the three changes of a have led to %d runs: %+v", len(runs), runs)
	case !slices.Contains(runs[0].Reasons, "primary") || !slices.Contains(runs[0].Reasons, "request"):
		t.Errorf("the run after those changes has the reasons %q", runs[0].Reasons)
	}

	releaseTimed()
	await.Until(t, "the timer runs a again", func() bool {
		runs := a.of("timed a")
		return slices.Equal(runs[len(runs)-1].Timers, []string{"tick"}) && len(runs) > 1
	})
	p.stop()
	p.expectNoErrors()
}
