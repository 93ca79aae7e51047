package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The example follows kube-rs-reconciler.txt.
func TestPodManagerIsServedFromCreationToDeletion(t *testing.T) { servePodManager(t, wasmbuild.TinyGo) }

func TestRelease_PodManagerOfGoIsServedFromCreationToDeletion(t *testing.T) {
	servePodManager(t, wasmbuild.Go)
}

func servePodManager(t *testing.T, toolchain wasmbuild.Toolchain) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, toolchain))
	p := start(t, d, ns, "")
	p.awaitRunning("podmanager", 1)

	createPodManager(t, ns, "pm", "a:1")
	var pod, pm *unstructured.Unstructured
	await.Until(t, "the Pod exists and the PodManager is Ready", func() bool {
		pod, pm = get(t, pods, ns, "pm"), get(t, podManagers, ns, "pm")
		return image(pod) == "a:1" && recordsPod(pm)
	})
	if got, want := field(pm, "status", "podCreated"), field(pod, "metadata", "creationTimestamp"); got != want {
		t.Errorf("status.podCreated is %s, the Pod was created at %s", got, want)
	}
	if owners := pod.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != pm.GetUID() ||
		!*owners[0].Controller || !*owners[0].BlockOwnerDeletion {
		t.Errorf("owner references of the Pod: %+v", owners)
	}
	if f := pm.GetFinalizers(); len(f) != 1 || f[0] != "podmanager.thole.dev/podmanager" {
		t.Errorf("finalizers: %v", f)
	}

	await.Until(t, "there is an Event about the Pod", func() bool {
		return slices.ContainsFunc(eventsAbout(t, ns, "pm"), func(e corev1.Event) bool {
			return e.Type == corev1.EventTypeNormal && e.Reason == "PodCreated" && strings.Contains(e.Message, "image a:1")
		})
	})

	must(t, patchSpec(t.Context(), podManagers, ns, "pm", "image", "a:2"))
	await.Until(t, "the image is changed in place", func() bool {
		return served(t, ns, "pm", "a:2") && get(t, pods, ns, "pm").GetUID() == pod.GetUID()
	})

	// The Pod is deleted, and then the command is changed, which cannot be done in place. Nothing runs on the cluster, so
	// that the Pod disappears at once.
	for what, replace := range map[string]func(){
		"deleted":  func() { remove(t, pods, ns, "pm") },
		"replaced": func() { must(t, patch(t.Context(), podManagers, ns, "pm", `{"spec":{"command":["sleep"]}}`)) },
	} {
		old := get(t, pods, ns, "pm").GetUID()
		replace()
		await.Until(t, "the "+what+" Pod is created again and its time recorded", func() bool {
			pod, pm = get(t, pods, ns, "pm"), get(t, podManagers, ns, "pm")
			return pod != nil && pod.GetUID() != old && ready(pm) &&
				field(pm, "status", "podCreated") == field(pod, "metadata", "creationTimestamp")
		})
	}

	must(t, patchSpec(t.Context(), podManagers, ns, "pm", "image", "not an image"))
	await.Until(t, "the mistake is told", func() bool {
		pm = get(t, podManagers, ns, "pm")
		r := condition(pm, "Ready")
		return condition(pm, "Stalled")["status"] == "True" && r["status"] == "False" && r["reason"] == "InvalidImage"
	})
	if now := get(t, pods, ns, "pm"); now.GetUID() != pod.GetUID() || image(now) != "a:2" {
		t.Errorf("by a mistake the Pod was changed: %v", now)
	}
	must(t, patchSpec(t.Context(), podManagers, ns, "pm", "image", "a:3"))
	await.Until(t, "the corrected PodManager is Ready", func() bool {
		return served(t, ns, "pm", "a:3") && condition(get(t, podManagers, ns, "pm"), "Stalled") == nil
	})
	if runs := p.Metrics().Sum("controller_runtime_reconcile_total", "controller", "podmanager/podmanager"); runs < 5 {
		t.Errorf("%v runs are counted", runs)
	}

	remove(t, podManagers, ns, "pm")
	await.Until(t, "the PodManager and its Pod are gone", func() bool {
		return get(t, podManagers, ns, "pm") == nil && get(t, pods, ns, "pm") == nil
	})
	p.stop()
	p.expectNoErrors()
}

