package main

import (
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const web = "default/web"

var (
	manager = sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "PodManager"}.Ref("default", "web")
	thePod  = podKind.Ref("default", "web")
)

// newWorld returns a world with one PodManager, as a user creates it.
func newWorld(t *testing.T) *sdktest.World {
	t.Helper()
	w := sdktest.New(t)
	w.Create(`{
		"apiVersion": "example.thole.dev/v1", "kind": "PodManager",
		"metadata": {"namespace": "default", "name": "web"},
		"spec": {"image": "nginx:1.29", "args": ["-v"], "labels": {"app": "web"}}
	}`)
	return w
}

// running returns a world in which the Pod exists and is in the status.
func running(t *testing.T) *sdktest.World {
	t.Helper()
	w := newWorld(t)
	w.Settle(web).ExpectReady()
	return w
}

func podOf(t *testing.T, w *sdktest.World) Pod {
	t.Helper()
	var pod Pod
	if !w.Get(thePod, &pod) {
		t.Fatal("there is no pod")
	}
	return pod
}

func statusOf(w *sdktest.World) Status {
	var m struct{ Status Status }
	w.Get(manager, &m)
	return m.Status
}

func TestPodIsCreatedAndRecorded(t *testing.T) {
	w := newWorld(t)

	w.Reconcile(web).ExpectReady().
		ExpectWrites("finalizer", "apply v1 Pod default/web", "status").
		ExpectEvents("PodCreated")

	pod := podOf(t, w)
	if c := pod.Spec.Containers[0]; c.Image != "nginx:1.29" || c.Args[0] != "-v" || pod.Metadata.Labels["app"] != "web" {
		t.Errorf("the pod does not match the spec: %+v", pod)
	}

	// The creation of the Pod runs the PodManager again.
	w.Reconcile(web).ExpectReady().ExpectWrites("status").ExpectEvents()
	if got := statusOf(w); got.PodName != "web" || got.PodCreated != sdk.TimeOf(w.Now()) {
		t.Errorf("the pod is not in the status: %+v", got)
	}
	w.Reconcile(web).ExpectReady().ExpectNoWrites()
}

func TestMissingCreationTimeIsRecorded(t *testing.T) {
	w := running(t)
	w.Change(manager, `{"status": {"podCreated": null}}`)

	w.Reconcile(web).ExpectReady().ExpectWrites("status")

	if got := statusOf(w); got.PodCreated == "" {
		t.Error("the creation time is missing")
	}
}

func TestFailedCreationIsRetried(t *testing.T) {
	w := newWorld(t)
	w.FailWrites(podKind, "Forbidden")

	w.Reconcile(web).ExpectRetry("Forbidden").ExpectCondition("Ready", sdk.False, "Forbidden")
	w.ExpectGone(thePod)

	w.FailWrites(podKind, "")
	w.Settle(web).ExpectReady()
}

func TestChangedImageUpdatesPodInPlace(t *testing.T) {
	w := running(t)
	before := podOf(t, w)
	w.Change(manager, `{"spec": {"image": "nginx:1.30", "labels": {"app": null, "tier": "a"}}}`)

	w.Reconcile(web).ExpectReady().ExpectWrites("apply v1 Pod default/web", "status")
	w.Reconcile(web).ExpectReady().ExpectNoWrites()

	pod := podOf(t, w)
	if pod.Metadata.UID != before.Metadata.UID || pod.Spec.Containers[0].Image != "nginx:1.30" {
		t.Errorf("the pod was not changed in place: %+v", pod)
	}
	if _, ok := pod.Metadata.Labels["app"]; ok || pod.Metadata.Labels["tier"] != "a" {
		t.Errorf("labels are %v", pod.Metadata.Labels)
	}
}

func TestChangedArgsReplacePod(t *testing.T) {
	w := running(t)
	before := podOf(t, w)
	w.Advance(time.Minute)
	w.Change(manager, `{"spec": {"args": ["-q"]}}`)

	run := w.Reconcile(web).ExpectWaiting("ReplacingPod").
		ExpectWrites("delete v1 Pod default/web", "status").
		ExpectCondition("Reconciling", sdk.True, "ReplacingPod")
	if run.Result.Delete[0].UID != before.Metadata.UID {
		t.Error("the deletion has no UID and could delete a later pod of that name")
	}

	w.Settle(web).ExpectReady()
	if pod := podOf(t, w); pod.Metadata.UID == before.Metadata.UID || pod.Spec.Containers[0].Args[0] != "-q" {
		t.Errorf("the pod was not replaced: %+v", pod)
	}
	if got := statusOf(w); got.PodCreated != sdk.TimeOf(w.Now()) {
		t.Errorf("podCreated is %s, of the pod before", got.PodCreated)
	}
}

func TestDigestCoversImmutableFieldsOnly(t *testing.T) {
	spec := Spec{Command: []string{"run"}, Args: []string{"a", "b"}, Env: []EnvVar{{Name: "N", Value: "v"}}}
	for name, change := range map[string]func(*Spec){
		"command": func(s *Spec) { s.Command = nil },
		"moved":   func(s *Spec) { s.Command, s.Args = []string{"run", "a"}, []string{"b"} },
		"joined":  func(s *Spec) { s.Args = []string{"ab"} },
		"value":   func(s *Spec) { s.Env = []EnvVar{{Name: "N"}} },
		"name":    func(s *Spec) { s.Env = []EnvVar{{Name: "M", Value: "v"}} },
	} {
		other := spec
		if change(&other); immutable(other) == immutable(spec) {
			t.Errorf("%s: the pod would not be replaced", name)
		}
	}
	other := spec
	other.Image, other.Labels = "another", map[string]string{"a": "b"}
	if immutable(other) != immutable(spec) {
		t.Error("the pod would be replaced, but image and labels can be changed in place")
	}
}

