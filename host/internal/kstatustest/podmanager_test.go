package kstatustest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

var podManagers = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "podmanagers"}

// TestStatusOfPodManagers checks every status that the example plugin leads to, from
// creation to deletion.
func TestStatusOfPodManagers(t *testing.T) {
	installCRD(t, root+"/plugins/podmanager/crd.yaml", podManagers)
	ns := namespace(t)
	managers, children := watchHistory(t, podManagers, ns), watchHistory(t, pods, ns)
	thole(t, ns, "podmanager", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	// One for each scenario: the host slows down an object that it writes in every run.
	changed, podDeleted := manager{t, ns, "changed", children}, manager{t, ns, "pod-deleted", children}
	wrong, replaced := manager{t, ns, "wrong", children}, manager{t, ns, "replaced", children}
	for _, m := range []manager{changed, podDeleted, wrong, replaced} {
		m.create("a:1")
	}
	for _, m := range []manager{changed, podDeleted, wrong, replaced} {
		m.expect("it has a Pod", current, func() bool { return image(m.pod()) == "a:1" })
	}

	changed.patch(`{"spec":{"image":"a:2"}}`)
	changed.expect("the Pod has the new image", current, func() bool { return image(changed.pod()) == "a:2" })

	old := podDeleted.pod().GetUID()
	podDeleted.delete(pods)
	podDeleted.expect("there is a new Pod", current, func() bool { return podDeleted.pod() != nil && podDeleted.pod().GetUID() != old })

	wrong.patch(`{"spec":{"image":"not an image"}}`)
	wrong.expect("the image is refused", failed, func() bool { return true })
	wrong.patch(`{"spec":{"image":"a:2"}}`)
	wrong.expect("the Pod has the new image", current, func() bool { return image(wrong.pod()) == "a:2" })

	old = replaced.pod().GetUID()
	replaced.patch(`{"spec":{"image":"a:3","command":["x"]}}`)
	replaced.expect("the Pod is replaced", current, func() bool { return image(replaced.pod()) == "a:3" && replaced.pod().GetUID() != old })

	changed.delete(podManagers)
	await.Until(t, "the PodManager and its Pod are removed", func() bool { return managers.latest("changed") == nil && changed.pod() == nil })
	n := managers.checkAll(t, newStatusChecker(nil, nil, podConsistent), children)
	t.Logf("%d statuses", n)
}

// podConsistent returns why a PodManager's status must not be current.
func podConsistent(v version, pod *unstructured.Unstructured) error {
	want := field(v.object, "spec", "image")
	switch {
	case pod == nil:
		return errors.New("there is no Pod")
	case image(pod) != want:
		return fmt.Errorf("the Pod's image is %s, not %s", image(pod), want)
	}
	return nil
}

// manager is one PodManager.
type manager struct {
	t        *testing.T
	ns, name string
	children *history
}

func (m manager) create(image string) {
	m.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.thole.dev/v1", "kind": "PodManager",
		"metadata": map[string]any{"name": m.name},
		"spec":     map[string]any{"image": image},
	}}
	if _, err := objects.Resource(podManagers).Namespace(m.ns).Create(m.t.Context(), o, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m manager) patch(patch string) {
	m.t.Helper()
	if _, err := objects.Resource(podManagers).Namespace(m.ns).Patch(m.t.Context(), m.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m manager) delete(gvr schema.GroupVersionResource) {
	m.t.Helper()
	if err := objects.Resource(gvr).Namespace(m.ns).Delete(m.t.Context(), m.name, metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m manager) pod() *unstructured.Unstructured { return m.children.latest(m.name) }

// expect waits until kstatus computes the wanted status for the latest generation,
// done returns true, and the status names the current Pod.
func (m manager) expect(what string, want status.Status, done func() bool) {
	m.t.Helper()
	await.Until(m.t, fmt.Sprintf("%s: %s, and kstatus computes %s", m.name, what, want), func() bool {
		o, err := objects.Resource(podManagers).Namespace(m.ns).Get(m.t.Context(), m.name, metav1.GetOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		r, err := status.Compute(o)
		if err != nil {
			m.t.Fatal(err)
		}
		return statusOf(o) != nil && r.Status == want && done() &&
			field(o, "status", "podCreated") == field(m.pod(), "metadata", "creationTimestamp")
	})
}

// image returns the image of a pod's first container.
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
