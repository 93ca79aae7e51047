package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

const (
	expiresAfter = "ttl.thole.dev/expires-after"
	expiresAt    = "ttl.thole.dev/expires-at"
)

var ttlResources = []string{"configmaps", "secrets", "pods", "jobs", "persistentvolumeclaims", "namespaces"}

// mortal makes a ConfigMap with a time to live.
func mortal(t *testing.T, ns, name, annotation, value string) *corev1.ConfigMap {
	t.Helper()
	cm, err := clients.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: value}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

// TestTTL follows objects to their end.
func TestTTL(t *testing.T) {
	ns, d := namespace(t), newDirectory(t)
	d.install("ttl", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/ttl"))
	p := thole(t, d, ns, "")
	p.ready("ttl", 1)

	t.Run("deleted at its time", func(t *testing.T) {
		cm := mortal(t, ns, "short", expiresAfter, "2s")
		end := cm.CreationTimestamp.Add(2 * time.Second)
		eventually(t, "the object is gone", func() bool {
			gone := get(t, configMaps, ns, "short") == nil
			if gone && time.Now().Before(end) {
				t.Errorf("deleted %s too early", time.Until(end))
			}
			return gone
		})
		t.Logf("seen to be gone %s after its time", time.Since(end).Round(time.Millisecond))
	})

	t.Run("every kind", func(t *testing.T) {
		meta := metav1.ObjectMeta{Name: "kind", Annotations: map[string]string{expiresAt: time.Now().Add(time.Second).UTC().Format(time.RFC3339)}}
		pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, RestartPolicy: corev1.RestartPolicyNever}
		claim := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
		claim.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		doomed := metav1.ObjectMeta{Name: ns + "-preview", Annotations: meta.Annotations}
		ctx, core := t.Context(), clients.CoreV1()
		_, errPod := core.Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: pod}, metav1.CreateOptions{})
		_, errSecret := core.Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
		_, errClaim := core.PersistentVolumeClaims(ns).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: claim}, metav1.CreateOptions{})
		_, errJob := clients.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}, metav1.CreateOptions{})
		_, errNamespace := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: doomed}, metav1.CreateOptions{})
		for _, err := range []error{errPod, errSecret, errClaim, errJob, errNamespace} {
			if err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all of them are gone", func() bool {
			for _, gvr := range []string{"secrets", "persistentvolumeclaims", "pods"} {
				if o := get(t, corev1.SchemeGroupVersion.WithResource(gvr), ns, "kind"); o != nil && o.GetDeletionTimestamp() == nil {
					return false
				}
			}
			return get(t, batchv1.SchemeGroupVersion.WithResource("jobs"), ns, "kind") == nil && get(t, namespaces, "", doomed.Name) == nil
		})
	})

	t.Run("a moved time", func(t *testing.T) {
		mortal(t, ns, "moved", expiresAfter, "1h")
		cm := mortal(t, ns, "postponed", expiresAfter, "3s")
		annotate(t, configMaps, ns, "postponed", expiresAfter, "1h")
		annotate(t, configMaps, ns, "moved", expiresAfter, "1s")
		eventually(t, "the moved one is gone", func() bool { return get(t, configMaps, ns, "moved") == nil })
		later := mortal(t, ns, "later", expiresAt, cm.CreationTimestamp.Add(4*time.Second).UTC().Format(time.RFC3339))
		eventually(t, "an object with a later time is gone", func() bool { return get(t, configMaps, ns, later.Name) == nil })
		if get(t, configMaps, ns, "postponed") == nil {
			t.Error("the postponed one is gone, too")
		}
	})

	t.Run("an invalid annotation", func(t *testing.T) {
		mortal(t, ns, "invalid", expiresAfter, "tomorrow")
		eventually(t, "the user is told", func() bool {
			events, err := clients.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=invalid"})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events.Items {
				if e.Type == "Warning" && e.Reason == "InvalidTTL" && strings.Contains(e.Message, `is "tomorrow": expected a duration`) && strings.Contains(e.Message, "7d") {
					return true
				}
			}
			return false
		})
		annotate(t, configMaps, ns, "invalid", expiresAfter, "1s")
		eventually(t, "the corrected one is gone", func() bool { return get(t, configMaps, ns, "invalid") == nil })
	})

	t.Run("waiting costs nothing", func(t *testing.T) {
		var latest time.Time
		var all []string
		for i := range 20 {
			cm := mortal(t, ns, fmt.Sprintf("waits-%d", i), expiresAfter, "6s")
			mortal(t, ns, fmt.Sprintf("stays-%d", i), "example.com/none", "6s")
			latest = cm.CreationTimestamp.Add(6 * time.Second)
			all = append(all, fmt.Sprintf("configmap %s/waits-%d", ns, i), fmt.Sprintf("configmap %s/stays-%d", ns, i))
		}
		logged(t, p, 0, 0, all...)
		runs, before := count(p, "reconciled"), requests(t, ttlResources...)
		quiet := time.NewTimer(time.Until(latest.Add(-3 * time.Second)))
		<-quiet.C
		counts := since(before, requests(t, ttlResources...))
		delete(counts, "WATCH") // one that ends is counted and begun again
		if len(counts) != 0 || count(p, "reconciled") != runs {
			t.Errorf("while objects waited there were requests %v and %d runs", counts, count(p, "reconciled")-runs)
		}
		gone := func() (n int) {
			for _, cm := range list(t, configMaps, ns) {
				if strings.HasPrefix(cm.GetName(), "waits-") {
					n++
				}
			}
			return n
		}
		eventually(t, "all of them are gone", func() bool { return gone() == 0 })
		counts = since(before, requests(t, ttlResources...))
		if counts["DELETE"] != 20 || writes(counts) != 20 {
			t.Errorf("writes were %v, expected 20 deletions", counts)
		}
		if get(t, configMaps, ns, "stays-0") == nil {
			t.Error("an object without a time to live is gone")
		}
	})
	p.stop()
	p.expectNoErrors()
}
