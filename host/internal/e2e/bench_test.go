package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// benchLimit is how long a benchmark waits for anything.
const benchLimit = 30 * time.Minute

// measured are the names of the benchmarks that this process has measured.
var measured = map[string]bool{}

// once runs a benchmark that takes minutes once in this process: -count would multiply
// them. The time of all of its phases together means nothing and is not reported.
func once(b *testing.B, measure func(b *testing.B)) {
	b.Helper()
	defer b.ReportMetric(0, "ns/op")
	if measured[b.Name()] {
		return
	}
	measured[b.Name()] = true
	for b.Loop() {
		measure(b)
	}
}

// number returns the positive number in an environment variable, or the default.
func number(b *testing.B, variable string, byDefault int) int {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%q is not a positive number", variable, text)
	}
	return n
}

// restoreAfter puts the control plane back into its present state when the benchmark
// ends. That takes seconds; the deletion of 100,000 objects takes many minutes. It also
// restarts the API server now. Install CRDs before: some time after a change of a CRD the
// API server ends all watches of its kind, but not if it has been restarted since.
func restoreAfter(b *testing.B) {
	b.Helper()
	name := strings.ReplaceAll(b.Name(), "/", "-")
	must(b, cluster.Save(name))
	b.Cleanup(func() {
		if err := cluster.Restore(name); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkObjects creates PodManagers at once and waits until each is Ready with a
// Pod of its own. Then it starts the host again, which must write nothing. Two
// sizes show what grows faster than the number of objects.
//
// Seconds are wall-clock time and depend on the machine, whose processors the host
// shares with the control plane and this test. host/apiserver-cpu is the processor
// time of the host relative to that of the API server for the same objects.
func BenchmarkObjects(b *testing.B) {
	for _, many := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("objects=%d", many), func(b *testing.B) {
			once(b, func(b *testing.B) {
				f := newFleet(b, many)
				f.measureCreation()
				f.measureRestart()
			})
		})
	}
}

// fleet is many PodManagers in a namespace, and the host that runs them.
type fleet struct {
	b        *testing.B
	many     int
	ns       string
	plugins  directory
	cacheDir string
}

func newFleet(b *testing.B, many int) *fleet {
	b.Helper()
	f := &fleet{b: b, many: many, ns: namespace(b), plugins: newDirectory(b), cacheDir: b.TempDir()}
	installCRD(b, "plugins/podmanager/crd.yaml")
	f.plugins.install("podmanager", podmanager(b, wasmbuild.TinyGo))
	return f
}

func (f *fleet) start() *process {
	f.b.Helper()
	return start(f.b, f.plugins, f.ns, "limits: {concurrency: 16}", quietlyIn(f.cacheDir))
}

// measureCreation measures from the creation of the first object until the last one
// is Ready and the host idle.
func (f *fleet) measureCreation() {
	f.b.Helper()
	host := f.start()
	host.awaitIdle(f.b, 0)
	allReady := f.awaitReady()
	server, cpu, begin := f.apiServerLoad(), host.cpu(), time.Now()
	f.create()
	created := time.Since(begin)
	var ready time.Time
	select {
	case ready = <-allReady:
	case <-time.After(benchLimit):
		f.b.Fatalf("not all are Ready after %s", benchLimit)
	}
	host.awaitIdle(f.b, f.many)
	cpu, server, many := host.cpu()-cpu, f.apiServerLoad().since(server), float64(f.many)
	f.b.ReportMetric(created.Seconds(), "created-s")
	f.b.ReportMetric(ready.Sub(begin).Seconds(), "all-ready-s")
	f.b.ReportMetric(cpu, "host-cpu-s")
	f.b.ReportMetric(cpu/many*1e6, "host-cpu-us/object")
	f.b.ReportMetric(cpu/server.cpu, "host/apiserver-cpu")
	f.b.ReportMetric(host.memoryMiB("VmRSS"), "host-MiB-RSS")
	f.b.ReportMetric(host.memoryMiB("VmHWM"), "host-MiB-peak")
	f.b.ReportMetric((server.writes-many)/many, "writes/object") // without those of this benchmark
	f.b.ReportMetric(server.reads/many, "reads/object")
	host.stop()
	host.expectNoErrors()
}

// measureRestart measures from the start of another host until it has reconciled
// every object.
func (f *fleet) measureRestart() {
	f.b.Helper()
	server, begin := f.apiServerLoad(), time.Now()
	host := f.start()
	idleSince := host.awaitIdle(f.b, f.many)
	server = f.apiServerLoad().since(server)
	f.b.ReportMetric(idleSince.Sub(begin).Seconds(), "restart-settled-s")
	f.b.ReportMetric(host.cpu(), "restart-cpu-s")
	f.b.ReportMetric(host.memoryMiB("VmRSS"), "restart-MiB-RSS")
	f.b.ReportMetric(server.reads, "restart-reads")
	f.b.ReportMetric(server.writes+server.events, "restart-writes")
	if server.writes+server.events != 0 {
		f.b.Fatalf("%v writes and %v events after a restart, with nothing to do", server.writes, server.events)
	}
	host.stop()
	host.expectNoErrors()
}

// create creates the objects, eight at a time.
func (f *fleet) create() {
	f.b.Helper()
	must(f.b, inParallel(f.many, func(i int) error {
		return tryCreate(f.b.Context(), podManagers, "PodManager", f.ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"})
	}))
}

// inParallel calls f with 0 to n-1, eight at a time, and returns the first error.
func inParallel(n int, f func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

// awaitReady returns a channel that gets the time when the last of the objects
// became Ready and recorded its Pod. It uses an informer, because polling would add
// load.
func (f *fleet) awaitReady() <-chan time.Time {
	f.b.Helper()
	done := make(chan time.Time, 1)
	names := map[string]bool{} // of Ready objects; used by the informer's goroutine alone
	observe := func(o any) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || names[u.GetName()] || !recordsPod(u) {
			return
		}
		if names[u.GetName()] = true; len(names) == f.many {
			done <- time.Now()
		}
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 0, f.ns, nil)
	informer := factory.ForResource(podManagers).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: observe, UpdateFunc: func(_, o any) { observe(o) },
	})
	must(f.b, err)
	factory.Start(f.b.Context().Done())
	if !cache.WaitForCacheSync(f.b.Context().Done(), informer.HasSynced) {
		f.b.Fatal("the informer has not synced")
	}
	f.b.Cleanup(factory.Shutdown)
	return done
}

