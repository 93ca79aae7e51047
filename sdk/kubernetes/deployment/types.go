// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package deployment has the kind apps/v1 Deployment.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package deployment

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

// Kind is apps/v1 Deployment.
var Kind = sdk.Kind{APIVersion: "apps/v1", Kind: "Deployment"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Deployment {
	return Deployment{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Deployment is that of the Kubernetes API.
//
//thole:compact
type Deployment struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is DeploymentSpec of the Kubernetes API.
type Spec struct {
	Replicas *int32 `json:"replicas,omitempty"`
	// +required
	Selector                *sdk.LabelSelector `json:"selector,omitempty"`
	Template                pod.TemplateSpec   `json:"template"`
	Strategy                Strategy           `json:"strategy,omitzero"`
	MinReadySeconds         int32              `json:"minReadySeconds,omitempty"`
	RevisionHistoryLimit    *int32             `json:"revisionHistoryLimit,omitempty"`
	Paused                  bool               `json:"paused,omitempty"`
	ProgressDeadlineSeconds *int32             `json:"progressDeadlineSeconds,omitempty"`
}

// Strategy is DeploymentStrategy of the Kubernetes API.
type Strategy struct {
	Type          string         `json:"type,omitempty"`
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate is RollingUpdateDeployment of the Kubernetes API.
type RollingUpdate struct {
	MaxUnavailable *sdk.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge       *sdk.IntOrString `json:"maxSurge,omitempty"`
}

// Status is DeploymentStatus of the Kubernetes API.
type Status struct {
	ObservedGeneration  int64  `json:"observedGeneration,omitempty"`
	Replicas            int32  `json:"replicas,omitempty"`
	UpdatedReplicas     int32  `json:"updatedReplicas,omitempty"`
	ReadyReplicas       int32  `json:"readyReplicas,omitempty"`
	AvailableReplicas   int32  `json:"availableReplicas,omitempty"`
	UnavailableReplicas int32  `json:"unavailableReplicas,omitempty"`
	TerminatingReplicas *int32 `json:"terminatingReplicas,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions     []Condition `json:"conditions,omitempty"`
	CollisionCount *int32      `json:"collisionCount,omitempty"`
}

// Condition is DeploymentCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastUpdateTime     sdk.Time `json:"lastUpdateTime,omitempty"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}
