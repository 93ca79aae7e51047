package host

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

func TestLogLevelOfAPluginIsSetWhileItRuns(t *testing.T) {
	cluster := controlPlane(t)
	client := dynamic.NewForConfigOrDie(cluster)
	samples := client.Resource(podManagers).Namespace("default")
	apply(t, client.Resource(crds), "../plugins/podmanager/crd.yaml")
	r := start(t, cluster, nil) // at the level debug
	setLevel := func(level string) {
		t.Helper()
		writeText(t, filepath.Join(r.dir, "podmanager.yaml"), "apiVersion: thole.dev/v1alpha1\nlogLevel: "+level)
		await.Until(t, "the level "+level+" is set", func() bool {
			return strings.Contains(r.log.String(), `"event":"LogLevelSet","level":"`+level+`"`)
		})
	}
	reconciled := func() int { return strings.Count(r.log.String(), `"@message":"reconciled"`) }
	r.install("podmanager", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	setLevel("info")
	apply(t, samples, "../plugins/podmanager/sample.yaml")
	await.Until(t, "the sample is reconciled", func() bool { return r.host.guestStats()["podmanager"].Calls > 0 })
	if reconciled() > 0 {
		t.Error("runs that have succeeded were logged at the level info")
	}
	setLevel("debug")
	if err := samples.Delete(t.Context(), "sample", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a run that has succeeded is logged", func() bool { return reconciled() > 0 })
	// Another revision would run for every object.
	r.expectState("podmanager", func(s catalog.Status) bool { return s.Revision == 1 })
}
