package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// A plugin lists by an index, in pages, and reads one field: only a change of that
// field, or of what the list has, makes its objects due.
func TestAPluginReadsPagesOfFieldsByAnIndex(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("shelves", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"shelves"))
	for i := range 5 {
		_, err := clients.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)}, Data: map[string]string{"shelf": fmt.Sprint("s", i%2)},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	p := start(t, d, ns, "")
	p.awaitRunning("shelves", 1)
	createStamp(t, ns, "zero", "s0")
	awaitFound := func(want string) {
		t.Helper()
		await.Until(t, "the status is "+want, func() bool {
			got, _, _ := unstructured.NestedString(get(t, stamps, ns, "zero").Object, "status", "version")
			return got == want
		})
	}
	patch := func(name string, data map[string]any) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"data": data})
		must(t, err)
		_, err = clients.CoreV1().ConfigMaps(ns).Patch(t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{})
		must(t, err)
	}
	awaitFound("1: b0 s0,b2 s0,b4 s0")
	patch("b2", map[string]any{"size": "large"}) // is not read
	patch("b1", map[string]any{"other": "x"})    // is on another shelf
	patch("b3", map[string]any{"shelf": "s0"})
	awaitFound("2: b0 s0,b2 s0,b3 s0,b4 s0")
	patch("b0", map[string]any{"shelf": nil})
	awaitFound("3: b2 s0,b3 s0,b4 s0")
	p.stop()
	p.expectNoErrors()
}
