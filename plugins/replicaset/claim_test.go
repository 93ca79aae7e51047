package main

import (
	"testing"

	"github.com/thole-dev/thole/sdk"
)

func TestAnAdoptionThatFailsKeepsOthersButNothingElse(t *testing.T) {
	w := newWorld(t, 5, "a", "b", "c")
	w.FailWrite("apply v1 Pod default/a", "Forbidden")
	w.Reconcile(web).ExpectRetry("Forbidden").ExpectWrites("apply v1 Pod default/b", "apply v1 Pod default/c")
	w.Reconcile(web).ExpectRetry("Forbidden").ExpectNoWrites()
	w.Delete(podKind.Ref("default", "a"))
	run := w.Reconcile(web).ExpectSuccess().ExpectEvents("SuccessfulCreate") // and no FailedCreate
	if got := status(w); len(run.Result.Apply) != 1 || got.Replicas != 2 || got.Conditions != nil {
		t.Errorf("%d applies, and the status is %+v", len(run.Result.Apply), got)
	}
}

func TestAPodOfAnotherKindOrNameOfOwnerIsNotOwned(t *testing.T) {
	for name, change := range map[string]func(owner *sdk.OwnerReference){
		"kind": func(owner *sdk.OwnerReference) { owner.Kind = "ReplicationController" },
		"name": func(owner *sdk.OwnerReference) { owner.Name = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, "a")
			w.Settle(web)
			var pod struct{ Metadata sdk.ObjectMeta }
			w.Get(podKind.Ref("default", "a"), &pod)
			change(&pod.Metadata.OwnerReferences[0])
			w.Change(podKind.Ref("default", "a"), map[string]any{"metadata": map[string]any{"ownerReferences": pod.Metadata.OwnerReferences}})
			expectCreations(t, w, "beside a pod that is not owned", 1, 0)
			w.Change(webRef, `{"spec":{"replicas":0}}`)
			w.Settle(web)
			if !w.Exists(podKind.Ref("default", "a")) {
				t.Error("the pod was deleted")
			}
		})
	}
}
