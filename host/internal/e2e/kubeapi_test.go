package e2e

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// A plugin that imports k8s.io/api has functions beyond the usual limits. One that the administrator
// trusts runs.
func TestRelease_APluginThatImportsTheTypesOfKubernetesRunsWithinALargerLimit(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	wasm := wasmbuild.Build(t, wasmbuild.Go, testdata+"kubeapi")
	ns, d := namespace(t), newDirectory(t)
	d.install("kubeapi", wasm)
	p := start(t, d, ns, "")
	await.Until(t, "the plugin is refused, with the limit to raise", func() bool {
		s := p.Plugin("kubeapi")
		return s.State == string(catalog.Failed) && strings.Contains(s.LastError, "raise limits.moduleMiB")
	})
	p.stop()

	p = start(t, d, ns, "limits: {moduleMiB: 32}")
	p.awaitRunning("kubeapi", 1)
	createStamp(t, ns, "s", "hello")
	await.Until(t, "the ConfigMap has the text", func() bool {
		cm := get(t, configMaps, ns, "s")
		return cm != nil && field(cm, "data", "text") == "hello"
	})
}
