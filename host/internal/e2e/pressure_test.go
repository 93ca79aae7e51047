package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

var replicas = schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "replicas"}

// startReplicas starts thole with the plugin replicas.
func startReplicas(tb testing.TB, ns string) *process {
	tb.Helper()
	installCRD(tb, "host/internal/e2e/testdata/replicas/crd.yaml")
	d := newDirectory(tb)
	d.install("replicas", wasmbuild.Build(tb, wasmbuild.TinyGo, "host/internal/e2e/testdata/replicas"))
	p := start(tb, d, ns, "")
	p.awaitRunning("replicas", 1)
	return p
}

func createReplica(tb testing.TB, ns, name string, n int) {
	tb.Helper()
	must(tb, tryCreate(tb.Context(), replicas, "Replica", ns, name, map[string]any{"replicas": int64(n)}))
}

// statusReaches waits until a number in the status of a Replica is n, and returns how
// long that took.
func statusReaches(tb testing.TB, ns, name, field string, n int) time.Duration {
	tb.Helper()
	begin := time.Now()
	await.Until(tb, fmt.Sprintf("status.%s of %s is %d", field, name, n), func() bool {
		o, err := objects.Resource(replicas).Namespace(ns).Get(tb.Context(), name, metav1.GetOptions{})
		must(tb, err)
		have, _, _ := unstructured.NestedInt64(o.Object, "status", field)
		return have == int64(n)
	})
	return time.Since(begin)
}

func configMapsOf(tb testing.TB, ns, name string) []unstructured.Unstructured {
	tb.Helper()
	l, err := objects.Resource(configMaps).Namespace(ns).List(tb.Context(), metav1.ListOptions{LabelSelector: "replica=" + name})
	must(tb, err)
	return l.Items
}

// A rollout is many writing runs in a row. None of them is the plugin's own work: each
// is woken by a child that becomes ready, or by somebody who scales.
func TestARolloutIsNotAWriteLoop(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := startReplicas(t, ns)
	const many = 8
	createReplica(t, ns, "r", many)
	statusReaches(t, ns, "r", "replicas", many)
	for i, child := range configMapsOf(t, ns, "r") {
		annotate(t, configMaps, ns, child.GetName(), "ready", "1")
		statusReaches(t, ns, "r", "ready", i+1)
	}
	for n := range 4 {
		must(t, patch(t.Context(), replicas, ns, "r", fmt.Sprintf(`{"spec":{"replicas":%d}}`, many+n)))
		statusReaches(t, ns, "r", "replicas", many+n)
	}
	if loops := p.Metrics().Sum("thole_write_loop_runs_total"); loops != 0 {
		t.Errorf("%v runs counted as those of a write loop", loops)
	}
	p.expectNoErrors()
}
