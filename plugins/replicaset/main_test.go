package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const web = "default/web"

var webRef = replicaSetKind.Ref("default", "web")

// newWorld returns a world with a ReplicaSet and pods of these names, which it adopts.
func newWorld(t *testing.T, replicas int, pods ...string) *sdktest.World {
	t.Helper()
	w := sdktest.New(t)
	w.Create(fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"default","name":"web"},
		"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"web"}},
		"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx"}]}}}}`, replicas))
	for _, name := range pods {
		w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"` + name + `","labels":{"app":"web"}}}`)
	}
	return w
}

// change merges a patch into a pod.
func change(w *sdktest.World, name, patch string) { w.Change(podKind.Ref("default", name), patch) }

// ready makes a pod ready since a time.
func ready(w *sdktest.World, name string, since time.Time) {
	change(w, name, fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
		sdk.TimeOf(since)))
}

// status returns the status of the ReplicaSet.
func status(w *sdktest.World) Status {
	var rs struct{ Status Status }
	w.Get(webRef, &rs)
	return rs.Status
}

func TestMissingPodsAreCreatedFromTheTemplate(t *testing.T) {
	w := newWorld(t, 2, "a")
	w.Reconcile(web).ExpectSuccess().ExpectWrites("apply v1 Pod default/a")
	run := w.Reconcile(web).ExpectSuccess()
	created := slices.DeleteFunc(slices.Clone(run.Writes), func(write string) bool { return !strings.HasPrefix(write, "apply v1 Pod default/web-") })
	if len(created) != 1 {
		t.Fatalf("the writes are %q, expected a new pod", run.Writes)
	}
	var pod NewPod
	w.Get(podKind.Ref("default", strings.TrimPrefix(created[0], "apply v1 Pod default/")), &pod)
	if pod.Metadata.Labels["app"] != "web" || string(pod.Spec) != `{"containers":[{"name":"web","image":"nginx"}]}` {
		t.Errorf("the pod is %+v", pod)
	}
	w.Reconcile(web).ExpectSuccess().ExpectWrites("status")
	if got := status(w); got.Replicas != 2 || got.FullyLabeledReplicas != 2 || got.ObservedGeneration != 1 {
		t.Errorf("the status is %+v", got)
	}
	w.Reconcile(web).ExpectSuccess().ExpectNoWrites()
}

func TestFailedCreationIsToldAndTriedOneByOne(t *testing.T) {
	w := newWorld(t, 5)
	w.FailWrites(podKind, "Forbidden")
	w.Reconcile(web).ExpectRetry("Forbidden")
	if got := status(w); got.ObservedGeneration != 1 || got.Conditions != nil {
		t.Errorf("the status of the run that failed is %+v", got)
	}
	run := w.Reconcile(web).ExpectRetry("Forbidden").ExpectEvents("SuccessfulCreate", "FailedCreate")
	if len(run.Result.Apply) != 1 {
		t.Errorf("%d pods are tried after a failure, expected 1", len(run.Result.Apply))
	}
	if got := status(w); len(got.Conditions) != 1 || got.Conditions[0].Type != replicaFailure || got.Conditions[0].Reason != "FailedCreate" {
		t.Errorf("the conditions are %+v", got.Conditions)
	}
}

func TestReplicaSetThatIsBeingDeletedChangesNoPod(t *testing.T) {
	w := newWorld(t, 2, "a")
	w.Change(webRef, `{"metadata":{"finalizers":["foregroundDeletion"]}}`)
	w.Reconcile(web).ExpectSuccess()
	w.Delete(webRef)
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"late","labels":{"app":"web"}}}`)
	w.Change(webRef, `{"spec":{"replicas":1}}`)
	run := w.Reconcile(web).ExpectSuccess()
	if len(run.Result.Apply)+len(run.Result.Delete)+len(run.Result.Release) > 0 {
		t.Errorf("the result is %+v", run.Result)
	}
}

func TestManyPodsAreAdoptedBeforeAnyIsCreatedOrDeleted(t *testing.T) {
	var names []string
	for i := range 130 {
		names = append(names, fmt.Sprintf("p%03d", i))
	}
	w := newWorld(t, 131, names...)
	for _, want := range []int{50, 50, 30, 1} { // the last one creates the pod that is missing
		run := w.Reconcile(web).ExpectSuccess()
		if len(run.Result.Apply) != want || len(run.Result.Delete) > 0 {
			t.Fatalf("%d applies and %d deletes, expected %d applies", len(run.Result.Apply), len(run.Result.Delete), want)
		}
	}
	w.Reconcile(web).ExpectSuccess()
	if got := status(w); got.Replicas != 131 {
		t.Errorf("the status is %+v", got)
	}
}

func TestInvalidSelectorIsStalled(t *testing.T) {
	w := newWorld(t, 1)
	w.Change(webRef, `{"spec":{"selector":{"matchLabels":{"no label":"x"}}}}`)
	w.Reconcile(web).ExpectStalled("InvalidSelector")
}
