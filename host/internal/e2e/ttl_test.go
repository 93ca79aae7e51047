package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

const (
	expiresAfter = "ttl.thole.dev/expires-after"
	expiresAt    = "ttl.thole.dev/expires-at"
)

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
	p, asked := counted(t, d, ns, "")
	p.ready("ttl", 1)

	t.Run("deleted at its time", func(t *testing.T) {
		cm := mortal(t, ns, "short", expiresAfter, "2s")
		end := cm.CreationTimestamp.Add(2 * time.Second)
		await.Until(t, "the object is gone", func() bool {
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
		await.Until(t, "all of them are gone", func() bool {
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
		end := postponed(t, ns, "postponed")
		annotate(t, configMaps, ns, "moved", expiresAfter, "1s")
		await.Until(t, "the moved one is gone", func() bool { return get(t, configMaps, ns, "moved") == nil })
		later := mortal(t, ns, "later", expiresAt, end.Add(time.Second).UTC().Format(time.RFC3339))
		await.Until(t, "an object with a later time is gone", func() bool { return get(t, configMaps, ns, later.Name) == nil })
		if get(t, configMaps, ns, "postponed") == nil {
			t.Error("the postponed one is gone, too")
		}
	})

	t.Run("an invalid annotation", func(t *testing.T) {
		mortal(t, ns, "invalid", expiresAfter, "tomorrow")
		await.Until(t, "the user is told", func() bool {
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
		await.Until(t, "the corrected one is gone", func() bool { return get(t, configMaps, ns, "invalid") == nil })
	})

	t.Run("waiting costs nothing", func(t *testing.T) {
		var all []string
		for i := range 20 {
			mortal(t, ns, fmt.Sprintf("waits-%d", i), expiresAfter, "1h")
			mortal(t, ns, fmt.Sprintf("stays-%d", i), "example.com/none", "1h")
			all = append(all, fmt.Sprintf("configmap %s/waits-%d", ns, i), fmt.Sprintf("configmap %s/stays-%d", ns, i))
		}
		logged(t, p, 0, 0, all...)
		before, mark := asked.Done("configmaps"), p.Log.Mark()
		<-time.After(3 * time.Second)
		counts := asked.Done("configmaps").Since(before)
		delete(counts, "watch") // one that ends is begun again
		if again := ofConfigMaps(p, mark); len(counts) != 0 || len(again) != 0 {
			t.Errorf("while objects waited there were requests %v and runs %v", counts, again)
		}
		for i := range 20 {
			annotate(t, configMaps, ns, fmt.Sprintf("waits-%d", i), expiresAfter, "1s")
		}
		await.Until(t, "all of them are gone", func() bool {
			return !slices.ContainsFunc(list(t, configMaps, ns), func(cm unstructured.Unstructured) bool { return strings.HasPrefix(cm.GetName(), "waits-") })
		})
		if counts := asked.Done("configmaps").Since(before); counts["delete"] != 20 || counts.Writes() != 20 {
			t.Errorf("writes were %v, expected 20 deletions", counts)
		}
		if get(t, configMaps, ns, "stays-0") == nil {
			t.Error("an object without a time to live is gone")
		}
	})
	p.stop()
	p.expectNoErrors()
}

// postponed makes a ConfigMap whose time to live is made longer, and returns
// when it would have ended. On a machine that is too slow for that it lives
// longer from the start.
func postponed(t *testing.T, ns, name string) (end time.Time) {
	t.Helper()
	for ttl := 3 * time.Second; ; ttl *= 2 {
		cm := mortal(t, ns, name, expiresAfter, ttl.String())
		err := tryAnnotate(t, configMaps, ns, name, expiresAfter, "1h")
		if err == nil {
			return cm.CreationTimestamp.Add(ttl)
		}
		if !apierrors.IsNotFound(err) || ttl > await.Limit {
			t.Fatal(err)
		}
	}
}

// ofConfigMaps lists the runs of ConfigMaps since a mark: those of other kinds
// may follow what the cluster's own controllers still do.
func ofConfigMaps(p *process, mark int) (objects []string) {
	for _, line := range tholetest.With(p.Log.Since(mark), "reconciled", "controller", "configmap") {
		objects = append(objects, line.String("object"))
	}
	return objects
}
