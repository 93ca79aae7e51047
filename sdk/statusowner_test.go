package sdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

func TestSetStatusConditionMovesTheTransitionWithTheStatus(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(minutes int) sdk.Time { return sdk.TimeOf(start.Add(time.Duration(minutes) * time.Minute)) }
	var all []sdk.Condition
	for i, c := range []struct {
		set, want sdk.Condition
	}{
		{sdk.Condition{Type: "A", Status: sdk.True, Reason: "One"}, sdk.Condition{Type: "A", Status: sdk.True, Reason: "One", LastTransitionTime: of(0)}},
		{sdk.Condition{Type: "A", Status: sdk.True, Reason: "Two"}, sdk.Condition{Type: "A", Status: sdk.True, Reason: "Two", LastTransitionTime: of(0)}},
		{sdk.Condition{Type: "A", Status: sdk.False, Reason: "Two"}, sdk.Condition{Type: "A", Status: sdk.False, Reason: "Two", LastTransitionTime: of(2)}},
		{sdk.Condition{Type: "A", Status: sdk.False, LastTransitionTime: of(9)}, sdk.Condition{Type: "A", Status: sdk.False, LastTransitionTime: of(9)}},
	} {
		sdk.SetStatusCondition(&all, c.set, start.Add(time.Duration(i)*time.Minute))
		if len(all) != 1 || all[0] != c.want {
			t.Errorf("%d: %+v, want %+v", i, all, c.want)
		}
	}
	sdk.SetStatusCondition(&all, sdk.Condition{Type: "B", Status: sdk.True}, start)
	sdk.RemoveStatusCondition(&all, "A")
	if len(all) != 1 || all[0].Type != "B" {
		t.Errorf("after the removal: %+v", all)
	}
}

type replicaSetStatus struct {
	Replicas           int             `json:"replicas"`
	ObservedGeneration int64           `json:"observedGeneration,omitempty"`
	Conditions         []sdk.Condition `json:"conditions,omitempty"`
}

type replicaSet = sdk.Request[struct{}, replicaSetStatus]

var onReplicaSet func(*replicaSet) (sdk.Action, error)

func init() {
	for name, owner := range map[string]sdk.StatusOwner{"replicas": sdk.StatusOwnerGuest, "replicas-of-host": ""} {
		sdk.Register(sdk.Controller[struct{}, replicaSetStatus]{
			Name: name, For: sdk.Kind{APIVersion: "apps/v1", Kind: "ReplicaSet"}, Owns: []sdk.Kind{configMap},
			WhileDeleting: true, StatusOwner: owner,
			Reconcile: func(r *replicaSet) (sdk.Action, error) { return onReplicaSet(r) },
		})
	}
}

// replicas returns a world with one ReplicaSet, whose controller calls reconcile.
func replicas(t *testing.T, controller string, reconcile func(*replicaSet) (sdk.Action, error)) (*sdktest.World, sdk.Ref) {
	t.Helper()
	onReplicaSet = reconcile
	w := sdktest.New(t, controller)
	return w, w.Create(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"default","name":"rs","finalizers":["foregroundDeletion"]},"spec":{"replicas":2}}`)
}

func TestTheGuestWritesItsWholeStatus(t *testing.T) {
	w, ref := replicas(t, "replicas", func(r *replicaSet) (sdk.Action, error) {
		r.Status.Replicas, r.Status.ObservedGeneration = 2, r.Generation
		sdk.SetStatusCondition(&r.Status.Conditions, sdk.Condition{Type: "ReplicaFailure", Status: sdk.True, Reason: "FailedCreate"}, r.Now)
		return sdk.AwaitChange(), nil
	})
	want := sdk.Condition{Type: "ReplicaFailure", Status: sdk.True, Reason: "FailedCreate", LastTransitionTime: sdk.TimeOf(w.Now())}
	w.Reconcile("default/rs").ExpectSuccess().ExpectWrites("status")
	w.Advance(time.Hour)
	w.Reconcile("default/rs").ExpectNoWrites()
	var have struct{ Status replicaSetStatus }
	w.Get(ref, &have)
	if s := have.Status; s.Replicas != 2 || s.ObservedGeneration != 1 || len(s.Conditions) != 1 || s.Conditions[0] != want {
		t.Errorf("the status is %+v", s)
	}
}

func TestSetConditionIsRefusedIfTheGuestOwnsTheStatus(t *testing.T) {
	w, _ := replicas(t, "replicas", func(r *replicaSet) (sdk.Action, error) {
		r.SetCondition(sdk.Condition{Type: "Ready", Status: sdk.True, Reason: "Mine"})
		return sdk.AwaitChange(), nil
	})
	if run := w.Reconcile("default/rs").ExpectStalled("StatusOwner").ExpectNoWrites(); !strings.Contains(run.Message, "sdk.SetStatusCondition") {
		t.Errorf("the message is %q", run.Message)
	}
}

func TestTheHostObservesTheGenerationOfABuiltInKindWhoseStatusIsWritten(t *testing.T) {
	size := 0
	w, ref := replicas(t, "replicas-of-host", func(r *replicaSet) (sdk.Action, error) {
		r.Status.Replicas = size
		return sdk.AwaitChange(), nil
	})
	w.Reconcile("default/rs").ExpectNoWrites() // as a plugin that the policy does not let write it
	size = 2
	w.Reconcile("default/rs").ExpectWrites("status")
	w.Change(ref, `{"spec":{"replicas":3}}`)
	w.Reconcile("default/rs").ExpectWrites("status")
	var have struct{ Status replicaSetStatus }
	if w.Get(ref, &have); have.Status.ObservedGeneration != 2 || have.Status.Conditions != nil {
		t.Errorf("the status is %+v", have.Status)
	}
}

func TestWhileDeletingRunsOnAndCreatesNothing(t *testing.T) {
	var deleting bool
	var names []string
	w, ref := replicas(t, "replicas", func(r *replicaSet) (sdk.Action, error) {
		deleting = r.Deleting()
		for _, name := range names {
			r.Apply(ConfigMap{TypeMeta: configMap.Type(), Metadata: sdk.ObjectMeta{Name: name}})
		}
		return sdk.RequeueAfter(time.Minute), nil
	})
	names = []string{"a"}
	w.Reconcile("default/rs").ExpectSuccess().ExpectNext(time.Minute)
	w.Delete(ref)
	if w.Reconcile("default/rs").ExpectSuccess().ExpectNoWrites().ExpectNext(time.Minute); !deleting || !w.Exists(ref) {
		t.Errorf("the request has deleting: %t; the object exists: %t", deleting, w.Exists(ref))
	}
	names = []string{"a", "b"}
	w.Reconcile("default/rs").ExpectRetry("OutOfScope").ExpectNoWrites()
}
