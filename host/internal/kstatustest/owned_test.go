package kstatustest

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// TestOwnedConditionsOfAllTargetsPrevail has another writer set every condition of an
// actor while the host does not see that: each target and each owned condition is what
// the next run has decided, and no other one.
func TestOwnedConditionsOfAllTargetsPrevail(t *testing.T) {
	installCRD(t, "testdata/actor/crd.yaml", actors)
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/kstatustest/testdata/actor")
	ns, proxy := namespace(t), tholetest.NewProxy(t, cluster.Config)
	s := &fixture{t: t, ns: ns, checker: newActorChecker(), actors: watchHistory(t, actors, ns)}
	tholeAt(t, proxy.Kubeconfig, ns, "actor", wasm)
	const good, bad = "Degraded=False Synced=True success", "Degraded=True Synced=False success"
	s.create("a", good+","+bad)
	expect := func(values map[string]string) {
		t.Helper()
		await.Until(t, fmt.Sprintf("the conditions are %v", values), func() bool {
			for conditionType, want := range values {
				c := conditionOf(s.actors.latest("a"), conditionType)
				if got := fmt.Sprintf("%v/%v", c["status"], c["reason"]); got != want {
					return false
				}
			}
			return true
		})
	}
	await.Until(t, "the first run has ended", func() bool { return s.actors.latest("a") != nil && statusOf(s.actors.latest("a")) != nil })
	expect(map[string]string{
		"Degraded": "False/Scripted", "Synced": "True/Scripted",
		"Healthy": "True/Scripted", "Settled": "True/Scripted", "Ready": "True/Scripted",
	})

	if err := proxy.SetRules("watch actors freeze"); err != nil {
		t.Fatal(err)
	}
	var theirs []any
	for _, conditionType := range []string{"Degraded", "Synced", "Healthy", "Settled", "Ready", "Foreign"} {
		theirs = append(theirs, map[string]any{
			"type": conditionType, "status": "Unknown", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	s.patch("a", types.MergePatchType, map[string]any{"status": map[string]any{"conditions": theirs}}, "status")
	// Its child makes the actor run: its next step.
	if err := objects.Resource(configMaps).Namespace(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(map[string]string{
		"Degraded": "True/Scripted", "Synced": "False/Scripted",
		"Healthy": "False/Scripted", "Settled": "False/Scripted", "Ready": "False/Scripted",
		"Foreign": "Unknown/Theirs",
	})
	conflicts := 0
	for _, r := range proxy.Requests() {
		if r.Verb == "patch" && r.Resource == "actors/status" && r.Code == http.StatusConflict {
			conflicts++
		}
	}
	if conflicts == 0 {
		t.Error("the host has seen what the other writer has written: there was no conflict")
	}
}
