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

// createBook creates a ConfigMap that the plugin shelves finds.
func createBook(t *testing.T, ns, name string, data map[string]string) {
	t.Helper()
	_, err := clients.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	must(t, err)
}

// No run finds a part of an index whose keys a function gives: that of the first revision is
// complete before something is looked up in it, and so is that of the next one, whose function
// gives other keys.
func TestAnIndexIsCompleteBeforeItIsRead(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	const many, work = 200, 1_000_000 // some milliseconds for each
	policy := func(field string) {
		d.installPolicy("shelves", fmt.Sprintf("config: {field: %s, work: %d}", field, work))
	}
	policy("shelf")
	d.install("shelves", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"shelves"))
	for i := range many {
		createBook(t, ns, fmt.Sprint("b", i), map[string]string{"shelf": "s0", fmt.Sprint("other", i%2): "s0"})
	}
	createStamp(t, ns, "s", "key s0")
	p := start(t, d, ns, "")
	awaitVersion(t, ns, "s", "200")
	policy("other1")
	awaitVersion(t, ns, "s", "200 100")
	must(t, patch(t.Context(), configMaps, ns, "b0", `{"data":{"other1":"s0"}}`))
	awaitVersion(t, ns, "s", "200 100 101")
	p.stop()
	p.expectNoErrors()
}

// What is looked up is in the namespace of the object, in others only if the policy allows to
// read there, and never in one that the plugin does not follow.
func TestALookupStaysWhereThePluginMayRead(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	own, other, third, d := namespace(t), namespace(t), namespace(t), newDirectory(t)
	for _, ns := range []string{own, other, third} {
		createBook(t, ns, "b0", map[string]string{"shelf": "s0"})
	}
	createStamp(t, own, "any", "key s0")
	createStamp(t, own, "other", "key "+other+"/s0")
	createStamp(t, own, "third", "key "+third+"/s0")
	d.install("shelves", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"shelves"))
	p := start(t, d, "", fmt.Sprintf("allow: {namespaces: {shelves: [%s, %s]}, entries: {shelves: "+
		"[{groups: [''], kinds: [ConfigMap], verbs: ['*'], namespaces: ['*']}]}}", own, other))
	p.awaitRunning("shelves", 1)
	awaitVersion(t, own, "any", "1")
	awaitVersion(t, own, "other", "denied")
	awaitVersion(t, own, "third", "denied")

	d.installPolicy("shelves", "allow: [{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch], namespaces: ['*']}]")
	p.awaitRunning("shelves", 2)
	awaitVersion(t, own, "any", "1 2")
	awaitVersion(t, own, "other", "denied 1")
	createBook(t, third, "b1", map[string]string{"shelf": "s0"})
	annotate(t, stamps, own, "third", "e2e.thole.dev/run", "now")
	createBook(t, own, "b1", map[string]string{"shelf": "s0"})
	awaitVersion(t, own, "any", "1 2 3")
	await.Until(t, "the run that looks in the third namespace has ended", func() bool {
		return len(p.Log.Events("RunEnded", "object", own+"/third")) >= 3
	})
	awaitVersion(t, own, "third", "denied")
	p.stop()
	p.expectNoErrors()
}
