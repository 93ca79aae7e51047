package e2e

import (
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestADryRunWritesNothing runs a plugin as one does before it is trusted.
func TestADryRunWritesNothing(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := thole(t, d, ns, "dryRun: true")
	p.ready("podmanager", 1)
	primary(t, podManagers, "PodManager", ns, "pm", map[string]any{"image": "a:1"})
	await.Until(t, "the log tells what would happen", func() bool {
		return len(p.Log.With("dry run: would create")) > 0 && len(p.Log.With("dry run: would change")) > 1
	})
	if pm := get(t, podManagers, ns, "pm"); len(pm.GetFinalizers()) != 0 || pm.Object["status"] != nil {
		t.Errorf("the PodManager was written to: %v", pm.Object)
	}
	if get(t, pods, ns, "pm") != nil {
		t.Error("the Pod was created")
	}
	p.expectNoErrors()
}
