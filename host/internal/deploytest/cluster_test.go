package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/thole-dev/thole/host/internal/await"
)

const (
	system  = "thole-system" // the namespace
	account = "thole"
)

var (
	podManagers = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "podmanagers"}
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
)

func overlay(name string) string { return filepath.Join(root, "deploy", "kustomize", name) }

// base returns the objects of the kustomize base.
func base(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomize(overlay("base"))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// ofKinds returns the objects of some kinds.
func ofKinds(objects []*unstructured.Unstructured, kinds ...string) (some []*unstructured.Unstructured) {
	for _, o := range objects {
		if slices.Contains(kinds, o.GetKind()) {
			some = append(some, o)
		}
	}
	return some
}

// install applies the objects of some kinds of the base and the CRD of podmanager,
// and waits until its kind is served.
func install(t *testing.T, kinds ...string) {
	t.Helper()
	crd, err := manifests(filepath.Join(root, "plugins", "podmanager", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range slices.Concat(crd, ofKinds(base(t), kinds...)) {
		if err := admin.apply(t.Context(), o, false); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the kind of the CRD is served", func() bool {
		_, err := admin.Discovery().ServerResourcesForGroupVersion(podManagers.GroupVersion().String())
		return err == nil
	})
}

// apply applies an object on the server. Unknown fields are refused.
func (a *administrator) apply(ctx context.Context, o *unstructured.Unstructured, dryRun bool) error {
	client, err := a.resource(o)
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	force := true
	options := metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, Force: &force}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = client.Patch(ctx, o.GetName(), types.ApplyPatchType, body, options)
	return err
}

// resource returns a client for an object's kind in its namespace. It waits for a kind
// whose CRD has just been applied.
func (a *administrator) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	var mapping *mapping
	if err := await.Success(func() (err error) {
		mapping, err = a.mapping(kind.GroupKind(), kind.Version)
		return err
	}); err != nil {
		return nil, err
	}
	if !mapping.namespaced {
		return a.objects.Resource(mapping.resource), nil
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return a.objects.Resource(mapping.resource).Namespace(namespace), nil
}

// mapping is where a kind is served.
type mapping struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

func (a *administrator) mapping(kind schema.GroupKind, version string) (*mapping, error) {
	groups, err := restmapper.GetAPIGroupResources(a.Discovery())
	if err != nil {
		return nil, err
	}
	m, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind, version)
	if err != nil {
		return nil, err
	}
	return &mapping{m.Resource, m.Scope.Name() == "namespace"}, nil
}

// get returns an object, nil if there is none.
func get(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := admin.objects.Resource(gvr).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// podManager creates a PodManager.
func podManager(t *testing.T, namespace, name string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": podManagers.GroupVersion().String(), "kind": "PodManager",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"image": "a:1"},
	}}
	if _, err := admin.objects.Resource(podManagers).Namespace(namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// change applies a merge patch to an object.
func change(t *testing.T, gvr schema.GroupVersionResource, namespace, name, patch string) {
	t.Helper()
	_, err := admin.objects.Resource(gvr).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	err := admin.objects.Resource(gvr).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// healthy reports whether a PodManager is Ready at its current generation and the
// run that the creation of its Pod triggers has ended.
func healthy(t *testing.T, namespace, name string) bool {
	t.Helper()
	o := get(t, podManagers, namespace, name)
	if o == nil {
		return false
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	created, _, _ := unstructured.NestedString(o.Object, "status", "podCreated")
	return observed == o.GetGeneration() && created != "" && condition(o, "Ready")["status"] == "True"
}

func condition(o *unstructured.Unstructured, conditionType string) map[string]any {
	if o == nil {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// namespace creates a namespace for a test.
func namespace(t *testing.T) string {
	t.Helper()
	ns, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "deploy-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "pods can be created in the namespace", func() bool {
		_, err := admin.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return ns.Name
}

// describe returns the kind and name of an object.
func describe(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s", o.GetKind(), o.GetName())
}
