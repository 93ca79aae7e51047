package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// costs sets the deletion cost of a pod.
func costs(w *sdktest.World, name, cost string) {
	change(w, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, deletionCost, cost))
}

// restarted sets the restarts of a pod's container, of its sidecar, and of an init container that is none.
func restarted(w *sdktest.World, name string, container, sidecar, initial int) {
	change(w, name, fmt.Sprintf(`{"spec":{"initContainers":[{"name":"sidecar","restartPolicy":"Always"},{"name":"initial"}]},
		"status":{"containerStatuses":[{"name":"web","restartCount":%d}],
		"initContainerStatuses":[{"name":"sidecar","restartCount":%d},{"name":"initial","restartCount":%d}]}}`, container, sidecar, initial))
}

// created sets when a pod was created.
func created(w *sdktest.World, name string, at time.Time) {
	change(w, name, fmt.Sprintf(`{"metadata":{"creationTimestamp":%q}}`, sdk.TimeOf(at)))
}

// scaleDown reconciles a ReplicaSet of two pods, and of one after a change, and expects which pod is deleted.
// Pod b has the smaller UID, so that it is deleted if nothing else decides.
func scaleDown(t *testing.T, gone string, change func(w *sdktest.World)) {
	t.Helper()
	w := newWorld(t, 2, "b", "a")
	w.Reconcile(web).ExpectSuccess()
	w.Advance(24 * time.Hour)
	for _, pod := range []string{"a", "b"} {
		ready(w, pod, w.Now())
	}
	change(w)
	w.Change(webRef, `{"spec":{"replicas":1}}`)
	w.Reconcile(web).ExpectSuccess().ExpectWrites("delete v1 Pod default/"+gone, "status")
}

// Each case changes pod a, so that it goes before pod b, or b so that it stays.
func TestPodsAreDeletedInTheOrderOfKubernetes(t *testing.T) {
	for name, change := range map[string]func(w *sdktest.World){
		"unassigned first":               func(w *sdktest.World) { change(w, "b", `{"spec":{"nodeName":"n"}}`) },
		"pending first":                  func(w *sdktest.World) { change(w, "a", `{"status":{"phase":"Pending"}}`) },
		"not ready first":                func(w *sdktest.World) { change(w, "a", `{"status":{"conditions":null}}`) },
		"a low cost first":               func(w *sdktest.World) { costs(w, "b", "1") },
		"a negative one, too":            func(w *sdktest.World) { costs(w, "a", "-010") },
		"an invalid cost is 0":           func(w *sdktest.World) { costs(w, "a", "many"); costs(w, "b", "1") },
		"a plus sign is not valid":       func(w *sdktest.World) { costs(w, "a", "+10"); costs(w, "b", "1") },
		"leading zeros are not valid":    func(w *sdktest.World) { costs(w, "a", "008"); costs(w, "b", "1") },
		"ready for a shorter time first": func(w *sdktest.World) { ready(w, "b", w.Now().Add(-time.Hour)) },
		"ready in the future first": func(w *sdktest.World) {
			ready(w, "a", w.Now().Add(time.Hour))
			ready(w, "b", w.Now().Add(-time.Second))
		},
		"ready since an unknown time first": func(w *sdktest.World) {
			change(w, "a", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		},
		"more restarts first":                   func(w *sdktest.World) { restarted(w, "a", 3, 0, 0); restarted(w, "b", 2, 9, 9) },
		"more restarts of sidecars first":       func(w *sdktest.World) { restarted(w, "a", 2, 3, 0); restarted(w, "b", 2, 2, 9) },
		"younger first":                         func(w *sdktest.World) { created(w, "a", w.Now().Add(-time.Hour)) },
		"more restarts before what was created": func(w *sdktest.World) { restarted(w, "a", 0, 1, 0); created(w, "b", w.Now()) },
	} {
		t.Run(name, func(t *testing.T) { scaleDown(t, "a", change) })
	}
}

// 5 and 8 seconds have the same logarithm in nanoseconds, and others in seconds.
func TestPodsOfAboutTheSameAgeAreDeletedByUID(t *testing.T) {
	for name, change := range map[string]func(w *sdktest.World){
		"ready for about the same time": func(w *sdktest.World) {
			ready(w, "a", w.Now().Add(-5*time.Second))
			ready(w, "b", w.Now().Add(-8*time.Second))
			restarted(w, "a", 1, 1, 0)
		},
		"created at about the same time": func(w *sdktest.World) {
			created(w, "a", w.Now().Add(-5*time.Second))
			created(w, "b", w.Now().Add(-8*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) { scaleDown(t, "b", change) })
	}
}

// ofDeployment makes a Deployment the controller of a ReplicaSet.
func ofDeployment(w *sdktest.World, replicaSet sdk.Ref) {
	w.Change(replicaSet, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"d","controller":true}]}}`)
}

// Pod a has the smallest UID.
func TestPodOnACrowdedNodeIsDeletedFirst(t *testing.T) {
	for _, c := range []struct {
		name, gone   string
		ofDeployment bool
	}{{"with a controller", "b", true}, {"without one nodes do not count", "a", false}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3, "a", "b", "c")
			w.Reconcile(web).ExpectSuccess()
			for pod, node := range map[string]string{"a": "empty", "b": "crowded", "c": "crowded"} {
				change(w, pod, `{"spec":{"nodeName":"`+node+`"}}`)
				ready(w, pod, w.Now())
			}
			if c.ofDeployment {
				ofDeployment(w, webRef)
			}
			w.Change(webRef, `{"spec":{"replicas":2}}`)
			w.Reconcile(web).ExpectSuccess().ExpectWrites("delete v1 Pod default/"+c.gone, "status")
		})
	}
}

// What counts is the selector: the pod on the node of a matches that of the ReplicaSet before and has no
// controller. The pods on the node of b are of that ReplicaSet and do not match, or are not active, or match one
// that has another controller.
func TestPodsThatMatchARelatedReplicaSetCount(t *testing.T) {
	scaleDown(t, "a", func(w *sdktest.World) {
		change(w, "a", `{"spec":{"nodeName":"of-a"}}`)
		change(w, "b", `{"spec":{"nodeName":"of-b"}}`)
		before := w.Create(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"default","name":"before"},
			"spec":{"replicas":0,"selector":{"matchLabels":{"app":"before"}}}}`)
		ofDeployment(w, webRef)
		ofDeployment(w, before)
		w.Create(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"default","name":"other"},
			"spec":{"replicas":0,"selector":{"matchLabels":{"app":"other"}}}}`)
		for name, metadataAndNode := range map[string]string{
			"matches":  `"labels":{"app":"before"}},"spec":{"nodeName":"of-a"}`,
			"ended":    `"labels":{"app":"before"}},"status":{"phase":"Failed"},"spec":{"nodeName":"of-b"}`,
			"deleting": `"labels":{"app":"before"},"finalizers":["example.com/f"]},"spec":{"nodeName":"of-b"}`,
			"other":    `"labels":{"app":"other"}},"spec":{"nodeName":"of-b"}`,
			"other-2":  `"labels":{"app":"other"}},"spec":{"nodeName":"of-b"}`,
		} {
			w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"` + name + `",` + metadataAndNode + `}`)
		}
		w.Delete(podKind.Ref("default", "deleting"))
		for _, name := range []string{"x", "y"} {
			w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":%q,"ownerReferences":[
				{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"before","uid":%q,"controller":true}]},"spec":{"nodeName":"of-b"}}`, name, before.UID))
		}
	})
}
