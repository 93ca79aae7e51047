// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package poddisruptionbudget has the kind policy/v1 PodDisruptionBudget.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package poddisruptionbudget

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is policy/v1 PodDisruptionBudget.
var Kind = sdk.Kind{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) PodDisruptionBudget {
	return PodDisruptionBudget{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// PodDisruptionBudget is that of the Kubernetes API.
//
//thole:compact
type PodDisruptionBudget struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is PodDisruptionBudgetSpec of the Kubernetes API.
type Spec struct {
	MinAvailable               *sdk.IntOrString   `json:"minAvailable,omitempty"`
	Selector                   *sdk.LabelSelector `json:"selector,omitempty"`
	MaxUnavailable             *sdk.IntOrString   `json:"maxUnavailable,omitempty"`
	UnhealthyPodEvictionPolicy *string            `json:"unhealthyPodEvictionPolicy,omitempty"`
}

// Status is PodDisruptionBudgetStatus of the Kubernetes API.
type Status struct {
	ObservedGeneration int64               `json:"observedGeneration,omitempty"`
	DisruptedPods      map[string]sdk.Time `json:"disruptedPods,omitempty"`
	// +optional
	DisruptionsAllowed int32 `json:"disruptionsAllowed"`
	// +optional
	CurrentHealthy int32 `json:"currentHealthy"`
	// +optional
	DesiredHealthy int32 `json:"desiredHealthy"`
	// +optional
	ExpectedPods int32 `json:"expectedPods"`
	// +listType=map
	// +listMapKey=type
	Conditions []sdk.Condition `json:"conditions,omitempty"`
}
