package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// benchLimit is how long to wait for anything.
const benchLimit = 10 * time.Minute

// benched are the sizes that this process has measured: each takes a minute or
// more, and -count would multiply that.
var benched = map[int]bool{}

// BenchmarkObjects creates PodManagers at once and waits until each is Ready
// with a Pod of its own; then it starts the host anew, which may write nothing.
// Two sizes, to see what grows faster than their number.
//
// Seconds are those of the wall and depend on the machine, where the control
// plane and this test want the same processors. host/apiserver-cpu tells what
// the host costs in terms of what the API server needs for the same objects.
func BenchmarkObjects(b *testing.B) {
	for _, many := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("objects=%d", many), func(b *testing.B) {
			defer b.ReportMetric(0, "ns/op") // creation and restart together say nothing
			if benched[many] {
				return
			}
			benched[many] = true
			for b.Loop() {
				f := newFleet(b, many)
				f.measureCreation()
				f.measureRestart()
			}
		})
	}
}

// fleet is many PodManagers in a namespace, and the host that runs them.
type fleet struct {
	b    *testing.B
	many int
	ns   string
	dir  string
}

func newFleet(b *testing.B, many int) *fleet {
	b.Helper()
	f := &fleet{b: b, many: many, ns: namespace(b), dir: b.TempDir()}
	installCRD(b, "plugins/podmanager/crd.yaml")
	wasm := wasmbuild.Build(b, wasmbuild.TinyGo, "plugins/podmanager")
	plugins := filepath.Join(f.dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plugins, "podmanager.wasm"), wasm, 0o644); err != nil {
		b.Fatal(err)
	}
	return f
}

// measureCreation reports from the first object's creation until the last is
// Ready and the host at rest.
func (f *fleet) measureCreation() {
	f.b.Helper()
	host := f.start()
	defer host.stop()
	host.awaitRest(0)
	allReady := f.awaitReady()
	server, cpu, start := benchServer(f.b), host.cpu(), time.Now()
	f.create()
	created := time.Since(start)
	var ready time.Time
	select {
	case ready = <-allReady:
	case <-time.After(benchLimit):
		f.b.Fatalf("not all are Ready after %s", benchLimit)
	}
	host.awaitRest(f.many)
	cpu, server, many := host.cpu()-cpu, benchServer(f.b).since(server), float64(f.many)
	f.b.ReportMetric(created.Seconds(), "created-s")
	f.b.ReportMetric(ready.Sub(start).Seconds(), "all-ready-s")
	f.b.ReportMetric(cpu, "host-cpu-s")
	f.b.ReportMetric(cpu/many*1e6, "host-cpu-us/object")
	f.b.ReportMetric(cpu/server.cpu, "host/apiserver-cpu")
	f.b.ReportMetric(host.memory("VmRSS"), "host-MiB-RSS")
	f.b.ReportMetric(host.memory("VmHWM"), "host-MiB-peak")
	f.b.ReportMetric((server.writes-many)/many, "writes/object") // without this test's own
	f.b.ReportMetric(server.reads/many, "reads/object")
}

// measureRestart reports from the start of another host until it has looked at
// every object.
func (f *fleet) measureRestart() {
	f.b.Helper()
	server, start := benchServer(f.b), time.Now()
	host := f.start()
	defer host.stop()
	rest := host.awaitRest(f.many)
	server = benchServer(f.b).since(server)
	f.b.ReportMetric(rest.Sub(start).Seconds(), "restart-settled-s")
	f.b.ReportMetric(host.cpu(), "restart-cpu-s")
	f.b.ReportMetric(host.memory("VmRSS"), "restart-MiB-RSS")
	f.b.ReportMetric(server.reads, "restart-reads")
	f.b.ReportMetric(server.writes+server.events, "restart-writes")
	if server.writes+server.events != 0 {
		f.b.Fatalf("%v writes and %v events after a restart, with nothing to do", server.writes, server.events)
	}
}

// create makes the objects, eight at a time.
func (f *fleet) create() {
	f.b.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range f.many {
		group.Go(func() error {
			return create(f.b.Context(), podManagers, "PodManager", f.ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"})
		})
	}
	if err := group.Wait(); err != nil {
		f.b.Fatal(err)
	}
}

// awaitReady tells when the last of the objects became Ready and knew its Pod.
// An informer tells, as polling would be load.
func (f *fleet) awaitReady() <-chan time.Time {
	f.b.Helper()
	done := make(chan time.Time, 1)
	names := map[string]bool{} // of one goroutine, the informer's
	see := func(o any) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || names[u.GetName()] || !ready(u) || field(u, "status", "podCreated") == "" {
			return
		}
		if names[u.GetName()] = true; len(names) == f.many {
			done <- time.Now()
		}
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 0, f.ns, nil)
	informer := factory.ForResource(podManagers).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
	}); err != nil {
		f.b.Fatal(err)
	}
	factory.Start(f.b.Context().Done())
	if !cache.WaitForCacheSync(f.b.Context().Done(), informer.HasSynced) {
		f.b.Fatal("the informer does not sync")
	}
	f.b.Cleanup(factory.Shutdown)
	return done
}

// poll is await.Within for a benchmark: it asks as often later as at first, for
// what it sees is a measured time.
func poll(b *testing.B, what string, done func() bool) {
	b.Helper()
	deadline := time.Now().Add(benchLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			b.Fatalf("not within %s: %s", benchLimit, what)
		}
		<-tick.C
	}
}