func TestFailedPodIsReplaced(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"status": {"phase": "Failed"}}`)

	w.Reconcile(web).ExpectWaiting("ReplacingPod").ExpectWrites("delete v1 Pod default/web", "status")

	w.Settle(web).ExpectReady()
}

func TestTerminatingPodIsAwaited(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"metadata": {"finalizers": ["example.com/slow"]}}`)
	w.Delete(thePod)

	w.Reconcile(web).ExpectWaiting("PodTerminating").ExpectWrites("status")

	w.Change(thePod, `{"metadata": {"finalizers": null}}`)
	w.Settle(web).ExpectReady()
}

func TestDeletedPodIsCreatedAgain(t *testing.T) {
	w := running(t)
	w.Delete(thePod)

	w.Reconcile(web).ExpectReady().ExpectEvents("PodCreated")

	podOf(t, w)
	if got := statusOf(w); got != (Status{}) {
		t.Errorf("the deleted pod is still in the status: %+v", got)
	}
}

func TestPhaseIsRecorded(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"status": {"phase": "Running"}}`)

	w.Reconcile(web).ExpectReady().ExpectWrites("status")

	if got := statusOf(w); got.PodPhase != "Running" {
		t.Errorf("podPhase is %q", got.PodPhase)
	}
}

func TestInvalidImageStalls(t *testing.T) {
	w := running(t)
	w.Change(manager, `{"spec": {"image": ""}}`)

	w.Reconcile(web).ExpectStalled("InvalidImage").ExpectNext(0).
		ExpectCondition("Stalled", sdk.True, "InvalidImage").
		ExpectCondition("Ready", sdk.False, "InvalidImage")
	podOf(t, w) // is not deleted

	w.Change(manager, `{"spec": {"image": "nginx:1.30"}}`)
	w.Reconcile(web).ExpectReady().ExpectCondition("Stalled", "", "")
}

func TestSpecOfWrongTypeStalls(t *testing.T) {
	w := newWorld(t)
	w.Change(manager, `{"spec": {"env": [{"name": 5}]}}`)

	run := w.Reconcile(web).ExpectStalled("InvalidSpec")

	if want := "spec.env.name: expected a string, found number"; run.Message != want {
		t.Errorf("the message is %q, expected %q", run.Message, want)
	}
}

func TestPodOfOthersIsNotChanged(t *testing.T) {
	w := newWorld(t)
	w.Create(Pod{TypeMeta: podKind.Type(), Metadata: sdk.ObjectMeta{Namespace: "default", Name: "web"}})

	w.Reconcile(web).ExpectStalled("PodNotOurs").ExpectWrites("status")
	if got := statusOf(w); got != (Status{}) {
		t.Errorf("the pod of others is in the status: %+v", got)
	}
	w.Delete(manager)

	w.ExpectGone(manager) // it has no finalizer
	podOf(t, w)
}

func TestPodIsDeletedBeforePodManager(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"metadata": {"finalizers": ["example.com/slow"]}}`)
	w.Delete(manager)

	w.Reconcile(web).ExpectWaiting("PodTerminating").ExpectWrites("delete v1 Pod default/web", "status")
	run := w.Reconcile(web).ExpectWaiting("PodTerminating").ExpectNoWrites().ExpectNext(5 * time.Second)
	if len(run.Result.Delete) != 0 {
		t.Error("the pod is deleted twice")
	}

	w.Change(thePod, `{"metadata": {"finalizers": null}}`)
	w.Reconcile(web).ExpectWrites("release").ExpectLog("cleaned up")
	w.ExpectGone(manager)
}

func TestFailedReadIsRetried(t *testing.T) {
	w := running(t)
	w.FailReads(podKind, abi.CodeUnavailable)

	w.Reconcile(web).ExpectRetry("Unavailable").ExpectEvents()

	w.FailReads(podKind, 0)
	w.Settle(web).ExpectReady()
}

func TestErrorPolicyRetriesReadsSoonAndThenBacksOff(t *testing.T) {
	w := running(t)
	w.FailReads(podKind, abi.CodeDenied)

	for range 3 {
		w.Reconcile(web).ExpectRetry("Denied").ExpectNext(5 * time.Second)
	}
	w.Reconcile(web).ExpectRetry("Denied").ExpectBackoff(4 * time.Second)

	w.FailReads(podKind, 0)
	w.Settle(web).ExpectReady()
}

func TestErrorPolicyHoldsForCleanup(t *testing.T) {
	w := running(t)
	w.FailReads(podKind, abi.CodeDenied)
	w.Delete(manager)

	w.Reconcile(web).ExpectRetry("Denied").ExpectNext(5 * time.Second)

	w.FailReads(podKind, 0)
	w.Settle(web)
	w.ExpectGone(manager)
}
