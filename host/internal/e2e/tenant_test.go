package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// startTenant starts the plugin tenant, compiled by standard Go, in three namespaces
// with an object each.
func startTenant(t *testing.T, policy string) (p *process, d directory, namespaces []string) {
	t.Helper()
	installCRD(t, testdata+"stamp/crd.yaml")
	d = newDirectory(t)
	d.installPolicy("tenant", policy)
	d.install("tenant", wasmbuild.Build(t, wasmbuild.Go, testdata+"tenant"))
	for range 3 {
		namespaces = append(namespaces, namespace(t))
		createStamp(t, namespaces[len(namespaces)-1], "s", "0")
	}
	p = start(t, d, "", fmt.Sprintf("allow: {pooled: [tenant], namespaces: {tenant: [%s]}}", strings.Join(namespaces, ", ")))
	p.awaitRunning("tenant", 1)
	return p, d, namespaces
}

// awaitSeen runs all objects several times, and returns the namespaces that the last
// runs have found in the memory of the plugin.
func awaitSeen(t *testing.T, namespaces []string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for round := range 5 {
		for _, ns := range namespaces {
			text := fmt.Sprint(round + 1)
			must(t, patchSpec(t.Context(), stamps, ns, "s", "text", text))
			await.Until(t, "the object has run", func() bool {
				o := get(t, stamps, ns, "s")
				generation, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
				seen[ns] = field(o, "status", "version")
				return generation == o.GetGeneration()
			})
		}
	}
	return seen
}

func TestStateOfAPluginStaysInTheNamespaceOfItsObject(t *testing.T) {
	p, _, namespaces := startTenant(t, "limits: {instances: 1}")
	expectOwnStateOnly(t, namespaces)
	p.stop()
	p.expectNoErrors()
}

func expectOwnStateOnly(t *testing.T, namespaces []string) {
	t.Helper()
	for ns, found := range awaitSeen(t, namespaces) {
		if found != ns {
			t.Errorf("a run in %s found state of runs in %q", ns, found)
		}
	}
}

// A policy that ends it holds at once: what was kept until then is found no more.
func TestPooledPluginKeepsItsStateAcrossNamespaces(t *testing.T) {
	p, d, namespaces := startTenant(t, "limits: {instances: 1}\nisolation: pooled")
	for ns, found := range awaitSeen(t, namespaces) {
		if len(strings.Fields(found)) != len(namespaces) {
			t.Errorf("a run in %s found state of runs in %q, want all of %q", ns, found, namespaces)
		}
	}
	d.installPolicy("tenant", "limits: {instances: 1}")
	p.awaitRunning("tenant", 2)
	expectOwnStateOnly(t, namespaces)
	p.stop()
	p.expectNoErrors()
}

// A plugin that logs without end writes no more than it may, which is told, and
// another object of it is served.
func TestLogOfAPluginIsBounded(t *testing.T) {
	p, _, namespaces := startTenant(t, "")
	began, before := time.Now(), p.Metrics().Sum("thole_plugin_limit_hits_total", "plugin", "tenant", "limit", "log")
	createStamp(t, namespaces[0], "noisy", "log")
	logged := func() (bytes int, told bool) {
		for _, line := range p.Log.Since(0) {
			bytes += len(line.String("@message"))
			told = told || line.String("@level") == "warn" && line.String("plugin") == "tenant" && line["bytesPerSecond"] != nil
		}
		return bytes, told
	}
	await.Until(t, "what was dropped is told", func() bool { _, told := logged(); return told })
	awaitSeen(t, namespaces[1:])
	bytes, _ := logged()
	if most := 64 << 10 * int(11+time.Since(began).Seconds()); bytes > most {
		t.Errorf("%d bytes were logged in %s, want at most %d", bytes, time.Since(began), most)
	}
	if hits := p.Metrics().Sum("thole_plugin_limit_hits_total", "plugin", "tenant", "limit", "log"); hits == before {
		t.Errorf("the limit was hit %v times", hits)
	}
	p.stop()
}
