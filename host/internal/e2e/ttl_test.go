package e2e

import (
	"errors"
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
)

const (
	expiresAfter = "ttl.thole.dev/expires-after"
	expiresAt    = "ttl.thole.dev/expires-at"
)

// createExpiring creates a ConfigMap with a time to live.
func createExpiring(t *testing.T, ns, name, annotation, value string) *corev1.ConfigMap {
	t.Helper()
	cm, err := clients.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: value}},
	}, metav1.CreateOptions{})
	must(t, err)
	return cm
}

func TestTTLDeletesObjectsWhenTheyExpire(t *testing.T) {
	t.Parallel()
	ns, d := namespace(t), newDirectory(t)
	d.installExample("ttl")
	p, proxy := startWithProxy(t, d, ns, allowAll)
	p.awaitRunning("ttl", 1)

	t.Run("not before the time", func(t *testing.T) {
		cm := createExpiring(t, ns, "short", expiresAfter, "2s")
		end := cm.CreationTimestamp.Add(2 * time.Second)
		await.Until(t, "the object is gone", func() bool {
			gone := get(t, configMaps, ns, "short") == nil
			if gone && time.Now().Before(end) {
				t.Errorf("deleted %s too early", time.Until(end))
			}
			return gone
		})
		t.Logf("observed to be gone %s after its time", time.Since(end).Round(time.Millisecond))
	})

	t.Run("every kind", func(t *testing.T) {
		end := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
		meta := metav1.ObjectMeta{Name: "kind", Annotations: map[string]string{expiresAt: end}}
		pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, RestartPolicy: corev1.RestartPolicyNever}
		claim := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
		claim.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		doomed := metav1.ObjectMeta{Name: ns + "-preview", Annotations: meta.Annotations}
		ctx, core := t.Context(), clients.CoreV1()
		job := batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}
		options := metav1.CreateOptions{}
		_, errPod := core.Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: pod}, options)
		_, errSecret := core.Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: meta}, options)
		_, errClaim := core.PersistentVolumeClaims(ns).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: claim}, options)
		_, errJob := clients.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: job}, options)
		_, errNamespace := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: doomed}, options)
		must(t, errors.Join(errPod, errSecret, errClaim, errJob, errNamespace))
		await.Until(t, "all of them are gone", func() bool {
			for _, gvr := range []string{"secrets", "persistentvolumeclaims", "pods"} {
				if o := get(t, corev1.SchemeGroupVersion.WithResource(gvr), ns, "kind"); o != nil && o.GetDeletionTimestamp() == nil {
					return false
				}
			}
			jobs := batchv1.SchemeGroupVersion.WithResource("jobs")
			return get(t, jobs, ns, "kind") == nil && get(t, namespaces, "", doomed.Name) == nil
		})
	})

	t.Run("changed time", func(t *testing.T) {
		createExpiring(t, ns, "shortened", expiresAfter, "1h")
		end := createPostponed(t, ns, "postponed")
		annotate(t, configMaps, ns, "shortened", expiresAfter, "1s")
		await.Until(t, "the shortened object is gone", func() bool { return get(t, configMaps, ns, "shortened") == nil })
		later := createExpiring(t, ns, "later", expiresAt, end.Add(time.Second).UTC().Format(time.RFC3339))
		await.Until(t, "a later object is gone", func() bool { return get(t, configMaps, ns, later.Name) == nil })
		if get(t, configMaps, ns, "postponed") == nil {
			t.Error("the postponed object is gone, too")
		}
	})

	t.Run("invalid annotation", func(t *testing.T) {
		createExpiring(t, ns, "invalid", expiresAfter, "tomorrow")
		await.Until(t, "an Event reports it", func() bool {
			return slices.ContainsFunc(eventsAbout(t, ns, "invalid"), func(e corev1.Event) bool {
				return e.Type == "Warning" && e.Reason == "InvalidTTL" &&
					containsAll(e.Message, []string{`is "tomorrow": expected a duration`, "7d"})
			})
		})
		annotate(t, configMaps, ns, "invalid", expiresAfter, "1s")
		await.Until(t, "the corrected object is gone", func() bool { return get(t, configMaps, ns, "invalid") == nil })
	})

	t.Run("waiting objects cause no requests and no runs", func(t *testing.T) {
		var all []string
		for i := range 20 {
			createExpiring(t, ns, fmt.Sprintf("expires-%d", i), expiresAfter, "1h")
			createExpiring(t, ns, fmt.Sprintf("stays-%d", i), "example.com/none", "1h")
			all = append(all, fmt.Sprintf("configmap %s/expires-%d", ns, i), fmt.Sprintf("configmap %s/stays-%d", ns, i))
		}
		p.awaitReconciled(t, 0, 0, all...)
		before, mark := proxy.Succeeded("configmaps"), p.Log.Mark()
		<-time.After(3 * time.Second)
		counts := proxy.Succeeded("configmaps").Since(before)
		delete(counts, "watch") // a watch that ends is renewed
		// The cluster's own controllers may still cause runs for other kinds.
		runs := p.Log.Since(mark).Events("RunEnded", "controller", "configmap")
		if len(counts) != 0 || len(runs) != 0 {
			t.Errorf("while objects waited there were requests %v and runs %v", counts, runs)
		}
		for i := range 20 {
			annotate(t, configMaps, ns, fmt.Sprintf("expires-%d", i), expiresAfter, "1s")
		}
		await.Until(t, "all of them are gone", func() bool {
			return !slices.ContainsFunc(list(t, configMaps, ns), func(cm unstructured.Unstructured) bool {
				return strings.HasPrefix(cm.GetName(), "expires-")
			})
		})
		// The last reply may be counted after the object is gone.
		await.Until(t, "20 deletions have succeeded", func() bool { return proxy.Succeeded("configmaps").Since(before)["delete"] >= 20 })
		if counts := proxy.Succeeded("configmaps").Since(before); counts["delete"] != 20 || counts.Writes() != 20 {
			t.Errorf("writes were %v, want 20 deletions", counts)
		}
		if get(t, configMaps, ns, "stays-0") == nil {
			t.Error("an object without a time to live is gone")
		}
	})
	p.stop()
	p.expectNoErrors()
}

// createPostponed creates a ConfigMap with a time to live, extends that, and returns
// when the object would have expired. If the object expires before the extension,
// on a slow machine, another one gets a longer time.
func createPostponed(t *testing.T, ns, name string) (end time.Time) {
	t.Helper()
	for ttl := 3 * time.Second; ; ttl *= 2 {
		cm := createExpiring(t, ns, name, expiresAfter, ttl.String())
		err := tryAnnotate(t, configMaps, ns, name, expiresAfter, "1h")
		if err == nil {
			return cm.CreationTimestamp.Add(ttl)
		}
		if !apierrors.IsNotFound(err) || ttl > await.Limit {
			t.Fatal(err)
		}
	}
}
