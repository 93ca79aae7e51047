package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The plugin claims adopts a hundred objects in one run, keeps what others own, and lets go of what
// is not selected any more. What it has let go of survives it.
func TestAPluginAdoptsAndReleasesObjects(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("claims", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"claims"))
	maps := clients.CoreV1().ConfigMaps(ns)
	createStamp(t, ns, "s", "a")
	createStamp(t, ns, "other", "b")
	other := get(t, stamps, ns, "other")
	holder, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holder"}}, metav1.CreateOptions{})
	must(t, err)
	const n = 100
	for i := range n + 1 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i), Labels: map[string]string{"of": "a"}}, Data: map[string]string{"k": "v"}}
		if i == n {
			m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(holder, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		}
		_, err := maps.Create(t.Context(), m, metav1.CreateOptions{})
		must(t, err)
	}
	owners := func(name string) []metav1.OwnerReference {
		m, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if m.Data["k"] != "v" || len(m.Annotations) != 0 {
			t.Errorf("%s was changed: %v", name, m)
		}
		return m.OwnerReferences
	}
	label := func(name, of string) {
		t.Helper()
		_, err := maps.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"of":%q}}}`, of), metav1.PatchOptions{})
		must(t, err)
	}
	p := start(t, d, ns, allowAll)
	p.awaitRunning("claims", 1)
	awaitVersion(t, ns, "s", fmt.Sprint(n))
	label("c0", "nobody")
	awaitVersion(t, ns, "s", fmt.Sprint(n-1))
	await.Until(t, "c0 is released", func() bool { return len(owners("c0")) == 0 })
	label("c1", "b")
	await.Until(t, "c1 is adopted by the other one", func() bool {
		all := owners("c1")
		return len(all) == 1 && all[0].UID == other.GetUID()
	})
	if all := owners(fmt.Sprint("c", n)); len(all) != 1 || all[0].UID != holder.UID {
		t.Errorf("what another one controls has the owners %v", all)
	}
	remove(t, stamps, ns, "s")
	await.Until(t, "what it controlled is gone, and nothing else", func() bool {
		list, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: "of"})
		must(t, err)
		return len(list.Items) == 3
	})
	p.stop()
	p.expectNoErrors()
}
