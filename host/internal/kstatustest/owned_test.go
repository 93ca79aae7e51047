package kstatustest

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
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
	// Each run decides the opposite of the one before. How many there are is not known: the child that the first one makes
	// leads to another.
	const good, bad = "Degraded=False Synced=True success", "Degraded=True Synced=False success"
	s.create("a", strings.Repeat(good+","+bad+",", 50)+good)
	all := func(degraded, others string) map[string]string {
		return map[string]string{
			"Degraded": degraded + "/Scripted", "Synced": others + "/Scripted",
			"Healthy": others + "/Scripted", "Settled": others + "/Scripted", "Ready": others + "/Scripted",
		}
	}
	expect := func(foreign string) {
		t.Helper()
		var got map[string]string
		await.Until(t, "a run has decided all conditions", func() bool {
			got = map[string]string{}
			for _, c := range conditionsOf(s.actors.latest("a")) {
				got[fmt.Sprint(c["type"])] = fmt.Sprintf("%v/%v", c["status"], c["reason"])
			}
			theirs := got["Foreign"]
			delete(got, "Foreign")
			return theirs == foreign && (maps.Equal(got, all("False", "True")) || maps.Equal(got, all("True", "False")))
		})
	}
	expect("")

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
	// Its child makes the actor run.
	if err := objects.Resource(configMaps).Namespace(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("Unknown/Theirs")
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
