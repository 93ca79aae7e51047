package main

import (
	"testing"
	"time"
)

func TestPodIsAvailableAfterMinReadySeconds(t *testing.T) {
	w := newWorld(t, 1, "a")
	w.Change(webRef, `{"spec":{"minReadySeconds":60}}`)
	w.Reconcile(web).ExpectSuccess().ExpectNext(0)
	ready(w, "a", w.Now())
	w.Advance(20 * time.Second)
	w.Reconcile(web).ExpectSuccess().ExpectNext(40 * time.Second)
	if got := status(w); got.ReadyReplicas != 1 || got.AvailableReplicas != 0 {
		t.Errorf("before its time the status is %+v", got)
	}
	w.Advance(40 * time.Second)
	w.Reconcile(web).ExpectSuccess().ExpectNext(0)
	if got := status(w); got.AvailableReplicas != 1 {
		t.Errorf("at its time the status is %+v", got)
	}
}

func TestReadyPodOfAnUnknownTimeIsNotAvailableUntilThatIsKnown(t *testing.T) {
	w := newWorld(t, 2, "a", "b")
	w.Change(webRef, `{"spec":{"minReadySeconds":60}}`)
	w.Reconcile(web).ExpectSuccess() // adopts them
	change(w, "a", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	w.Reconcile(web).ExpectSuccess().ExpectNext(time.Minute)
	if got := status(w); got.ReadyReplicas != 1 || got.AvailableReplicas != 0 {
		t.Errorf("the status is %+v", got)
	}
	ready(w, "b", w.Now().Add(-50*time.Second))
	w.Reconcile(web).ExpectSuccess().ExpectNext(10 * time.Second)
	w.Change(webRef, `{"spec":{"minReadySeconds":0}}`)
	w.Reconcile(web).ExpectSuccess().ExpectNext(0)
	if got := status(w); got.AvailableReplicas != 2 {
		t.Errorf("without minReadySeconds the status is %+v", got)
	}
}

func TestPodThatIsReadyInTheFarFutureIsLookedAtBefore(t *testing.T) {
	w := newWorld(t, 1, "a")
	w.Change(webRef, `{"spec":{"minReadySeconds":60}}`)
	w.Reconcile(web).ExpectSuccess() // adopts it
	ready(w, "a", time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	w.Reconcile(web).ExpectSuccess().ExpectNext(longestWait)
}

func TestFailureIsNotInTheStatusOfWhatHasAsManyPodsAsWanted(t *testing.T) {
	w := newWorld(t, 5)
	w.FailWrites(podKind, "Forbidden")
	for range 2 {
		w.Reconcile(web).ExpectRetry("Forbidden")
	}
	if got := status(w); len(got.Conditions) != 1 {
		t.Fatalf("the conditions are %+v", got.Conditions)
	}
	w.Change(webRef, `{"spec":{"replicas":0}}`) // or the creation has succeeded, and its reply was lost
	w.Reconcile(web).ExpectSuccess().ExpectEvents("FailedCreate")
	if got := status(w); len(got.Conditions) != 0 {
		t.Errorf("the conditions are %+v", got.Conditions)
	}
}

// A failed creation is no reason why there are too many.
func TestFailureOfACreationIsNotThatOfADeletion(t *testing.T) {
	w := newWorld(t, 5)
	for status(w).Replicas != 5 {
		w.Reconcile(web).ExpectSuccess()
	}
	w.Change(webRef, `{"spec":{"replicas":9}}`)
	w.FailWrites(podKind, "Forbidden")
	w.Reconcile(web).ExpectRetry("Forbidden")
	w.Change(webRef, `{"spec":{"replicas":4}}`)
	w.Reconcile(web).ExpectRetry("Forbidden").ExpectEvents("SuccessfulDelete", "FailedCreate")
	if got := status(w); len(got.Conditions) != 0 {
		t.Errorf("with too many pods after a failed creation the conditions are %+v", got.Conditions)
	}
	w.Reconcile(web).ExpectRetry("Forbidden").ExpectEvents("SuccessfulDelete", "FailedDelete")
	got := status(w).Conditions
	if len(got) != 1 || got[0].Reason != "FailedDelete" || got[0].Message != "unable to delete pods: refused by the test" {
		t.Errorf("the conditions are %+v", got)
	}
	w.Change(webRef, `{"spec":{"replicas":5}}`)
	w.Reconcile(web).ExpectSuccess()
	if got := status(w).Conditions; len(got) != 0 {
		t.Errorf("with as many pods as wanted the conditions are %+v", got)
	}
}

func TestReplicaSetThatIsBeingDeletedHasNoFailure(t *testing.T) {
	w := newWorld(t, 2)
	w.Change(webRef, `{"metadata":{"finalizers":["example.com/f"]}}`)
	w.FailWrites(podKind, "Forbidden")
	for range 2 {
		w.Reconcile(web).ExpectRetry("Forbidden")
	}
	w.Delete(webRef)
	w.Reconcile(web).ExpectSuccess().ExpectWrites("status")
	if got := status(w).Conditions; len(got) != 0 {
		t.Errorf("the conditions are %+v", got)
	}
}

func TestConditionOfAFailureThatIsThereStays(t *testing.T) {
	w := newWorld(t, 2)
	w.Change(webRef, `{"status":{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"the first",
		"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	want := status(w).Conditions[0]
	w.FailWrites(podKind, "Forbidden")
	w.Reconcile(web).ExpectRetry("Forbidden") // no failure is known: the condition goes
	if got := status(w).Conditions; len(got) != 0 {
		t.Fatalf("before the first failure the conditions are %+v", got)
	}
	w.Change(webRef, `{"status":{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"the first",
		"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	w.Reconcile(web).ExpectRetry("Forbidden").ExpectNoWrites()
	if got := status(w).Conditions; len(got) != 1 || got[0] != want {
		t.Errorf("the conditions are %+v, expected %+v", got, want)
	}
}

func TestCreationInANamespaceThatIsBeingDeletedIsNoFailure(t *testing.T) {
	w := newWorld(t, 1)
	w.FailWrites(podKind, "NamespaceTerminating")
	for range 2 {
		w.Reconcile(web).ExpectEvents("SuccessfulCreate") // it is of the group, and is not emitted
	}
	if got := status(w); len(got.Conditions) != 0 {
		t.Errorf("the conditions are %+v", got.Conditions)
	}
}

func TestPodOfAReplicaSetThatIsBeingDeletedBecomesAvailable(t *testing.T) {
	w := newWorld(t, 1, "a")
	w.Change(webRef, `{"metadata":{"finalizers":["example.com/f"]},"spec":{"minReadySeconds":60}}`)
	w.Reconcile(web).ExpectSuccess()
	w.Delete(webRef)
	ready(w, "a", w.Now())
	w.Reconcile(web).ExpectSuccess().ExpectNext(time.Minute)
	w.Advance(time.Minute)
	w.Reconcile(web).ExpectSuccess().ExpectNext(0)
	if got := status(w); got.AvailableReplicas != 1 {
		t.Errorf("the status is %+v", got)
	}
}
