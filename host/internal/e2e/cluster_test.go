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
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
)

// namespace makes a namespace for one test.
func namespace(tb testing.TB) string {
	tb.Helper()
	ns, err := clients.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
	}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
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
	if err != nil {
		tb.Fatal(err)
	}
	installCRDText(tb, string(text))
}

// installCRDText is installCRD for what a file would hold.
func installCRDText(tb testing.TB, text string) {
	tb.Helper()
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &crd.Object); err != nil {
		tb.Fatal(err)
	}
	if _, err := objects.Resource(crds).Apply(tb.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "e2e"}); err != nil {
		tb.Fatal(err)
	}
	kind := defined(crd)
	await.Until(tb, crd.GetName()+" is served", func() bool {
		_, err := objects.Resource(kind).List(tb.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// defined is the kind of a CRD with one version. That its group is served says
// nothing: another kind of it may be there for long.
func defined(crd *unstructured.Unstructured) schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)["name"].(string)
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// primary makes an object with a spec.
func primary(t *testing.T, gvr schema.GroupVersionResource, kind, ns, name string, spec map[string]any) {
	t.Helper()
	if err := create(t.Context(), gvr, kind, ns, name, spec); err != nil {
		t.Fatal(err)
	}
}

func create(ctx context.Context, gvr schema.GroupVersionResource, kind, ns, name string, spec map[string]any) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name},
		"spec":     spec,
	}}
	_, err := objects.Resource(gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	return err
}

func get(t *testing.T, gvr schema.GroupVersionResource, ns, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := objects.Resource(gvr).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return o
}

func list(t *testing.T, gvr schema.GroupVersionResource, ns string) []unstructured.Unstructured {
	t.Helper()
	l, err := objects.Resource(gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l.Items
}

func patchSpec(ctx context.Context, gvr schema.GroupVersionResource, ns, name, field, value string) error {
	patch := fmt.Sprintf(`{"spec":{%q:%q}}`, field, value)
	_, err := objects.Resource(gvr).Namespace(ns).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func annotate(t *testing.T, gvr schema.GroupVersionResource, ns, name, annotation, value string) {
	t.Helper()
	if err := tryAnnotate(t, gvr, ns, name, annotation, value); err != nil {
		t.Fatal(err)
	}
}

func tryAnnotate(t *testing.T, gvr schema.GroupVersionResource, ns, name, annotation, value string) error {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	_, err := objects.Resource(gvr).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func remove(t *testing.T, gvr schema.GroupVersionResource, ns, name string) {
	t.Helper()
	if err := objects.Resource(gvr).Namespace(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ready says whether an object is Ready at its current generation.
func ready(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return observed == o.GetGeneration() && condition(o, "Ready")["status"] == "True"
}

func condition(o *unstructured.Unstructured, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

func field(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return ""
	}
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// image is that of a pod's first container.
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
