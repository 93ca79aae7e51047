package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/plugins/kopfexample/kex"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const name = "default/kex"

var example = kex.Kind.Ref("default", "kex")

// newWorld returns a world with one KopfExample of that spec.
func newWorld(t *testing.T, spec string) *sdktest.World {
	t.Helper()
	w := sdktest.New(t)
	w.Create(`{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"namespace":"default","name":"kex"},"spec":` + spec + `}`)
	return w
}

func pod(i int) sdk.Ref { return kex.PodKind.Ref("default", "kex-"+strconv.Itoa(i)) }

// expectPods expects so many Pods of the object, and that many in its status.
func expectPods(t *testing.T, w *sdktest.World, want, inStatus int) {
	t.Helper()
	found := 0
	for i := range 10 {
		if w.Exists(pod(i)) {
			found++
		}
	}
	var got struct{ Status kex.Status }
	if w.Get(example, &got); found != want || got.Status.Replicas != inStatus {
		t.Errorf("%d pods, and %d in the status; want %d and %d", found, got.Status.Replicas, want, inStatus)
	}
}

// tick runs the object when its timer is due.
func tick(w *sdktest.World) *sdktest.Run {
	w.Advance(11 * time.Second)
	return w.Reconcile(name)
}

func TestPodsAreSpawnedAndCounted(t *testing.T) {
	for spec, want := range map[string]int{`{}`: 1, `{"replicas":3}`: 3, `{"replicas":0}`: 0} {
		w := newWorld(t, spec)
		w.Reconcile(name).ExpectReady()
		expectPods(t, w, want, 0)
		w.Reconcile(name) // the Pods are there, and the timer has not counted them
		expectPods(t, w, want, 0)
		tick(w).ExpectReady()
		expectPods(t, w, want, want)
		w.Reconcile(name).ExpectNoWrites()
	}
}

func TestPodsAreTerminatedAtRandom(t *testing.T) {
	w := newWorld(t, `{"replicas":5}`)
	w.Reconcile(name)
	tick(w)
	w.Change(example, `{"spec":{"replicas":2}}`)
	w.Reconcile(name).ExpectReady()
	expectPods(t, w, 2, 5)
	w.Reconcile(name)
	expectPods(t, w, 2, 5)
	tick(w)
	expectPods(t, w, 2, 2)
}

func TestDeletedPodIsReplacedWhenTheTimerHasNoticed(t *testing.T) {
	w := newWorld(t, `{"replicas":2}`)
	w.Reconcile(name)
	tick(w)
	w.Delete(pod(0))
	w.Reconcile(name)
	expectPods(t, w, 1, 2)
	tick(w)
	expectPods(t, w, 2, 1)
	tick(w)
	expectPods(t, w, 2, 2)
}

func TestPodsOfOthersAreNotCounted(t *testing.T) {
	w := newWorld(t, `{"replicas":1}`)
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"other","labels":{"parent-kex":"another"}}}`)
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"none"}}`)
	w.Reconcile(name)
	tick(w)
	expectPods(t, w, 1, 1)
}
