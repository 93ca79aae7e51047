package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/await"
)

var (
	podManagers = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "podmanagers"}
	stamps      = schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "stamps"}
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")

	crds = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
)

// namespace creates a namespace for one test.
func namespace(tb testing.TB) string {
	tb.Helper()
	ns, err := clients.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
	}, metav1.CreateOptions{})
	must(tb, err)
	await.Until(tb, "the namespace has a service account", func() bool {
		_, err := clients.CoreV1().ServiceAccounts(ns.Name).Get(tb.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return ns.Name
}

// installCRD applies a CRD from a file, relative to the repository's root, and
// waits until its kind is served.
func installCRD(tb testing.TB, path string) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", path))
	must(tb, err)
	applyCRD(tb, string(text))
}

// applyCRD applies a CRD and waits until its kind is served.
func applyCRD(tb testing.TB, text string) {
	tb.Helper()
	crd := &unstructured.Unstructured{}
	must(tb, yaml.Unmarshal([]byte(text), &crd.Object))
	_, err := objects.Resource(crds).Apply(tb.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "e2e"})
	must(tb, err)
	awaitServed(tb, resourceOf(crd))
}

// awaitServed waits until a kind is served. Discovery of its group is not enough: other
// kinds of the group may be served already.
func awaitServed(tb testing.TB, kind schema.GroupVersionResource) {
	tb.Helper()
	await.Until(tb, kind.Resource+" are served", func() bool {
		_, err := objects.Resource(kind).List(tb.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// resourceOf returns the resource that a CRD with one version defines.
func resourceOf(crd *unstructured.Unstructured) schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)["name"].(string)
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// removeCRD removes a CRD at the end of a test and waits until it is gone, so that
// the test can run again.
func removeCRD(t *testing.T, name string) {
	t.Helper()
	if err := objects.Resource(crds).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
		return
	}
	await.Until(t, name+" is gone", func() bool {
		_, err := objects.Resource(crds).Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// create creates an object with a spec.
func create(t *testing.T, gvr schema.GroupVersionResource, kind, ns, name string, spec map[string]any) {
	t.Helper()
	must(t, tryCreate(t.Context(), gvr, kind, ns, name, spec))
}

func tryCreate(ctx context.Context, gvr schema.GroupVersionResource, kind, ns, name string, spec map[string]any) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name},
		"spec":     spec,
	}}
	_, err := objects.Resource(gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// createPodManager creates a PodManager, from which the plugin podmanager makes a
// Pod of the same name.
func createPodManager(t *testing.T, ns, name, image string) {
	t.Helper()
	create(t, podManagers, "PodManager", ns, name, map[string]any{"image": image})
}

// expectServed creates a PodManager and waits until the plugin podmanager has made
// it Ready with its Pod.
func expectServed(t *testing.T, ns, name string) {
	t.Helper()
	createPodManager(t, ns, name, "a:1")
	await.Until(t, name+" is Ready with its Pod", func() bool { return served(t, ns, name, "a:1") })
}

// served reports whether a PodManager is Ready and its Pod has that image.
func served(t *testing.T, ns, name, wanted string) bool {
	t.Helper()
	return image(get(t, pods, ns, name)) == wanted && ready(get(t, podManagers, ns, name))
}

// recordsPod reports whether a PodManager is Ready and its status has the time of
// its Pod, which the plugin writes in the run after that which creates the Pod.
func recordsPod(pm *unstructured.Unstructured) bool {
	return ready(pm) && field(pm, "status", "podCreated") != ""
}

// get returns an object, nil if it does not exist.
func get(t *testing.T, gvr schema.GroupVersionResource, ns, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := objects.Resource(gvr).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return o
}

func list(t *testing.T, gvr schema.GroupVersionResource, ns string) []unstructured.Unstructured {
	t.Helper()
	l, err := objects.Resource(gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return l.Items
}

// patch applies a merge patch to an object.
func patch(ctx context.Context, gvr schema.GroupVersionResource, ns, name, text string) error {
	_, err := objects.Resource(gvr).Namespace(ns).Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	return err
}

// patchSpec sets a field of an object's spec.
func patchSpec(ctx context.Context, gvr schema.GroupVersionResource, ns, name, field, value string) error {
	return patch(ctx, gvr, ns, name, fmt.Sprintf(`{"spec":{%q:%q}}`, field, value))
}

func annotate(t *testing.T, gvr schema.GroupVersionResource, ns, name, annotation, value string) {
	t.Helper()
	must(t, tryAnnotate(t, gvr, ns, name, annotation, value))
}

func tryAnnotate(t *testing.T, gvr schema.GroupVersionResource, ns, name, annotation, value string) error {
	t.Helper()
	return patch(t.Context(), gvr, ns, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value))
}

func remove(t *testing.T, gvr schema.GroupVersionResource, ns, name string) {
	t.Helper()
	must(t, objects.Resource(gvr).Namespace(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// eventsAbout returns the Events about an object in its namespace.
func eventsAbout(t *testing.T, ns, name string) []corev1.Event {
	t.Helper()
	about := metav1.ListOptions{FieldSelector: "involvedObject.name=" + name}
	events, err := clients.CoreV1().Events(ns).List(t.Context(), about)
	must(t, err)
	return events.Items
}

// ready reports whether an object exists and is Ready at its current generation.
func ready(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return observed == o.GetGeneration() && condition(o, "Ready")["status"] == "True"
}

// condition returns a condition of an object, nil if it has none of that type.
func condition(o *unstructured.Unstructured, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// field returns a string in an object, "" if the object is nil or lacks it.
func field(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return ""
	}
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// image returns the image of a Pod's first container, "" if the Pod is nil.
func image(pod *unstructured.Unstructured) string {
	if pod == nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	return containers[0].(map[string]any)["image"].(string)
}
