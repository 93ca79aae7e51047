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

// newWorld has one PodManager, as a user creates it.
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

// running is the world in which the Pod is there and noted.
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

func TestCreatesThePodAndNotesIt(t *testing.T) {
	w := newWorld(t)

	w.Reconcile(web).ExpectReady().
		ExpectWrites("finalizer", "apply v1 Pod default/web", "status").
		ExpectEvents("PodCreated")

	pod := podOf(t, w)
	if c := pod.Spec.Containers[0]; c.Image != "nginx:1.29" || c.Args[0] != "-v" || pod.Metadata.Labels["app"] != "web" {
		t.Errorf("the pod is not that of the spec: %+v", pod)
	}

	// The Pod's appearing runs the PodManager again.
	w.Reconcile(web).ExpectReady().ExpectWrites("status").ExpectEvents()
	if got := statusOf(w); got.PodName != "web" || got.PodCreated != sdk.TimeOf(w.Now()) {
		t.Errorf("the pod is not noted: %+v", got)
	}
	w.Reconcile(web).ExpectReady().ExpectNoWrites()
}

func TestNotesTheCreationTimeAlsoWhenThatFailedBefore(t *testing.T) {
	w := running(t)
	w.Change(manager, `{"status": {"podCreated": null}}`)

	w.Reconcile(web).ExpectReady().ExpectWrites("status")

	if got := statusOf(w); got.PodCreated == "" {
		t.Error("the creation time is missing")
	}
}

func TestTriesAgainWhenThePodCannotBeCreated(t *testing.T) {
	w := newWorld(t)
	w.FailWrites(podKind, "Forbidden")

	w.Reconcile(web).ExpectRetry("Forbidden").ExpectCondition("Ready", sdk.False, "Forbidden")
	w.ExpectGone(thePod)

	w.FailWrites(podKind, "")
	w.Settle(web).ExpectReady()
}

func TestTakesOverAChangedImageInPlace(t *testing.T) {
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

func TestReplacesThePodWhenArgsChange(t *testing.T) {
	w := running(t)
	before := podOf(t, w)
	w.Advance(time.Minute)
	w.Change(manager, `{"spec": {"args": ["-q"]}}`)

	run := w.Reconcile(web).ExpectWaiting("ReplacingPod").
		ExpectWrites("delete v1 Pod default/web", "status").
		ExpectCondition("Reconciling", sdk.True, "ReplacingPod")
	if run.Result.Delete[0].UID != before.Metadata.UID {
		t.Error("a later pod of that name could be meant")
	}

	w.Settle(web).ExpectReady()
	if pod := podOf(t, w); pod.Metadata.UID == before.Metadata.UID || pod.Spec.Containers[0].Args[0] != "-q" {
		t.Errorf("the pod was not replaced: %+v", pod)
	}
	if got := statusOf(w); got.PodCreated != sdk.TimeOf(w.Now()) {
		t.Errorf("podCreated is %s, of the pod before", got.PodCreated)
	}
}

func TestKnowsWhatAPodCannotChange(t *testing.T) {
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
		t.Error("image and labels are changed in place")
	}
}

func TestReplacesAFailedPod(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"status": {"phase": "Failed"}}`)

	w.Reconcile(web).ExpectWaiting("ReplacingPod").ExpectWrites("delete v1 Pod default/web", "status")

	w.Settle(web).ExpectReady()
}

func TestWaitsForATerminatingPod(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"metadata": {"finalizers": ["example.com/slow"]}}`)
	w.Delete(thePod)

	w.Reconcile(web).ExpectWaiting("PodTerminating").ExpectWrites("status")

	w.Change(thePod, `{"metadata": {"finalizers": null}}`)
	w.Settle(web).ExpectReady()
}

func TestRecreatesAPodThatWasDeletedByHand(t *testing.T) {
	w := running(t)
	w.Delete(thePod)

	w.Reconcile(web).ExpectReady().ExpectEvents("PodCreated")

	podOf(t, w)
	if got := statusOf(w); got != (Status{}) {
		t.Errorf("the pod that is gone is still noted: %+v", got)
	}
}

func TestNotesThePhase(t *testing.T) {
	w := running(t)
	w.Change(thePod, `{"status": {"phase": "Running"}}`)

	w.Reconcile(web).ExpectReady().ExpectWrites("status")

	if got := statusOf(w); got.PodPhase != "Running" {
		t.Errorf("podPhase is %q", got.PodPhase)
	}
}

func TestStallsOnAnImageThatIsNone(t *testing.T) {
	w := running(t)
	w.Change(manager, `{"spec": {"image": ""}}`)

	w.Reconcile(web).ExpectStalled("InvalidImage").ExpectNext(0).
		ExpectCondition("Stalled", sdk.True, "InvalidImage").
		ExpectCondition("Ready", sdk.False, "InvalidImage")
	podOf(t, w) // is left alone

	w.Change(manager, `{"spec": {"image": "nginx:1.30"}}`)
	w.Reconcile(web).ExpectReady().ExpectCondition("Stalled", "", "")
}

func TestStallsOnASpecThatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	w.Change(manager, `{"spec": {"env": [{"name": 5}]}}`)

	run := w.Reconcile(web).ExpectStalled("InvalidSpec")

	if want := "spec.env.name: expected a string, found number"; run.Message != want {
		t.Errorf("the message is %q, expected %q", run.Message, want)
	}
}

func TestLeavesAForeignPodAlone(t *testing.T) {
	w := newWorld(t)
	w.Create(Pod{TypeMeta: podKind.Type(), Metadata: sdk.ObjectMeta{Namespace: "default", Name: "web"}})

	w.Reconcile(web).ExpectStalled("PodNotOurs").ExpectWrites("status")
	if got := statusOf(w); got != (Status{}) {
		t.Errorf("the pod of somebody else is noted: %+v", got)
	}
	w.Delete(manager)

	w.ExpectGone(manager) // nothing of ours holds it
	podOf(t, w)
}

func TestEndsThePodBeforeThePodManagerGoes(t *testing.T) {
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

func TestComesAgainWhenThePodCannotBeRead(t *testing.T) {
	w := running(t)
	w.FailReads(podKind, abi.CodeUnavailable)

	w.Reconcile(web).ExpectRetry("Unavailable").ExpectEvents()

	w.FailReads(podKind, 0)
	w.Settle(web).ExpectReady()
}
