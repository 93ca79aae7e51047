package e2e

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// hostileWays are the texts of the objects of the plugin hostile, which name how it reads.
var hostileWays = []string{
	"missing names", "selectors of nothing", "selectors of all", "long selectors", "everything", "everything by name",
	"other fields", "many values", "indexes", "pages", "missing names and fails", "selectors of nothing and fails", "selectors of all and fails", "long selectors and fails",
}

const (
	lootBytes    = 20 << 20 // of all objects together that the plugin hostile may read
	honestEchoes = 50
)

// benchmarkHostile measures the host with a plugin that reads as much as it can
// (testdata/hostile) for SCALE_SECONDS (60), beside the plugin echo, whose objects are
// edited 20 times a second. The hostile one has some objects, and may read 20 MiB, in few
// objects with thousands of labels or in many small ones. One of these is changed each
// second all the time, which costs the API server much if it is large.
//
//	before-MiB-RSS, MiB-peak  memory of the host before the first hostile run, and at most
//	alone-..., honest-p50-ms, -p99-ms, -max-ms  from the time at which the other plugin's
//	        object was to be edited until its status shows the edit, before the first
//	        hostile run and beside them; an edit that is not shown counts with the time
//	        until the end
//	honest-missing  edits that the status does not show a minute later
//	healthz-p50-ms, -p99-ms, -max-ms  from the time at which a request of /healthz was due
//	        to its response; they are 20 ms apart
//	healthz-failed  requests without a response of 200
//	hostile-runs  runs of the hostile plugin
func benchmarkHostile(b *testing.B) {
	for _, objects := range lootObjects {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			once(b, func(b *testing.B) {
				kind := installKind(b, "Hostile")
				installCRD(b, testdata+"echo/crd.yaml")
				restoreAfter(b)
				newHostile(b, kind, objects).measure()
			})
		})
	}
}

// lootObjects are how many objects the plugin hostile may read.
var lootObjects = []int{20, 10_000}

// besideHonest measures a host beside whose honest plugin, echo, something else happens.
type besideHonest struct {
	b        *testing.B
	honest   *echoFleet
	host     *process
	duration time.Duration
}

type hostile struct {
	besideHonest
	kind schema.GroupVersionResource
	ns   string // of the hostile plugin
	many int    // objects that it may read
}

// newHostile creates what the plugin hostile may read.
func newHostile(b *testing.B, kind schema.GroupVersionResource, many int) *hostile {
	b.Helper()
	h := &hostile{
		besideHonest: besideHonest{b: b, honest: newEchoFleet(b, honestEchoes, echoBytes)},
		kind:         kind, ns: namespace(b), many: many,
	}
	must(b, inParallel(many, func(i int) error {
		_, err := objects.Resource(configMaps).Namespace(h.ns).Create(b.Context(), h.loot(i), metav1.CreateOptions{})
		return err
	}))
	return h
}

// loot returns an object for the plugin to read. Half of it is labels.
func (h *hostile) loot(i int) *unstructured.Unstructured {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	half := lootBytes / h.many / 2
	labels := map[string]string{}
	for range half / 110 {
		labels[randomText(random, 50)] = randomText(random, 50)
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": randomText(random, half)},
	}}
	o.SetName(fmt.Sprintf("loot-%d", i))
	o.SetLabels(maps.Clone(labels))
	return o
}

func (h *hostile) measure() {
	h.b.Helper()
	h.duration = time.Duration(number(h.b, "SCALE_SECONDS", 60)) * time.Second
	plugins := newDirectory(h.b)
	for _, name := range []string{"hostile", "echo"} {
		plugins.install(name, wasmbuild.Build(h.b, wasmbuild.TinyGo, testdata+name))
	}
	h.host = start(h.b, plugins, "", "", quietlyIn(h.b.TempDir()))
	h.host.awaitRunning("hostile", 1)
	h.host.awaitRunning("echo", 1)
	h.honest.watch()
	h.honest.next()
	must(h.b, inParallel(honestEchoes, func(i int) error { return h.honest.write(i, time.Now()) }))
	h.host.awaitIdle(h.b, honestEchoes)
	h.editBeside(h.changeLoot).report(h.b, "alone")
	h.b.ReportMetric(h.host.memoryMiB("VmRSS"), "before-MiB-RSS")
	h.createHostile()
	h.editBeside(h.changeLoot, h.probe).report(h.b, "honest")
	must(h.b, h.host.Exited())
	h.b.ReportMetric(h.host.memoryMiB("VmHWM"), "MiB-peak")
	metrics := h.host.Metrics()
	h.b.ReportMetric(metrics.Sum("controller_runtime_reconcile_total", "controller", "hostile/hostile"), "hostile-runs")
	if metrics.Sum("thole_reconcile_errors_total", "class", "panic", "controller", "hostile/hostile") > 0 {
		h.b.Fatal("the plugin hostile has panicked and not read")
	}
}

// createHostile creates the objects of the plugin hostile, one for each way.
func (h *hostile) createHostile() {
	h.b.Helper()
	for i, way := range hostileWays {
		must(h.b, tryCreate(h.b.Context(), h.kind, "Hostile", h.ns, fmt.Sprintf("hostile-%d", i), map[string]any{"text": way}))
	}
}

// editBeside is edit while others work.
func (h *besideHonest) editBeside(others ...func() error) latencies {
	h.b.Helper()
	var group errgroup.Group
	for _, other := range others {
		group.Go(other)
	}
	took := h.edit()
	must(h.b, group.Wait())
	return took
}

// edit changes each honest object in turn, and returns how long their statuses took. A
// change that a busy API server refuses is one that the status does not show.
func (h *besideHonest) edit() (took latencies) {
	h.b.Helper()
	const interval = 50 * time.Millisecond
	missing := 0
	for round := 0; round < max(1, int(h.duration/(honestEchoes*interval))) && missing == 0; round++ {
		h.honest.next()
		_ = paced(honestEchoes, interval, h.honest.write)
		var these latencies
		these, missing = h.honest.awaitStatuses(time.Minute)
		took = append(took, these...)
	}
	h.b.ReportMetric(float64(missing), "honest-missing")
	return took
}

// changeLoot changes objects that the hostile plugin has read, and with that wakes it. A
// busy API server may refuse a change; there are others.
func (h *hostile) changeLoot() error {
	const interval = time.Second
	return paced(int(h.duration/interval), interval, func(i int, _ time.Time) error {
		_ = patch(h.b.Context(), configMaps, h.ns, fmt.Sprintf("loot-%d", i%min(h.many, 10)),
			fmt.Sprintf(`{"metadata":{"annotations":{"changed":"%d"}}}`, i))
		return nil
	})
}

// probe requests /healthz.
func (h *besideHonest) probe() error {
	const interval = 20 * time.Millisecond
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	url := "http://" + h.host.Address() + "/healthz"
	var (
		mu     sync.Mutex
		took   latencies
		failed int
	)
	err := paced(int(h.duration/interval), interval, func(_ int, due time.Time) error {
		response, err := client.Get(url)
		ok := err == nil && response.StatusCode == http.StatusOK
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(due))
		if !ok {
			failed++
		}
		return nil
	})
	took.report(h.b, "healthz")
	h.b.ReportMetric(float64(failed), "healthz-failed")
	return err
}
