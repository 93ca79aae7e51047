package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

var (
	podManagers = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "podmanagers"}
	stamps      = schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "stamps"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
)

// namespace makes a namespace for one test.
func namespace(t *testing.T) string {
	t.Helper()
	ns, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has a service account", func() bool {
		_, err := clients.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return ns.Name
}

// installCRD applies a CRD from a file, relative to the repository's root.
func installCRD(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Resource(crds).Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "e2e"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, crd.GetName()+" is served", func() bool {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		list, err := clients.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		return err == nil && len(list.APIResources) > 0
	})
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
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	if _, err := objects.Resource(gvr).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
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

var requestLine = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// requests counts what the API server was asked about a resource, by verb.
func requests(t *testing.T, resources ...string) map[string]int {
	t.Helper()
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		m := requestLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[1], -1) {
			labels[pair[1]] = pair[2]
		}
		for _, r := range resources {
			if labels["resource"] == r {
				n, err := strconv.ParseFloat(m[2], 64)
				if err != nil {
					t.Fatal(err)
				}
				counts[labels["verb"]] += int(n)
			}
		}
	}
	return counts
}

// since returns what was asked after before, without verbs that were not.
func since(before, after map[string]int) map[string]int {
	out := map[string]int{}
	for verb, n := range after {
		if d := n - before[verb]; d != 0 {
			out[verb] = d
		}
	}
	return out
}

func writes(counts map[string]int) int {
	n := 0
	for _, verb := range []string{"PATCH", "APPLY", "PUT", "POST", "DELETE", "DELETECOLLECTION"} {
		n += counts[verb]
	}
	return n
}
