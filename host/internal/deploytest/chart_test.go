package deploytest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// golden returns what the chart is rendered to with the values of that name in its testdata. That it is
// so is a test of host/internal/charttest.
func golden(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests(filepath.Join(root, "deploy", "chart", "testdata", name+".golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// configOf returns the file of --config among objects.
func configOf(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	for _, o := range ofKinds(objects, "ConfigMap") {
		if text, ok, _ := unstructured.NestedString(o.Object, "data", "config.yaml"); ok {
			return text
		}
	}
	t.Fatal("there is no configuration")
	return ""
}

func makeNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// remove removes an object of a manifest.
func (a *administrator) remove(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	client, err := a.resource(o)
	if err == nil {
		err = client.Delete(context.WithoutCancel(t.Context()), o.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("remove %s: %v", describe(o), err)
	}
}

// Two replicas of the image run three plugins of two ConfigMaps, each as a service account of its own,
// with what the chart has rendered and nothing else.
func TestTheChartRunsPluginsWithAccountsOfTheirOwn(t *testing.T) {
	install(t) // the CRD of podmanager
	for _, ns := range []string{system, "team-a"} {
		makeNamespace(t, ns)
	}
	n := newNode(t)
	for name, plugins := range map[string][]string{"thole-plugins": {"podmanager"}, "more-plugins": {"configsync", "ttl"}} {
		modules := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system}, BinaryData: map[string][]byte{}}
		for _, plugin := range plugins {
			modules.BinaryData[plugin+".wasm"] = wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/"+plugin)
		}
		if _, err := admin.CoreV1().ConfigMaps(system).Create(t.Context(), modules, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := admin.CoreV1().ConfigMaps(system).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	objects := golden(t, "plugins")
	t.Cleanup(func() {
		for _, o := range objects {
			if o.GetKind() != "Namespace" {
				admin.remove(t, o)
			}
		}
		await.Until(t, "the hosts have ended", func() bool { return len(n.hosts()) == 0 })
	})
	for _, o := range objects {
		if err := admin.apply(t.Context(), o, false); err != nil {
			t.Fatalf("%s: %v", describe(o), err)
		}
	}
	plugins := []string{"configsync", "podmanager", "ttl"}
	await.Until(t, "two replicas run three plugins", func() bool {
		states := map[string]int{}
		for _, c := range n.hosts() {
			all, _ := c.Plugins()
			for _, p := range all {
				if slices.Contains(plugins, p.Name) && p.WaitsFor == "" && len(p.MissingRights) == 0 && len(p.CannotFollow) == 0 {
					states[p.State]++
				}
			}
		}
		return states["running"] == 3 && states["standby"] == 3
	})
	await.Until(t, "both are ready", func() bool {
		d, err := admin.AppsV1().Deployments(system).Get(t.Context(), "thole", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Status.ReadyReplicas == 2
	})
	ns := namespace(t)
	podManager(t, ns, "pm")
	await.Until(t, "the PodManager is healthy", func() bool { return healthy(t, ns, "pm") })
	pod, err := admin.CoreV1().Pods(ns).Get(t.Context(), "pm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pod.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(m.Manager, "thole/podmanager/") }) {
		t.Errorf("the Pod is managed by %v", pod.ManagedFields)
	}
	remove(t, podManagers, ns, "pm")
	await.Until(t, "the PodManager is removed", func() bool { return get(t, podManagers, ns, "pm") == nil })
	for _, c := range n.hosts() {
		c.expectConfined(t)
		for _, plugin := range plugins {
			c.expectLists(t, plugin)
		}
		expectNoMissingRight(t, c.Process)
	}
}

func expectNoMissingRight(t *testing.T, host *tholetest.Process) {
	t.Helper()
	for _, line := range slices.Concat(host.Log.Errors(), withField(host.Log.Since(0), "orbidden"), host.Log.Events("RightsMissing"), host.Log.Events("RunEnded", "class", "denied")) {
		t.Errorf("in the host's log: %v", line)
	}
}

// A volume without a plugin is no failure: the host is ready, and tells that there are none.
func TestAHostWithoutPluginsIsReadyAndTellsSo(t *testing.T) {
	dir := t.TempDir()
	host := tholetest.Host{Program: program(t), Plugins: dir, CacheDir: t.TempDir(), Kubeconfig: cluster.Kubeconfig}.Start(t)
	await.Until(t, "the host is ready", func() bool {
		status, _ := host.Get("/readyz")
		return status == 200
	})
	await.Until(t, "the log tells that there are no plugins", func() bool {
		return len(host.Log.Since(0).Where(func(l tholetest.Line) bool { return strings.Contains(l.String("@message"), "there are no plugins") })) == 1
	})
	if err := os.WriteFile(filepath.Join(dir, "podmanager.wasm"), wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"), 0o644); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the plugin is taken up", func() bool { p := only(host); return p.Name == "podmanager" && p.State != "loading" })
}
