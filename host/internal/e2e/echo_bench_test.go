package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

const (
	echoBytes       = 2400
	echoConcurrency = 8
)

// BenchmarkEcho compares thole with a native controller that does the same: an Echo of
// 2.4 KB, a ConfigMap that it owns, and its status. The native one is
// host/internal/nativeecho, on controller-runtime with typed objects. Both have the same
// control plane in turns, eight workers, and no limit of requests. ECHO_OBJECTS Echoes
// (3000) are created, ECHO_PER_SECOND (50), which leaves two processors some reserve, then
// each is changed, then each is changed again; ECHO_ROUNDS (3) times for both. Each figure
// is the median of the rounds, as that of thole, of native, and as their ratio:
//
//	create-, first-, later-p50-ms, -p99-ms  from the time at which an Echo was to be
//	        created, changed first, changed later, until a watch shows its status
//	create-, first-, later-calls  requests for Echoes and ConfigMaps per Echo, without
//	        watches and the writes of the benchmark, as the API server counts them
//	cpu-s   processor time of the process, from its ready state to the last status
//	apiserver-cpu-s  that of the API server meanwhile, with the requests of the benchmark
//	RSS-MiB, peak-MiB  memory of the process after the last status, and its maximum
//
// It takes twenty minutes.
func BenchmarkEcho(b *testing.B) {
	once(b, func(b *testing.B) {
		installCRD(b, testdata+"echo/crd.yaml")
		restoreAfter(b)
		rounds := number(b, "ECHO_ROUNDS", 3)
		figures := map[string]map[string][]float64{}
		for round := range rounds {
			for _, turn := range []int{round, round + 1} { // each side is the first one in turns
				side := echoSides[turn%len(echoSides)]
				measured := measureEchoes(b, side, number(b, "ECHO_OBJECTS", 3000))
				if figures[side.name] == nil {
					figures[side.name] = map[string][]float64{}
				}
				for name, figure := range measured {
					figures[side.name][name] = append(figures[side.name][name], figure)
				}
			}
		}
		reportSides(b, figures)
	})
}

func reportSides(b *testing.B, figures map[string]map[string][]float64) {
	b.Helper()
	for _, name := range slices.Sorted(maps.Keys(figures["thole"])) {
		thole, native := median(figures["thole"][name]), median(figures["native"][name])
		b.ReportMetric(thole, "thole-"+name)
		b.ReportMetric(native, "native-"+name)
		b.ReportMetric(thole/native, "ratio-"+name)
		b.Logf("%-14s thole %8.2f %.2f  native %8.2f %.2f  ratio %.2f",
			name, thole, figures["thole"][name], native, figures["native"][name], thole/native)
	}
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// measureEchoes runs one side for so many Echoes and returns its figures.
func measureEchoes(b *testing.B, side echoSide, many int) map[string]float64 {
	b.Helper()
	f := newEchoFleet(b, many, echoBytes)
	f.watch()
	pid, stop := side.start(b, f.ns)
	defer stop()
	figures, interval := map[string]float64{}, time.Second/time.Duration(number(b, "ECHO_PER_SECOND", 50))
	cpu, server := cpuSeconds(b, pid), settled(b).cpu
	for _, phase := range []string{"create", "first", "later"} {
		before := settled(b)
		f.next()
		must(b, paced(many, interval, f.write))
		took, missing := f.awaitStatuses(benchLimit)
		if missing > 0 {
			b.Fatalf("%s: %s: %d statuses are missing", side.name, phase, missing)
		}
		load := settled(b).since(before)
		figures[phase+"-calls"] = (load.writes+load.reads)/float64(many) - 1 // without those of this benchmark
		figures[phase+"-p50-ms"] = milliseconds(took.quantile(.5))
		figures[phase+"-p99-ms"] = milliseconds(took.quantile(.99))
	}
	figures["cpu-s"] = cpuSeconds(b, pid) - cpu
	figures["apiserver-cpu-s"] = settled(b).cpu - server
	figures["RSS-MiB"] = memoryMiB(b, pid, "VmRSS")
	figures["peak-MiB"] = memoryMiB(b, pid, "VmHWM")
	return figures
}

// settled returns the load of the API server by Echoes and ConfigMaps when there has
// been no more of it for a second.
func settled(b *testing.B) (now load) {
	b.Helper()
	var since time.Time
	poll(b, "nobody requests Echoes and ConfigMaps", func() bool {
		before := now
		now = apiServerLoad(b, "echoes", "configmaps")
		if before.writes != now.writes || before.reads != now.reads || since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) > time.Second
	})
	return now
}

// Both sides write the same, or the comparison means nothing.
func TestRelease_NativeEchoWritesTheSameAsPlugin(t *testing.T) {
	t.Parallel()
	var written []string
	for _, side := range echoSides {
		f := newEchoFleet(t, 1, echoBytes)
		_, stop := side.start(t, f.ns)
		var all string
		for revision := range 2 {
			f.next()
			must(t, f.write(0, time.Now()))
			await.Until(t, side.name+" has written the status", func() bool {
				o := get(t, echoes, f.ns, echoName(0))
				shown, _, _ := unstructured.NestedInt64(o.Object, "status", "revision")
				return shown == int64(revision+1) && ready(o)
			})
			all += comparable(t, f.ns)
		}
		stop()
		written = append(written, all)
	}
	if written[0] != written[1] {
		t.Errorf("%s has written\n%s\n%s has written\n%s", echoSides[0].name, written[0], echoSides[1].name, written[1])
	}
}

// comparable returns what a side has written, without what must differ. That includes the
// annotations, where thole records what it has applied.
func comparable(t *testing.T, ns string) string {
	t.Helper()
	child, echo := get(t, configMaps, ns, echoName(0)), get(t, echoes, ns, echoName(0))
	for _, o := range []*unstructured.Unstructured{child, echo} {
		for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace", "annotations"} {
			unstructured.RemoveNestedField(o.Object, "metadata", name)
		}
	}
	owners := child.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = "the same"
	}
	child.SetOwnerReferences(owners)
	conditions, _, _ := unstructured.NestedSlice(echo.Object, "status", "conditions")
	for _, c := range conditions {
		c.(map[string]any)["lastTransitionTime"] = metav1.Time{}.String()
	}
	must(t, unstructured.SetNestedSlice(echo.Object, conditions, "status", "conditions"))
	return fmt.Sprintf("%v\n%v\n", child.Object, echo.Object["status"])
}

// echoSide is a controller of Echoes that can be started.
type echoSide struct {
	name  string
	start func(tb testing.TB, ns string) (pid int, stop func())
}

var echoSides = []echoSide{{"thole", startEcho}, {"native", startNativeEcho}}

// startEcho starts thole with the plugin echo.
func startEcho(tb testing.TB, ns string) (pid int, stop func()) {
	tb.Helper()
	d := newDirectory(tb)
	d.install("echo", wasmbuild.Build(tb, wasmbuild.TinyGo, testdata+"echo"))
	p := start(tb, d, ns, fmt.Sprintf("limits: {concurrency: %d}", echoConcurrency), quietlyIn(tb.TempDir()))
	p.awaitRunning("echo", 1)
	return p.PID(), p.stop
}
