package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestALifeOfAPodManager follows the example of kube-rs-reconciler.txt from
// its creation to its end.
func TestALifeOfAPodManager(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	for _, toolchain := range wasmbuild.Toolchains {
		t.Run(string(toolchain), func(t *testing.T) {
			ns, d := namespace(t), newDirectory(t)
			d.install("podmanager", podmanager(t, toolchain))
			p := thole(t, d, ns, "")
			p.ready("podmanager", 1)

			primary(t, podManagers, "PodManager", ns, "pm", map[string]any{"image": "a:1"})
			var pod, pm *unstructured.Unstructured
			await.Until(t, "Pod applied, status and conditions right", func() bool {
				pod, pm = get(t, pods, ns, "pm"), get(t, podManagers, ns, "pm")
				return image(pod) == "a:1" && ready(pm) && field(pm, "status", "podCreated") != ""
			})
			if got, want := field(pm, "status", "podCreated"), field(pod, "metadata", "creationTimestamp"); got != want {
				t.Errorf("status.podCreated is %s, the Pod was created at %s", got, want)
			}
			if owner := pod.GetOwnerReferences(); len(owner) != 1 || owner[0].UID != pm.GetUID() || !*owner[0].Controller || !*owner[0].BlockOwnerDeletion {
				t.Errorf("owner references of the Pod: %+v", owner)
			}
			if f := pm.GetFinalizers(); len(f) != 1 || f[0] != "podmanager.thole.dev/podmanager" {
				t.Errorf("finalizers: %v", f)
			}

			if err := patchSpec(t.Context(), podManagers, ns, "pm", "image", "a:2"); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the spec change is taken up", func() bool {
				return image(get(t, pods, ns, "pm")) == "a:2" && ready(get(t, podManagers, ns, "pm"))
			})

			old := get(t, pods, ns, "pm").GetUID()
			remove(t, pods, ns, "pm")
			await.Until(t, "the deleted Pod is created again and its time noted", func() bool {
				pod, pm = get(t, pods, ns, "pm"), get(t, podManagers, ns, "pm")
				return pod != nil && pod.GetUID() != old && ready(pm) &&
					field(pm, "status", "podCreated") == field(pod, "metadata", "creationTimestamp")
			})

			remove(t, podManagers, ns, "pm")
			await.Until(t, "cleanup done, finalizer gone, nothing left", func() bool {
				return get(t, podManagers, ns, "pm") == nil && get(t, pods, ns, "pm") == nil
			})
			p.stop()
			p.expectNoErrors()
		})
	}
}

// TestAWrongSpecIsTold is the first thing that a user gets wrong.
func TestAWrongSpecIsTold(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := thole(t, d, ns, "")
	p.ready("podmanager", 1)
	primary(t, podManagers, "PodManager", ns, "wrong", map[string]any{"image": "not an image"})
	await.Until(t, "the PodManager is stalled", func() bool {
		return condition(get(t, podManagers, ns, "wrong"), "Stalled")["status"] == "True"
	})
	pm := get(t, podManagers, ns, "wrong")
	if r := condition(pm, "Ready"); r["status"] != "False" || r["reason"] != "InvalidImage" {
		t.Errorf("Ready is %v", r)
	}
	if err := patchSpec(t.Context(), podManagers, ns, "wrong", "image", "right:1"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the corrected PodManager is Ready", func() bool {
		pm := get(t, podManagers, ns, "wrong")
		return ready(pm) && condition(pm, "Stalled") == nil
	})
}

// TestAsking follows the annotations by which people steer single objects.
func TestAsking(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := thole(t, d, ns, "")
	p.ready("podmanager", 1)
	primary(t, podManagers, "PodManager", ns, "pm", map[string]any{"image": "a:1"})
	await.Until(t, "it is Ready", func() bool { return wellKnown(get(t, podManagers, ns, "pm")) })

	annotate(t, podManagers, ns, "pm", "reconcile.thole.dev/requestedAt", "now")
	await.Until(t, "the request is answered", func() bool {
		return field(get(t, podManagers, ns, "pm"), "status", "lastHandledReconcileAt") == "now"
	})

	annotate(t, podManagers, ns, "pm", "reconcile.thole.dev/suspend", "true")
	// Once a later object is Ready, and its Pod known, the host has seen what
	// happened to both kinds before.
	for i, step := range []func(){func() { remove(t, pods, ns, "pm") }, func() {}} {
		name := fmt.Sprintf("other-%d", i)
		primary(t, podManagers, "PodManager", ns, name, map[string]any{"image": "a:1"})
		await.Until(t, "another object goes on", func() bool { return wellKnown(get(t, podManagers, ns, name)) })
		step()
	}
	if get(t, pods, ns, "pm") != nil {
		t.Error("the Pod of a suspended PodManager was created again")
	}
	annotate(t, podManagers, ns, "pm", "reconcile.thole.dev/suspend", "false")
	await.Until(t, "it goes on when it is resumed", func() bool { return get(t, pods, ns, "pm") != nil })
	p.expectNoErrors()
}

// TestKilledAtRandomMoments ends the host without warning again and again
// while objects come, change and go; the end state is the same.
func TestKilledAtRandomMoments(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	for _, toolchain := range wasmbuild.Toolchains {
		t.Run(string(toolchain), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			ns, d := namespace(t), newDirectory(t)
			d.install("podmanager", podmanager(t, toolchain))
			want := map[string]string{} // name -> image
			for round := range 6 {
				p := thole(t, d, ns, "limits: {writesPerSecond: 200, writeBurst: 200}")
				p.ready("podmanager", 1)
				die := time.After(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
				for i := range 4 {
					name, img := fmt.Sprintf("pm-%d-%d", round, i), fmt.Sprintf("image:%d", round)
					primary(t, podManagers, "PodManager", ns, name, map[string]any{"image": img})
					want[name] = img
				}
				change(t, ns, random, want, round)
				<-die
				p.kill()
			}
			p := thole(t, d, ns, "limits: {writesPerSecond: 200, writeBurst: 200}")
			t.Cleanup(func() {
				if t.Failed() {
					dump(t, ns)
				}
			})
			p.ready("podmanager", 1)
			// A deletion that was killed half-way in the API server is ended by
			// the pod garbage collector, which looks every 20 s.
			await.Until(t, "every PodManager and Pod is as wanted", func() bool { return settled(t, ns, want) })
			p.stop()
			p.expectNoErrors()
		})
	}
}

// dump shows what is there when a test has failed.
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

// change edits one object of an earlier round, deletes one and one's Pod.
func change(t *testing.T, ns string, random *rand.Rand, want map[string]string, round int) {
	t.Helper()
	if round == 0 {
		return
	}
	name := func(i int) string { return fmt.Sprintf("pm-%d-%d", random.IntN(round), i) }
	if edited := name(0); want[edited] != "" {
		want[edited] = fmt.Sprintf("edited:%d", round)
		if err := patchSpec(t.Context(), podManagers, ns, edited, "image", want[edited]); err != nil {
			t.Fatal(err)
		}
	}
	if gone := name(1); want[gone] != "" {
		delete(want, gone)
		remove(t, podManagers, ns, gone)
	}
	if pod := get(t, pods, ns, name(2)); pod != nil {
		remove(t, pods, ns, pod.GetName())
	}
}

// settled says whether exactly the wanted PodManagers are there, Ready, with
// exactly their Pods.
func settled(t *testing.T, ns string, want map[string]string) bool {
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
