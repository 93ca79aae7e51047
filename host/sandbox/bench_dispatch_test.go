package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/testdata/bench/appliance"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// dispatchFunc goes from an object in the cache to an encoded status.
type dispatchFunc func() ([]byte, error)

const (
	benchJSON  = "host/sandbox/testdata/bench/json"
	benchTyped = "host/sandbox/testdata/bench/typed"
)

// BenchmarkDispatch reconciles one object of some 3 KB in several ways: by guests,
// as this host does it, and by the alternatives to it. Each also reports its time
// as a multiple of that of native-unstructured. The two take turns, so that the
// ratio is meaningful on a busy machine too.
func BenchmarkDispatch(b *testing.B) {
	baseline := nativeUnstructured(b)
	for _, way := range []struct {
		name string
		open func(testing.TB) dispatchFunc
	}{
		{"tinygo-json", guestOf(wasmbuild.TinyGo, benchJSON, Plugin{}, Config{})},
		{"tinygo-typed", guestOf(wasmbuild.TinyGo, benchTyped, Plugin{}, Config{})},
		{"go", guestOf(wasmbuild.Go, benchJSON, Plugin{}, Config{})},
		{"go-namespaces", inNamespaces},
		{"fresh-instance", freshInstance},
		{"close-on-context-done", closeOnContextDone},
		{"native-unstructured", nativeUnstructured},
		{"native-typed", nativeTyped},
		{"webhook", webhook},
		{"fork", fork},
	} {
		b.Run(way.name, func(b *testing.B) {
			one := way.open(b)
			checkStatus(b, one)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := one(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(ratio(b, one, baseline), "x-native-unstructured")
		})
	}
}

// ratio returns the median of how much longer one takes than other, in alternating
// turns of about a millisecond each.
func ratio(b *testing.B, one, other dispatchFunc) float64 {
	turns := func(way dispatchFunc) int {
		began := time.Now()
		must(b, way)
		return max(1, int(time.Millisecond/max(1, time.Since(began))))
	}
	n, m := turns(one), turns(other)
	var all []float64
	for range 101 {
		all = append(all, perCall(b, one, n)/perCall(b, other, m))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func perCall(tb testing.TB, way dispatchFunc, n int) float64 {
	began := time.Now()
	for range n {
		must(tb, way)
	}
	return float64(time.Since(began)) / float64(n)
}

func must(tb testing.TB, way dispatchFunc) []byte {
	tb.Helper()
	status, err := way()
	if err != nil {
		tb.Fatal(err)
	}
	return status
}

// TestBenchmarkedWaysProduceTheSameStatus so that the benchmark compares like with like.
func TestBenchmarkedWaysProduceTheSameStatus(t *testing.T) {
	for _, way := range []func(testing.TB) dispatchFunc{
		guestOf(wasmbuild.TinyGo, benchJSON, Plugin{}, compiledGuests()),
		nativeUnstructured, nativeTyped, webhook, fork,
	} {
		checkStatus(t, way(t))
	}
}

func checkStatus(tb testing.TB, way dispatchFunc) {
	tb.Helper()
	var old struct{ Status json.RawMessage }
	if err := json.Unmarshal(benchRaw(tb), &old); err != nil {
		tb.Fatal(err)
	}
	merged, err := rawjson.MergePatch(old.Status, must(tb, way)) // a guest's status is a merge patch
	if err != nil {
		tb.Fatal(err)
	}
	var have appliance.Status
	if err := json.Unmarshal(merged, &have); err != nil {
		tb.Fatal(err)
	}
	spec := benchSpec()
	want := appliance.Reconcile(benchName, &spec)
	if fmt.Sprintf("%+v", have) != fmt.Sprintf("%+v", want) {
		tb.Fatalf("status\n%+v, want\n%+v", have, want)
	}
}

// guestOf dispatches as host/dispatch does: the object's bytes are encoded into a
// request, and the result of the call is decoded.
func guestOf(toolchain wasmbuild.Toolchain, dir string, p Plugin, config Config) func(testing.TB) dispatchFunc {
	return func(tb testing.TB) dispatchFunc {
		p.Name, p.Wasm = "appliance", wasmbuild.Build(tb, toolchain, dir)
		if config.CacheDir == "" {
			config = compiledGuests()
		}
		return dispatchTo(tb, load(tb, newSandbox(tb, config), p))
	}
}

// inNamespaces dispatches to a guest of standard Go, whose state stays in its
// namespace, objects of one namespace after the other.
func inNamespaces(tb testing.TB) dispatchFunc {
	p := Plugin{Name: "appliance", Wasm: wasmbuild.Build(tb, wasmbuild.Go, benchJSON)}
	g, calls := load(tb, newSandbox(tb, compiledGuests()), p), 0
	return dispatchIn(tb, g, func() string {
		calls++
		return strconv.Itoa(calls % 100)
	})
}

func dispatchTo(tb testing.TB, g *Guest) dispatchFunc {
	return dispatchIn(tb, g, func() string { return "" })
}

func dispatchIn(tb testing.TB, g *Guest, namespace func() string) dispatchFunc {
	raw := benchRaw(tb)
	return func() ([]byte, error) {
		request := abi.EncodeRequestParts(&abi.Request{Controller: "appliance", Object: raw, Now: callTime})
		out, err := g.Reconcile(tb.Context(), Call{Request: request, Namespace: namespace(), Now: callTime})
		if err != nil {
			return nil, err
		}
		result, err := abi.DecodeResult(out.Output)
		if err != nil {
			return nil, err
		}
		return result.Status, nil
	}
}

// freshInstance makes an instance from the image for each call instead of restoring
// the last one.
func freshInstance(tb testing.TB) dispatchFunc {
	p := Plugin{Name: "appliance", Wasm: wasmbuild.Build(tb, wasmbuild.TinyGo, benchJSON)}
	g := load(tb, newSandbox(tb, compiledGuests()), p)
	g.mode = modeFresh
	return dispatchTo(tb, g)
}

// closeOnContextDone ends guests by the engine's own means instead of fuel. That
// does not end all guests.
func closeOnContextDone(tb testing.TB) dispatchFunc {
	s := newSandbox(tb, Config{})
	s.metering.Unchecked = true
	var err error
	s.store, err = native.Open(tb.Context(), native.Config{HostModules: s.config.addHostModules, Prepare: prepare, Tune: func(c wazero.RuntimeConfig) wazero.RuntimeConfig {
		return c.WithCloseOnContextDone(true)
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return dispatchTo(tb, load(tb, s, Plugin{Name: "appliance", Wasm: wasmbuild.Build(tb, wasmbuild.TinyGo, benchJSON)}))
}

// BenchmarkDispatchParallel keeps every core busy with calls of one guest.
func BenchmarkDispatchParallel(b *testing.B) {
	one := guestOf(wasmbuild.TinyGo, benchJSON, Plugin{}, Config{})(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := one(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// object is the kind as a typed client has it.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              appliance.Spec   `json:"spec"`
	Status            appliance.Status `json:"status,omitzero"`
}

// nativeUnstructured is a controller over unstructured informers: what the
// cache holds is copied, converted, reconciled, and the status is encoded.
func nativeUnstructured(tb testing.TB) dispatchFunc {
	cached := &unstructured.Unstructured{}
	if err := cached.UnmarshalJSON(benchRaw(tb)); err != nil {
		tb.Fatal(err)
	}
	return func() ([]byte, error) {
		var typed object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cached.DeepCopy().Object, &typed); err != nil {
			return nil, err
		}
		return json.Marshal(appliance.Reconcile(typed.Name, &typed.Spec))
	}
}

// nativeTyped is a controller with a typed client and generated deep copies.
func nativeTyped(tb testing.TB) dispatchFunc {
	cached := &object{}
	if err := json.Unmarshal(benchRaw(tb), cached); err != nil {
		tb.Fatal(err)
	}
	return func() ([]byte, error) {
		typed := cached.deepCopy()
		return json.Marshal(appliance.Reconcile(typed.Name, &typed.Spec))
	}
}

func (o *object) deepCopy() *object {
	out := &object{TypeMeta: o.TypeMeta, Spec: *o.Spec.DeepCopy(), Status: o.Status}
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Services = slices.Clone(o.Status.Services)
	return out
}

// webhook calls a server on loopback, over a connection that stays open.
func webhook(tb testing.TB) dispatchFunc {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var typed object
		if err := json.NewDecoder(r.Body).Decode(&typed); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(appliance.Reconcile(typed.Name, &typed.Spec))
	}))
	tb.Cleanup(server.Close)
	raw := benchRaw(tb)
	return func() ([]byte, error) {
		response, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		return io.ReadAll(response.Body)
	}
}

// fork starts a static binary for each reconcile.
func fork(tb testing.TB) dispatchFunc {
	binary := filepath.Join(tb.TempDir(), "fork")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./testdata/bench/fork")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build: %v\n%s", err, text)
	}
	raw := benchRaw(tb)
	return func() ([]byte, error) {
		run := exec.CommandContext(tb.Context(), binary)
		run.Stdin = bytes.NewReader(raw)
		return run.Output()
	}
}

const benchName = "front-office"

func benchSpec() appliance.Spec {
	seconds := int64(300)
	s := appliance.Spec{
		Replicas: 3, Schedule: "*/15 * * * *", Selector: map[string]string{"app": "front-office", "tier": "web"},
		Tolerated: []appliance.Toleration{
			{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute", Seconds: &seconds},
			{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute", Seconds: &seconds},
		},
		Budget: &appliance.Budget{MinAvailable: 2, Share: 0.5},
	}
	for _, name := range []string{"server", "metrics", "cache"} {
		s.Services = append(s.Services, appliance.Service{
			Name: name, Image: "registry.example.com/office/" + name + ":v1.42.0",
			Command: []string{"/bin/" + name, "--listen=0.0.0.0:8080", "--config=/etc/office/" + name + ".yaml", "--log-format=json"},
			Env: []appliance.EnvVar{
				{Name: "POD_NAMESPACE", Value: "offices"},
				{Name: "LOG_LEVEL", Value: "info"},
				{Name: "GREETING", Value: `say "hello" to <everyone> \o/`},
				{Name: "UPSTREAM", Value: "http://back-office.offices.svc:8080"},
			},
			Ports:  []appliance.Port{{Name: "http", Number: 8080}, {Name: "admin", Number: 9090}},
			Limits: appliance.Sizes{MilliCPU: 500, MemoryMiB: 512},
		})
	}
	return s
}

// benchRaw returns the object as the cache holds it.
func benchRaw(tb testing.TB) []byte {
	tb.Helper()
	yes := true
	o := &object{
		TypeMeta: metav1.TypeMeta{APIVersion: "bench.thole.dev/v1", Kind: "Appliance"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "offices", Name: benchName, UID: "8c9f0f8e-4dd3-4a7a-a3f3-0f1b7f1d4f60", ResourceVersion: "1048576", Generation: 7,
			CreationTimestamp: metav1.NewTime(callTime.Add(-24 * time.Hour)),
			Labels:            map[string]string{"app.kubernetes.io/name": "office", "app.kubernetes.io/part-of": "business", "team": "front"},
			Annotations:       map[string]string{"example.com/contact": "front@example.com", "example.com/notes": strings.Repeat("kept as it is ", 8)},
			Finalizers:        []string{"appliance.thole.dev/appliance"},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "bench.thole.dev/v1", Kind: "Building", Name: "main", UID: "2b2f6b0e-6cb3-4e92-9ad5-65dfd6b8a9c2", Controller: &yes}},
		},
		Spec: benchSpec(),
	}
	o.Status = appliance.Reconcile(benchName, &o.Spec)
	o.Status.Phase = "Pending"
	raw, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}
