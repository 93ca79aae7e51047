package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/sdk/sdktest"
)

// creations returns how many pods each of the next runs tries to create.
func creations(w *sdktest.World, runs int) (counts []int) {
	for range runs {
		counts = append(counts, len(w.Reconcile(web).Result.Apply))
	}
	return counts
}

// expectCreations expects how many pods each of the next runs tries to create.
func expectCreations(t *testing.T, w *sdktest.World, when string, want ...int) {
	t.Helper()
	if got := creations(w, len(want)); !slices.Equal(got, want) {
		t.Errorf("%s: the runs create %d pods, expected %d", when, got, want)
	}
}

func TestCreationsStartSlowly(t *testing.T) {
	w := newWorld(t, 300)
	expectCreations(t, w, "at first", 1, 2, 4, 8, 16, 32, 64, 100, 73, 0)
	w.Change(webRef, `{"spec":{"replicas":310}}`)
	expectCreations(t, w, "after none was missing", 1, 2, 4)
	w.FailWrites(podKind, "Forbidden")
	expectCreations(t, w, "with a quota", 3, 1, 1)
	w.FailWrites(podKind, "")
	expectCreations(t, w, "after a failure", 1, 2, 0)
}

func TestADeletionThatIsRefusedBlocksNeitherOthersNorCreations(t *testing.T) {
	w := newWorld(t, 4, "a", "b", "c", "held")
	w.Settle(web)
	change(w, "held", `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"}}}`)
	w.FailWrite("delete v1 Pod default/held", "Forbidden")
	w.Change(webRef, `{"spec":{"replicas":3}}`)
	w.Reconcile(web).ExpectRetry("Forbidden")
	w.Change(webRef, `{"spec":{"replicas":0}}`)
	w.Reconcile(web).ExpectRetry("Forbidden")
	for _, gone := range []string{"a", "b", "c"} {
		w.ExpectGone(podKind.Ref("default", gone))
	}
	w.Change(webRef, `{"spec":{"replicas":8}}`)
	expectCreations(t, w, "after a deletion was refused", 1, 2, 4)
}

func TestCreationsOfOneRunFitIntoAResult(t *testing.T) {
	for size, most := range map[int]int{16 << 10: 61, 200 << 10: 5, 1200 << 10: 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, 200)
			w.Change(webRef, `{"spec":{"template":{"metadata":{"annotations":{"large":"`+strings.Repeat("x", size)+`"}}}}}`)
			for want := 1; ; want *= 2 {
				run := w.Reconcile(web).ExpectSuccess()
				if got := len(run.Result.Apply); got != min(want, most) {
					t.Fatalf("%d pods are created in a run, expected %d", got, min(want, most))
				}
				if want > most {
					return
				}
			}
		})
	}
}

func TestNamesOfPodsAreThoseOfAGenerateName(t *testing.T) {
	long := strings.Repeat("a", 70)
	for name, prefix := range map[string]string{"web": "web-", "web-1.2": "web-1.2-", long: long[:58]} {
		w := sdktest.New(t)
		w.Create(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"default","name":"` + name + `"},
			"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}}}}}`)
		run := w.Reconcile("default/" + name).ExpectSuccess()
		created := strings.TrimPrefix(run.Writes[0], "apply v1 Pod default/")
		suffix, found := strings.CutPrefix(created, prefix)
		var pod NewPod
		w.Get(podKind.Ref("default", created), &pod)
		if !found || len(suffix) != 5 || pod.Metadata.GenerateName != name+"-" {
			t.Errorf("the pod of %s is %s, of the generateName %s; expected %s and 5 letters", name, created, pod.Metadata.GenerateName, prefix)
		}
	}
}

// The groups have no names of pods, of which some are too long or have dots.
func TestEachPodHasAGroupOfItsOwn(t *testing.T) {
	names := []string{"web.1", "web-1", strings.Repeat("a", 40) + "-web", strings.Repeat("b", 40) + strings.Repeat("a", 40) + "-web"}
	w := newWorld(t, 4, names...)
	w.Settle(web)
	w.FailWrite("delete v1 Pod default/web.1", "Forbidden")
	w.Change(webRef, `{"spec":{"replicas":0}}`)
	run := w.Reconcile(web).ExpectRetry("Forbidden")
	groups := map[string]bool{}
	for _, d := range run.Result.Delete {
		groups[d.Group] = true
	}
	if len(groups) != len(names) {
		t.Errorf("the groups are %v", groups)
	}
	for _, gone := range names[1:] {
		w.ExpectGone(podKind.Ref("default", gone))
	}
}
