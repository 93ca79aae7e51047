package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The plugin share writes a ConfigMap that it does not own. It runs by the policy that the
// host shows, stops when that is taken away, and runs again when it is back.
func TestAPluginRunsWhileItsPolicyAllowsWhatItNeeds(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("share", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"share"))
	must(t, tryCreate(t.Context(), configMaps, "ConfigMap", ns, "all", nil))
	createStamp(t, ns, "a", "all")
	p, proxy := startWithProxy(t, d, ns, allowAll)
	awaitWaiting := func() string {
		t.Helper()
		await.Until(t, "the plugin waits", func() bool { return p.Plugin("share").State == "waiting" })
		return p.Plugin("share").LastError
	}
	_, policy, found := strings.Cut(awaitWaiting(), "as they are: ")
	if !found || strings.Contains(policy, "--config") {
		t.Fatalf("it waits for %s", p.Plugin("share").LastError)
	}
	if n := proxy.Succeeded("configmaps").Writes(); n != 0 {
		t.Errorf("%d writes without a policy", n)
	}

	d.installFile("share.yaml", policy)
	p.awaitRunning("share", 1)
	awaitNames(t, ns, "a")

	d.installPolicy("share", "limits: {concurrency: 1}")
	awaitWaiting()
	if s := p.Plugin("share"); s.Revision != 0 {
		t.Errorf("it waits as %+v", s)
	}
	createStamp(t, ns, "b", "all")
	expectNames := func(want ...string) {
		t.Helper()
		data, _, _ := unstructured.NestedStringMap(get(t, configMaps, ns, "all").Object, "data")
		if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, want) {
			t.Errorf("the ConfigMap has %q, want %q", got, want)
		}
	}
	expectNames("a")

	// A verb less does not keep it from running, but from writing.
	d.installPolicy("share", "allow: [{groups: [''], kinds: [ConfigMap], verbs: [create, delete]}]")
	p.awaitRunning("share", 1)
	p.awaitFailedRuns(t, "share/stamp", "denied")
	await.Until(t, "the stamp shows why", func() bool {
		message, _ := condition(get(t, stamps, ns, "b"), "Ready")["message"].(string)
		return strings.Contains(message, "add to its allow: {groups: [''], kinds: [ConfigMap], verbs: [patch]}")
	})
	expectNames("a")

	d.installFile("share.yaml", policy)
	awaitNames(t, ns, "a", "b")
	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", ""))
	awaitNames(t, ns, "b")
	p.stop()
}

// Nothing is read or written for a plugin that asks for more than it is allowed.
func TestGreedyGuestsWaitWithoutARequest(t *testing.T) {
	ns, d := namespace(t), newDirectory(t)
	for _, c := range tck.Greedy() {
		d.install(c.Name, c.Wasm())
	}
	p, proxy := startWithProxy(t, d, "", allowAll)
	for _, c := range tck.Greedy() {
		await.Until(t, c.Name+" waits", func() bool { return p.Plugin(c.Name).State == "waiting" })
		for _, kind := range c.Kinds {
			if reason := p.Plugin(c.Name).LastError; !strings.Contains(reason, "the policy does not allow") || !strings.Contains(reason, kind.Kind) {
				t.Errorf("%s waits for %s, and asks for %s", c.Name, reason, kind)
			}
		}
	}
	must(t, tryCreate(t.Context(), configMaps, "ConfigMap", ns, "something-happens", nil))
	for _, r := range proxy.Requests() {
		if r.Resource != "" {
			t.Errorf("request: %s %s", r.Verb, r.Resource)
		}
	}
	p.stop()
}
