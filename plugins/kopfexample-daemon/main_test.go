package main

import (
	"strconv"
	"testing"

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

// settle does what a host does, until nothing is due: no time passes.
func settle(t *testing.T, w *sdktest.World) {
	t.Helper()
	for range 10 {
		s, r := w.Step(name), w.Reconcile(name).ExpectReady()
		if len(s.Events)+len(r.Writes) == 0 {
			return
		}
	}
	t.Fatal("it does not come to rest")
}

func TestPodsAreSpawnedAndCountedAtOnce(t *testing.T) {
	for spec, want := range map[string]int{`{}`: 1, `{"replicas":3}`: 3, `{"replicas":0}`: 0} {
		w := newWorld(t, spec)
		settle(t, w)
		expectPods(t, w, want, want)
	}
}

func TestPodsAreTerminatedAtOnce(t *testing.T) {
	w := newWorld(t, `{"replicas":5}`)
	settle(t, w)
	w.Change(example, `{"spec":{"replicas":2}}`)
	settle(t, w)
	expectPods(t, w, 2, 2)
}

func TestDeletedPodIsReplacedAtOnce(t *testing.T) {
	w := newWorld(t, `{"replicas":2}`)
	settle(t, w)
	w.Delete(pod(0))
	w.Step(name).ExpectEvents(sdk.DaemonIndex).ExpectSignals("1")
	w.Reconcile(name).ExpectReady()
	expectPods(t, w, 2, 1)
	settle(t, w)
	expectPods(t, w, 2, 2)
}

// Whatever runs the object between two steps, the difference is made up for once.
func TestDifferenceIsMadeUpForOnce(t *testing.T) {
	w := newWorld(t, `{"replicas":3}`)
	for range 3 {
		w.Reconcile(name).ExpectReady()
		expectPods(t, w, 3, 0)
	}
	settle(t, w)
	w.Change(example, `{"spec":{"replicas":5}}`)
	w.Reconcile(name)
	w.Change(example, `{"spec":{"replicas":6}}`)
	w.Reconcile(name)
	expectPods(t, w, 5, 3)
	settle(t, w)
	expectPods(t, w, 6, 6)
	w.Change(example, `{"spec":{"replicas":2}}`)
	for range 3 {
		w.Reconcile(name)
		expectPods(t, w, 2, 6)
	}
	settle(t, w)
	expectPods(t, w, 2, 2)
}

func TestTheLastOfManySignalsCounts(t *testing.T) {
	w := newWorld(t, `{"replicas":3}`)
	settle(t, w)
	for i := range 3 {
		w.Delete(pod(i))
		w.Step(name).ExpectSignals(strconv.Itoa(2 - i))
	}
	w.Reconcile(name)
	expectPods(t, w, 3, 0)
}

// A signal is lost with the host: the daemon is started anew, and signals again.
func TestLostSignalComesAgain(t *testing.T) {
	w := newWorld(t, `{"replicas":2}`)
	settle(t, w)
	w.Delete(pod(0))
	w.Step(name).ExpectSignals("1")
	w.Restart()
	w.Reconcile(name).ExpectReady()
	expectPods(t, w, 1, 2)
	w.Step(name).ExpectEvents(sdk.DaemonStart).ExpectSignals("1")
	settle(t, w)
	expectPods(t, w, 2, 2)
}

// A run that fails does not take its signals with it.
func TestSignalOfAFailedRunStays(t *testing.T) {
	w := newWorld(t, `{"replicas":2}`)
	settle(t, w)
	w.Delete(pod(0))
	w.Step(name)
	w.FailWrites(kex.PodKind, "Forbidden")
	w.Reconcile(name).ExpectRetry("Forbidden")
	expectPods(t, w, 1, 2)
	w.FailWrites(kex.PodKind, "")
	w.Reconcile(name).ExpectReady()
	expectPods(t, w, 2, 1)
}

func TestStatusThatSomebodyHasEditedIsCorrected(t *testing.T) {
	w := newWorld(t, `{"replicas":2}`)
	settle(t, w)
	w.Change(example, `{"status":{"replicas":9}}`)
	settle(t, w)
	expectPods(t, w, 2, 9)
	w.Advance(recount)
	w.Step(name).ExpectEvents(sdk.DaemonTime).ExpectSignals("2")
	settle(t, w)
	expectPods(t, w, 2, 2)
}

func TestPodsOfOthersAreNotCounted(t *testing.T) {
	w := newWorld(t, `{"replicas":1}`)
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"other","labels":{"parent-kex":"another"}}}`)
	w.Create(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"none"}}`)
	settle(t, w)
	expectPods(t, w, 1, 1)
}

func TestDeletionStopsTheDaemon(t *testing.T) {
	w := newWorld(t, `{"replicas":2}`)
	settle(t, w)
	w.Delete(example)
	r := w.Reconcile(name).ExpectWrites("release")
	if r.LastStep == nil {
		t.Fatal("the daemon was not stopped")
	}
	r.LastStep.ExpectSuccess().ExpectSignals()
	w.ExpectGone(example)
	expectPods(t, w, 0, 0)
}
