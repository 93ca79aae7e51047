package e2e

import (
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// A dry run logs what each write would create or change.
func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := startPodmanager(t, ns, "dryRun: true")
	createPodManager(t, ns, "pm", "a:1")
	await.Until(t, "the writes of a run are logged", func() bool {
		writes := p.Log.Since(0).With("@module", "thole.effect")
		pod := writes.With("object", "v1 Pod "+ns+"/pm")
		pm := writes.With("object", "example.thole.dev/v1 PodManager "+ns+"/pm")
		return len(pod) > 0 && strings.Contains(pod[0].String("content"), `"image":"a:1"`) && len(pm) > 1 &&
			strings.Contains(pm[0].String("difference"), `"finalizers"`) &&
			strings.Contains(pm[1].String("difference"), `"status"`)
	})
	untouched := map[string]any{"observedGeneration": int64(-1)} // the default of the CRD
	if pm := get(t, podManagers, ns, "pm"); len(pm.GetFinalizers()) != 0 || !reflect.DeepEqual(pm.Object["status"], untouched) {
		t.Errorf("the PodManager was written: %v", pm.Object)
	}
	if get(t, pods, ns, "pm") != nil {
		t.Error("the Pod was created")
	}
	p.expectNoErrors()
}
