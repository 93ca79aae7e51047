package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// managedPods is how many Pods the plugin of benchmarkPods manages.
const managedPods = 10

// benchmarkPods measures what a plugin that manages ten Pods costs in a cluster with
// SCALE_PODS (50,000) others, in all namespaces: the plugin pods, which follows nothing
// but its own ("managed-"), and the example podmanager, which follows all of them. The
// figures "alone-" are those of the first in the cluster without the other Pods.
//
//	cached-pods, cache-KiB  Pods in the cache of the host, and the bytes of JSON there
//	MiB-RSS, MiB-peak       memory of the host when it is idle, and at most
func benchmarkPods(b *testing.B) {
	once(b, func(b *testing.B) {
		installCRD(b, "plugins/podmanager/crd.yaml")
		installCRD(b, testdata+"stamp/crd.yaml")
		restoreAfter(b)
		ns := namespace(b)
		must(b, inParallel(managedPods, func(i int) error {
			return errors.Join(
				tryCreate(b.Context(), podManagers, "PodManager", ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"}),
				tryCreate(b.Context(), stamps, "Stamp", ns, fmt.Sprintf("stamp-%d", i), map[string]any{"text": "a:1"}),
			)
		}))
		managed := podsPlugin{b, "pods", newDirectory(b), b.TempDir()}
		managed.plugins.install("pods", wasmbuild.Build(b, wasmbuild.TinyGo, testdata+"pods"))
		managed.measure("alone-")
		createPods(b, number(b, "SCALE_PODS", 50_000))
		managed.measure("managed-")
		whole := podsPlugin{b, "podmanager", newDirectory(b), b.TempDir()}
		whole.plugins.install("podmanager", podmanager(b, wasmbuild.TinyGo))
		whole.measure("whole-")
	})
}

// podsPlugin is a plugin that manages Pods.
type podsPlugin struct {
	b        *testing.B
	name     string
	plugins  directory
	cacheDir string
}

// measure starts the host and reports what it uses.
func (p podsPlugin) measure(prefix string) {
	p.b.Helper()
	host := start(p.b, p.plugins, "", "", quietlyIn(p.cacheDir))
	host.awaitRunning(p.name, 1)
	host.awaitIdle(p.b, managedPods)
	const kind = "v1 Pod"
	metrics := host.Metrics()
	p.b.ReportMetric(metrics.Sum("thole_cache_objects", "kind", kind), prefix+"cached-pods")
	p.b.ReportMetric(metrics.Sum("thole_cache_bytes", "kind", kind)/(1<<10), prefix+"cache-KiB")
	p.b.ReportMetric(host.usageAfterGC().rss, prefix+"MiB-RSS")
	p.b.ReportMetric(host.memoryMiB("VmHWM"), prefix+"MiB-peak")
	host.stop()
	host.expectNoErrors()
}

// createPods creates Pods that no plugin has to do with, of some 2 KB.
func createPods(b *testing.B, many int) {
	b.Helper()
	ns := namespace(b)
	must(b, inParallel(many, func(i int) error {
		_, err := clients.CoreV1().Pods(ns).Create(b.Context(), foreignPod(i), metav1.CreateOptions{})
		return err
	}))
}

func foreignPod(i int) *corev1.Pod {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	env := make([]corev1.EnvVar, 8)
	for n := range env {
		env[n] = corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", n), Value: randomText(random, 80)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%06d", i), Labels: map[string]string{"app": fmt.Sprintf("app-%d", i%500), "tier": "other"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/other:1", Env: env}}},
	}
}
