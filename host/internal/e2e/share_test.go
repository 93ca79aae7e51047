package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// Primaries without a finalizer share a ConfigMap that somebody else has created.
func TestSharedObjectHasTheFieldsOfThePrimariesThatNameIt(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("share", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"share"))
	d.installPolicy("share", "allow: [{groups: [''], kinds: [ConfigMap], verbs: [create, patch]}]")
	must(t, tryCreate(t.Context(), configMaps, "ConfigMap", ns, "all", nil))
	p := start(t, d, ns, allowAll)
	p.awaitRunning("share", 1)
	for _, name := range []string{"a", "b", "c"} {
		createStamp(t, ns, name, "all")
	}
	awaitNames(t, ns, "a", "b", "c")

	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", "")) // no longer names it
	awaitNames(t, ns, "b", "c")
	remove(t, stamps, ns, "b")
	awaitNames(t, ns, "c")
	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", "all"))
	createStamp(t, ns, "d", "all")
	awaitNames(t, ns, "a", "c", "d")
	await.Until(t, "d is ready", func() bool { return ready(get(t, stamps, ns, "d")) })

	p.stop()
	p.expectNoErrors()
	remove(t, stamps, ns, "c")
	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", ""))
	p, proxy := startWithProxy(t, d, ns, allowAll)
	p.awaitRunning("share", 1)
	awaitNames(t, ns, "d")
	await.Until(t, "a is ready", func() bool { return ready(get(t, stamps, ns, "a")) })
	p.stop()
	p.expectNoErrors()
	if got := proxy.Succeeded("configmaps").Writes(); got != 2 {
		t.Errorf("%d writes of the ConfigMap, want 2 that release the fields of a and c", got)
	}
}

// The replica that takes over was started before another one shared the ConfigMap.
func TestAReplicaReleasesWhatAnotherOneHasShared(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("share", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"share"))
	d.installPolicy("share", "allow: [{groups: [''], kinds: [ConfigMap], verbs: [create, patch]}]")
	must(t, tryCreate(t.Context(), configMaps, "ConfigMap", ns, "all", nil))
	elect := func(h *tholetest.Host) {
		h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+ns), failOverSizeOf(t).elect...)
	}
	leader := start(t, d, ns, allowAll, elect)
	leader.awaitRunning("share", 1)
	standby := start(t, d, ns, allowAll, elect)
	await.Until(t, "the other replica is ready to take over", func() bool { return standby.Plugin("share").State == "standby" })
	for _, name := range []string{"a", "b", "c"} {
		createStamp(t, ns, name, "all")
	}
	awaitNames(t, ns, "a", "b", "c")

	leader.kill()
	remove(t, stamps, ns, "c")
	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", ""))
	awaitNames(t, ns, "b")
	standby.stop()
	standby.expectNoErrors()
}

func awaitNames(t *testing.T, ns string, want ...string) {
	t.Helper()
	await.Until(t, "the ConfigMap has "+strings.Join(want, ", "), func() bool {
		data, _, _ := unstructured.NestedStringMap(get(t, configMaps, ns, "all").Object, "data")
		return slices.Equal(slices.Sorted(maps.Keys(data)), want)
	})
}
