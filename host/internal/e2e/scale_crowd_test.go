package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// benchmarkCrowd measures how long the edit of an object takes beside the change of a
// ConfigMap that SCALE_CROWD (100,000) objects have read, each of which runs again and has
// nothing to write. A hundred edits, 50 ms apart, are made alone and then beside a change,
// five times.
//
//	fill-s  until every object has its status
//	alone-, beside-p50-ms, -p99-ms, -max-ms  from the time at which a spec was to be
//	        changed until a watch shows the status
//	crowd-s  from the change of the ConfigMap until all have run, at most
//	crowd-left  objects that had not run when the last edit was shown, at least
//
// With 100,000 objects it takes some minutes, most of them to fill the cluster.
func benchmarkCrowd(b *testing.B) {
	once(b, func(b *testing.B) {
		installCRD(b, testdata+"echo/crd.yaml")
		restoreAfter(b)
		c := newCrowd(b)
		var alone, beside latencies
		longest, left := 0.0, float64(c.many)
		for round := range 5 {
			alone = append(alone, c.edit(b, 100, 50*time.Millisecond)...)
			begin, before := time.Now(), c.runs()
			must(b, patch(b.Context(), configMaps, c.ns, "shared", fmt.Sprintf(`{"data":{"round":"%d"}}`, round)))
			beside = append(beside, c.edit(b, 100, 50*time.Millisecond)...)
			left = min(left, before+float64(c.many)-c.runs())
			poll(b, "all have run", func() bool { return c.runs() >= before+float64(c.many) })
			longest = max(longest, time.Since(begin).Seconds())
			c.host.awaitIdle(b, 0)
		}
		alone.report(b, "alone")
		beside.report(b, "beside")
		b.ReportMetric(longest, "crowd-s")
		b.ReportMetric(left, "crowd-left")
		c.host.stop()
		c.host.expectNoErrors()
	})
}

type crowd struct {
	*echoFleet
	b    *testing.B
	host *process
}

// newCrowd creates the ConfigMap and the objects, and starts a host with the plugin crowd.
func newCrowd(b *testing.B) *crowd {
	b.Helper()
	c := &crowd{echoFleet: newEchoFleet(b, number(b, "SCALE_CROWD", 100_000), 0), b: b}
	shared := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	shared.SetName("shared")
	_, err := objects.Resource(configMaps).Namespace(c.ns).Create(b.Context(), shared, metav1.CreateOptions{})
	must(b, err)
	plugins, begin := newDirectory(b), time.Now()
	plugins.install("crowd", wasmbuild.Build(b, wasmbuild.TinyGo, testdata+"crowd"))
	c.host = start(b, plugins, c.ns, "", quietlyIn(b.TempDir()))
	c.host.awaitRunning("crowd", 1)
	c.next()
	must(b, inParallel(c.many, func(i int) error { return c.write(i, time.Now()) }))
	c.host.awaitIdle(b, c.many)
	b.ReportMetric(time.Since(begin).Seconds(), "fill-s")
	c.watch()
	return c
}

// runs returns how many runs the plugin has made.
func (c *crowd) runs() float64 {
	return c.host.Metrics().Sum("controller_runtime_reconcile_total", "controller", "crowd/crowd")
}