// awaitIdle waits until the host has made so many runs and has become idle, and
// returns when it became idle.
func (p *process) awaitIdle(b *testing.B, runs int) time.Time {
	b.Helper()
	var d idleDetector
	poll(b, fmt.Sprintf("the host is idle after %d runs", runs), func() bool {
		m := p.Metrics()
		return d.idle(m) && d.runs >= float64(runs) && m.Sum("thole_plugin_info") > 0
	})
	return d.since
}

// cpu returns the processor time that the process has used so far, in seconds.
func (p *process) cpu() float64 {
	p.tb.Helper()
	return cpuSeconds(p.tb, p.PID())
}

func (f *fleet) apiServerLoad() load { return apiServerLoad(f.b, "podmanagers", "pods") }

// load is what the API server has done so far.
type load struct {
	cpu           float64 // seconds of processor time
	writes, reads float64 // requests for the resources, without watches
	events        float64 // writes of Events, which clients send with a delay
}

func (l load) since(before load) load {
	return load{l.cpu - before.cpu, l.writes - before.writes, l.reads - before.reads, l.events - before.events}
}

func apiServerLoad(b *testing.B, resources ...string) load {
	b.Helper()
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	must(b, err)
	m := tholetest.Metrics(text)
	count := func(resource string, verbs ...string) (n float64) {
		for _, verb := range verbs {
			n += m.Sum("apiserver_request_total", "resource", resource, "verb", verb)
		}
		return n
	}
	write := []string{"PATCH", "APPLY", "PUT", "POST", "DELETE", "DELETECOLLECTION"}
	l := load{cpu: m.Sum("process_cpu_seconds_total"), events: count("events", write...)}
	for _, resource := range resources {
		l.writes += count(resource, write...)
		l.reads += count(resource, "GET", "LIST")
	}
	return l
}

// poll is await.Within with a constant interval: it must not be late, because the
// benchmark measures the time.
func poll(b testing.TB, what string, done func() bool) {
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