func TestRequestedAtAndSuspendAnnotationsAreObeyed(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := startPodmanager(t, ns, "")
	createPodManager(t, ns, "pm", "a:1")
	await.Until(t, "the PodManager is Ready", func() bool { return recordsPod(get(t, podManagers, ns, "pm")) })

	annotate(t, podManagers, ns, "pm", "reconcile.thole.dev/requestedAt", "now")
	await.Until(t, "the request is recorded in the status", func() bool {
		return field(get(t, podManagers, ns, "pm"), "status", "lastHandledReconcileAt") == "now"
	})

	annotate(t, podManagers, ns, "pm", "reconcile.thole.dev/suspend", "true")
	// Once an object that was created later records its Pod, the host has received
	// all earlier events of both kinds: first the annotation, then the deletion.
	for i, afterwards := range []func(){func() { remove(t, pods, ns, "pm") }, func() {}} {
		name := fmt.Sprintf("other-%d", i)
		createPodManager(t, ns, name, "a:1")
		await.Until(t, "another object is reconciled", func() bool { return recordsPod(get(t, podManagers, ns, name)) })
		afterwards()
	}
	if get(t, pods, ns, "pm") != nil {
		t.Error("the Pod of a suspended PodManager was created again")
	}
	annotate(t, podManagers, ns, "pm", "reconcile.thole.dev/suspend", "false")
	await.Until(t, "the Pod is created again after the suspension", func() bool { return get(t, pods, ns, "pm") != nil })
	p.expectNoErrors()
}

func TestObjectsConvergeAfterTheHostIsKilledAtRandomMoments(t *testing.T) {
	killHostAtRandom(t, wasmbuild.TinyGo)
}

func TestRelease_ObjectsOfGoConvergeAfterTheHostIsKilledAtRandomMoments(t *testing.T) {
	killHostAtRandom(t, wasmbuild.Go)
}

// killHostAtRandom kills the host again and again while objects are created, changed and
// deleted.
func killHostAtRandom(t *testing.T, toolchain wasmbuild.Toolchain) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, toolchain))
	want := map[string]string{} // images by the names of the objects
	for round := range 6 {
		p := start(t, d, ns, "")
		p.awaitRunning("podmanager", 1)
		kill := time.After(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		for i := range 4 {
			name, image := fmt.Sprintf("pm-%d-%d", round, i), fmt.Sprintf("image:%d", round)
			createPodManager(t, ns, name, image)
			want[name] = image
		}
		change(t, ns, random, want, round)
		<-kill
		p.kill()
	}
	p := start(t, d, ns, "")
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, ns)
		}
	})
	p.awaitRunning("podmanager", 1)
	// If the host was killed during a foreground deletion, the control plane ends
	// it: see newTerminatingPods in cmd/thole-devcluster.
	await.Until(t, "every PodManager and Pod is as wanted", func() bool { return converged(t, ns, want) })
	p.stop()
	p.expectNoErrors()
}

// dump logs all objects after a failure.
func dump(t *testing.T, ns string) {
	for _, gvr := range []schema.GroupVersionResource{podManagers, pods} {
		l, err := objects.Resource(gvr).Namespace(ns).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Log(err)
			continue
		}
		for _, o := range l.Items {
			o.SetManagedFields(nil)
			text, _ := o.MarshalJSON()
			t.Logf("%s", text)
		}
	}
}

// change changes one object of an earlier round, and deletes another one and the
// Pod of a third.
func change(t *testing.T, ns string, random *rand.Rand, want map[string]string, round int) {
	t.Helper()
	if round == 0 {
		return
	}
	name := func(i int) string { return fmt.Sprintf("pm-%d-%d", random.IntN(round), i) }
	if edited := name(0); want[edited] != "" {
		want[edited] = fmt.Sprintf("edited:%d", round)
		must(t, patchSpec(t.Context(), podManagers, ns, edited, "image", want[edited]))
	}
	if gone := name(1); want[gone] != "" {
		delete(want, gone)
		remove(t, podManagers, ns, gone)
	}
	if pod := get(t, pods, ns, name(2)); pod != nil {
		remove(t, pods, ns, pod.GetName())
	}
}

// converged reports whether exactly the wanted PodManagers exist and are Ready,
// with exactly their Pods.
func converged(t *testing.T, ns string, want map[string]string) bool {
	t.Helper()
	managers, children := list(t, podManagers, ns), list(t, pods, ns)
	if len(managers) != len(want) || len(children) != len(want) {
		return false
	}
	for i := range managers {
		if !ready(&managers[i]) || want[managers[i].GetName()] == "" {
			return false
		}
	}
	for i := range children {
		if image(&children[i]) != want[children[i].GetName()] {
			return false
		}
	}
	return true
}
