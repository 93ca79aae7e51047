package daemon

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkDaemons has a thousand daemons of the plugin pulse, compiled by TinyGo, with the real
// sandbox, queue, worker and edges. It reports
//
//	B/daemon   the heap that each takes while it waits, with all that is remembered of its key
//	stop-ms    the time until all have made their last step
//	busy-rate  how much fuel one uses that never waits, as a part of what it may use
//	spin-rate  the same for one that never returns, and whose object is edited all the time
func BenchmarkDaemons(b *testing.B) {
	c := Capability()
	s, err := sandbox.New(b.Context(), sandbox.Config{Capabilities: []sandbox.Capability{{Name: c.Name, Check: c.Check, Exports: c.Exports}}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background())
	guest, err := s.Load(b.Context(), sandbox.Plugin{
		Name: "pulse", Wasm: wasmbuild.Build(b, wasmbuild.TinyGo, "host/internal/scenario/testdata/pulse"),
	})
	if err != nil {
		b.Fatal(err)
	}
	const many, measured = 1000, 5 * time.Second
	for b.Loop() {
		had := heapInUse()
		w := newPulses(b, guest, many, "")
		stop := w.run()
		for w.steps.Load() < 3*many {
			<-time.After(time.Millisecond)
		}
		<-time.After(100 * time.Millisecond) // the last signals
		b.ReportMetric(float64(heapInUse()-had)/many, "B/daemon")
		if n := w.plugin.running.Load(); n != many {
			b.Fatalf("%d daemons run", n)
		}
		began := time.Now()
		stop()
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "stop-ms")
		if n := w.steps.Load(); n != 4*many || w.plugin.running.Load() != 0 {
			b.Fatalf("%d steps, want %d, and %d daemons run", n, 4*many, w.plugin.running.Load())
		}
		for _, mode := range []string{"busy", "spin"} {
			w := newPulses(b, guest, 1, mode)
			stop := w.run()
			for end := time.Now().Add(measured); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
				if mode == "spin" {
					w.generation.Add(1)
					w.queue.Add(object.Key{Namespace: "ns", Name: "pulse-0"}, queue.Cause{Reason: abi.ReasonPrimary})
				}
			}
			b.ReportMetric(float64(w.fuel.Load())/measured.Seconds()/float64(w.plugin.policy.Load().Fuel), mode+"-rate")
			stop()
		}
	}
	b.ReportMetric(0, "ns/op")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// pulses is a controller of objects with daemons.
type pulses struct {
	dispatch.Effects // the methods below are the only ones used
	*sandbox.Guest
	mode       string
	generation atomic.Int64
	plugin     *plugin
	c          *dispatch.Controller
	queue      *queue.Queue
	edges      *edges.Index
	kind       *edges.Kind
	steps      atomic.Int64
	fuel       atomic.Int64
}

func newPulses(b *testing.B, guest *sandbox.Guest, objects int, mode string) *pulses {
	w := &pulses{Guest: guest, mode: mode, queue: queue.New(queue.Config{}), plugin: newPlugin("pulse", newMetrics(telemetry.NewMetrics()))}
	limits := (&Policy{Number: objects}).WithDefaults()
	w.plugin.policy.Store(&limits)
	w.edges = edges.New(edges.Config{PluginBytes: 1 << 30, HostBytes: 1 << 30})
	w.kind = w.edges.Kind(abi.Kind{APIVersion: "v1", Kind: "ConfigMap"})
	m := guest.Manifest()
	follows, err := scope.OfManifest(m, nil)
	if err != nil {
		b.Fatal(err)
	}
	w.c = dispatch.New(dispatch.Config{
		Plugin: "pulse", Name: "pulse", Workers: 8, Cache: pulseCache{w: w}, Metrics: pulseMetrics{}, Logger: hclog.NewNullLogger(),
		Hooks: []dispatch.Hooks{(&controller{plugin: w.plugin}).part().Hooks},
	}, w.queue, &dispatch.Revision{
		Number: 1, Guest: w, Effects: w, Controller: m.Controllers[0], Scopes: follows.Controllers[0],
		Reads: rights.Entries{{Groups: []string{rights.Any}, Kinds: []string{rights.Any}, Verbs: []string{rights.Any}}}.ReadsOf(&m.Controllers[0]),
	})
	for i := range objects {
		w.queue.Add(object.Key{Namespace: "ns", Name: fmt.Sprint("pulse-", i)}, queue.Cause{Reason: abi.ReasonPrimary})
	}
	return w
}

func (w *pulses) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.c.Run(ctx) }()
	return func() { cancel(); <-ended }
}

// Call counts the steps and their fuel.
func (w *pulses) Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error) {
	out, err := w.Guest.Call(ctx, export, call)
	if export == contract.Export {
		w.fuel.Add(out.Usage.Fuel)
		w.steps.Add(1)
	}
	return out, err
}

func (*pulses) HasFinalizer(effect.Target) bool { return true }

func (*pulses) EnsureFinalizer(context.Context, effect.Target) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (*pulses) PerformIntents(context.Context, effect.Target, *abi.Result) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (*pulses) WriteStatus(context.Context, effect.Target, effect.Status) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (*pulses) Release(context.Context, effect.Target, bool) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (*pulses) EmitEvent(effect.Target, *abi.Event) {}

// pulseCache has every object.
type pulseCache struct {
	dispatch.Cache
	w *pulses
}

func (c pulseCache) Get(key object.Key) (*object.Object, bool) {
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"scenario.thole.dev/v1","kind":"Pulse","metadata":{"namespace":%q,"name":%q,"uid":%[2]q,"generation":%d},"spec":{"mode":%q}}`, key.Namespace, key.Name, c.w.generation.Load()+1, c.w.mode), abi.Kind{})
	return o, err == nil
}

func (pulseCache) Full() bool                        { return false }
func (pulseCache) Forget(object.Key)                 {}
func (pulseCache) Namespaced(abi.Kind) (bool, error) { return true, nil }
func (c pulseCache) Begin(key object.Key, _ map[abi.Kind]scope.Reads) dispatch.Reads {
	return pulseReads{Run: c.w.edges.Begin(edges.Owner{Controller: "pulse/pulse", Key: key}), kind: c.w.kind}
}

// pulseReads finds nothing, and remembers that.
type pulseReads struct {
	*edges.Run
	kind *edges.Kind
}

func (r pulseReads) Get(_ abi.Kind, key object.Key, part fieldpath.Set) (*object.Object, error) {
	r.Run.Get(r.kind, key, part)
	return nil, nil
}

func (pulseReads) List(cache.Reading) (cache.List, error) { return cache.List{}, cache.ErrNotSynced }
func (pulseReads) Close()                                 {}

type pulseMetrics struct{ dispatch.Metrics }

func (pulseMetrics) Started() func(outcome.Decision, float64) {
	return func(outcome.Decision, float64) {}
}
func (pulseMetrics) Looped() {}
