package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

func awaitVersion(t *testing.T, ns, name, want string) {
	t.Helper()
	var got string
	defer func() {
		if t.Failed() {
			t.Logf("the status of %s is %q", name, got)
		}
	}()
	await.Until(t, "the status of "+name+" is "+want, func() bool {
		got = field(get(t, stamps, ns, name), "status", "version")
		return got == want
	})
}

// The plugin parts sees nothing of what it has not selected, and is told that it is not
// followed instead of that it does not exist.
func TestAPluginFollowsWhatItSelects(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.installPolicy("parts", "allow: [{groups: [''], kinds: [ServiceAccount], verbs: [get, list, watch]}]")
	d.install("parts", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"parts"))
	maps := clients.CoreV1().ConfigMaps(ns)
	for name, app := range map[string]string{"a": "x", "b": "y", "c": "z"} {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}, Data: map[string]string{"a": app + "1"},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	shard := func(name, value string) {
		t.Helper()
		must(t, patch(t.Context(), stamps, ns, name, fmt.Sprintf(`{"metadata":{"labels":{"shard":%q}}}`, value)))
	}
	createStamp(t, ns, "in", "a b c none")
	createStamp(t, ns, "out", "a")
	shard("in", "1")
	p := start(t, d, ns, allowAll)
	p.awaitRunning("parts", 1)
	awaitVersion(t, ns, "in", "1: a x1, b y1, c denied, none denied, 1 listed")

	label := func(name, app string) {
		t.Helper()
		_, err := maps.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, app), metav1.PatchOptions{})
		must(t, err)
	}
	label("c", "x")
	awaitVersion(t, ns, "in", "2: a x1, b y1, c z1, none denied, 2 listed")
	label("c", "z")
	awaitVersion(t, ns, "in", "3: a x1, b y1, c denied, none denied, 1 listed")
	_, err := clients.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "in", Annotations: map[string]string{"e2e.thole.dev/stamp": "in"}}, AutomountServiceAccountToken: new(bool),
	}, metav1.CreateOptions{})
	must(t, err)
	awaitVersion(t, ns, "in", "4: a x1, b y1, c denied, none denied, account mounts false, 1 listed")

	if got := field(get(t, stamps, ns, "out"), "status", "version"); got != "" {
		t.Errorf("a stamp of another shard was reconciled: %q", got)
	}
	shard("out", "1")
	awaitVersion(t, ns, "out", "1: a x1, 1 listed")
	shard("out", "2")
	must(t, patchSpec(t.Context(), stamps, ns, "out", "text", "b"))
	shard("out", "1")
	awaitVersion(t, ns, "out", "2: b y1, 1 listed")
	if n := p.Metrics().Sum("thole_cache_objects", "kind", "v1 ConfigMap"); n != 2 {
		t.Errorf("%v ConfigMaps are in the cache, 2 are selected", n)
	}
	p.stop()
	p.expectNoErrors()
}

// A plugin that becomes a managed one finds its children at once, and nothing else is
// followed.
func TestAManagedPluginFollowsItsChildren(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	secrets := clients.CoreV1().Secrets(ns)
	for i := range 5 {
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("foreign-", i)}, Type: "e2e/foreign"}, metav1.CreateOptions{})
		must(t, err)
	}
	d.installPolicy("managed", "allow: [{groups: [''], kinds: [Secret], verbs: [get, list, watch, create, patch, delete]}]")
	d.install("managed", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"managed1"))
	createStamp(t, ns, "s", "a b")
	p := start(t, d, ns, allowAll)
	cached := func() float64 { return p.Metrics().Sum("thole_cache_objects", "kind", "v1 Secret") }
	p.awaitRunning("managed", 1)
	await.Until(t, "both secrets exist", func() bool { return labelsOf(t, ns, "a") != nil && labelsOf(t, ns, "b") != nil })
	must(t, patchSpec(t.Context(), stamps, ns, "s", "text", "a b "))
	awaitVersion(t, ns, "s", "1: 7")

	d.install("managed", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"managed2"))
	p.awaitRunning("managed", 2)
	awaitVersion(t, ns, "s", "2: 2") // and not 0
	p.stop()

	p = start(t, d, ns, allowAll)
	p.awaitRunning("managed", 1)
	must(t, patchSpec(t.Context(), stamps, ns, "s", "text", "a b c foreign-0!"))
	awaitVersion(t, ns, "s", "2: 3 e2e/foreign")
	if n := cached(); n != 3 {
		t.Errorf("%v secrets are in the cache, the plugin owns 3", n)
	}
	_, err := secrets.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"metadata":{"labels":{"thole.dev/managed-by":null,"of":"other"}}}`), metav1.PatchOptions{})
	must(t, err)
	await.Until(t, "the label is back", func() bool {
		labels := labelsOf(t, ns, "b")
		return labels["thole.dev/managed-by"] == "managed" && labels["of"] == "s"
	})
	await.Until(t, "the cache has it again", func() bool { return cached() == 3 })
	must(t, secrets.Delete(t.Context(), "c", metav1.DeleteOptions{}))
	await.Until(t, "a deleted child is made again", func() bool { return labelsOf(t, ns, "c")["thole.dev/managed-by"] == "managed" })

	must(t, patchSpec(t.Context(), stamps, ns, "s", "text", "a b c foreign-1?"))
	await.Until(t, "the adoption is refused", func() bool {
		c := condition(get(t, stamps, ns, "s"), "Ready")
		return c["status"] == "False" && strings.Contains(fmt.Sprint(c["message"]), "name it in Reads")
	})
	if labels := labelsOf(t, ns, "foreign-1"); len(labels) != 0 {
		t.Errorf("a foreign object was changed: %v", labels)
	}
	p.stop()
}

// labelsOf returns the labels of a secret, nil if it does not exist.
func labelsOf(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	list, err := clients.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	must(t, err)
	if len(list.Items) == 0 {
		return nil
	}
	if list.Items[0].Labels == nil {
		return map[string]string{}
	}
	return list.Items[0].Labels
}
