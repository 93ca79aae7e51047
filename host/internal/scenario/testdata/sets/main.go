// Command sets is a plugin for two built-in kinds that no other controller writes in the
// clusters of the scenarios: StatefulSets, whose whole status it writes, and DaemonSets, whose
// generation the host observes.
package main

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Replicas int `json:"replicas,omitempty"`
}

type status struct {
	Replicas           int             `json:"replicas"`
	ObservedGeneration int64           `json:"observedGeneration,omitempty"`
	Conditions         []sdk.Condition `json:"conditions,omitempty"`
}

type daemonStatus struct {
	NumberReady int `json:"numberReady"`
}

func init() {
	sdk.Plugin("sets", "")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "stateful", For: sdk.Kind{APIVersion: "apps/v1", Kind: "StatefulSet"},
		StatusOwner: sdk.StatusOwnerGuest, WhileDeleting: true,
		Reconcile: reconcile,
	})
	sdk.Register(sdk.Controller[struct{}, daemonStatus]{
		Name: "daemon", For: sdk.Kind{APIVersion: "apps/v1", Kind: "DaemonSet"},
		Reconcile: func(r *sdk.Request[struct{}, daemonStatus]) (sdk.Action, error) {
			r.Status.NumberReady = 1
			return sdk.AwaitChange(), nil
		},
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	c := sdk.Condition{Type: "Ending", Status: sdk.False, Reason: "Running"}
	if r.Deleting() {
		c = sdk.Condition{Type: "Ending", Status: sdk.True, Reason: "Deleted"}
	}
	sdk.SetStatusCondition(&r.Status.Conditions, c, r.Now)
	r.Status.Replicas, r.Status.ObservedGeneration = r.Spec.Replicas, r.Generation
	if r.Annotations["fail"] != "" {
		return sdk.Action{}, errors.New("asked to fail")
	}
	return sdk.AwaitChange(), nil
}

func main() {}
