package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// managedPods is how many Pods the plugin of benchmarkPods manages.
const managedPods = 10

// benchmarkPods measures what a plugin that manages ten Pods costs in a cluster with
// SCALE_PODS (50,000) others: the example podmanager, in all namespaces. The figures
// "alone-" are those of the cluster without the other Pods.
//
//	cached-pods, cache-KiB  Pods in the cache of the host, and the bytes of JSON there
//	MiB-RSS, MiB-peak       memory of the host when it is idle, and at most
//	growth-MiB              how much more of the first the other Pods cost
func benchmarkPods(b *testing.B) {
	once(b, func(b *testing.B) {
		installCRD(b, "plugins/podmanager/crd.yaml")
		restoreAfter(b)
		plugins, cacheDir := newDirectory(b), b.TempDir()
		plugins.install("podmanager", podmanager(b, wasmbuild.TinyGo))
		ns := namespace(b)
		must(b, inParallel(managedPods, func(i int) error {
			return tryCreate(b.Context(), podManagers, "PodManager", ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"})
		}))
		alone := measurePods(b, "alone-", plugins, cacheDir)
		createPods(b, number(b, "SCALE_PODS", 50_000))
		b.ReportMetric(measurePods(b, "", plugins, cacheDir)-alone, "growth-MiB")
	})
}

// measurePods starts the host, reports what it uses, and returns its memory.
func measurePods(b *testing.B, prefix string, plugins directory, cacheDir string) (rss float64) {
	b.Helper()
	host := start(b, plugins, "", "", quietlyIn(cacheDir))
	host.awaitRunning("podmanager", 1)
	host.awaitIdle(b, managedPods)
	const kind = "v1 Pod"
	metrics := host.Metrics()
	b.ReportMetric(metrics.Sum("thole_cache_objects", "kind", kind), prefix+"cached-pods")
	b.ReportMetric(metrics.Sum("thole_cache_bytes", "kind", kind)/(1<<10), prefix+"cache-KiB")
	rss = host.usageAfterGC().rss
	b.ReportMetric(rss, prefix+"MiB-RSS")
	b.ReportMetric(host.memoryMiB("VmHWM"), prefix+"MiB-peak")
	host.stop()
	host.expectNoErrors()
	return rss
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
