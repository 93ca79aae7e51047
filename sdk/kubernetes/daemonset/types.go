// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package daemonset has the kind apps/v1 DaemonSet.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package daemonset

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

// Kind is apps/v1 DaemonSet.
var Kind = sdk.Kind{APIVersion: "apps/v1", Kind: "DaemonSet"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) DaemonSet {
	return DaemonSet{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// DaemonSet is that of the Kubernetes API.
//
//thole:compact
type DaemonSet struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is DaemonSetSpec of the Kubernetes API.
type Spec struct {
	// +required
	Selector             *sdk.LabelSelector `json:"selector,omitempty"`
	Template             pod.TemplateSpec   `json:"template"`
	UpdateStrategy       UpdateStrategy     `json:"updateStrategy,omitzero"`
	MinReadySeconds      int32              `json:"minReadySeconds,omitempty"`
	RevisionHistoryLimit *int32             `json:"revisionHistoryLimit,omitempty"`
}

// UpdateStrategy is DaemonSetUpdateStrategy of the Kubernetes API.
type UpdateStrategy struct {
	Type          string         `json:"type,omitempty"`
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate is RollingUpdateDaemonSet of the Kubernetes API.
type RollingUpdate struct {
	MaxUnavailable *sdk.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge       *sdk.IntOrString `json:"maxSurge,omitempty"`
}

// Status is DaemonSetStatus of the Kubernetes API.
type Status struct {
	CurrentNumberScheduled int32  `json:"currentNumberScheduled"`
	NumberMisscheduled     int32  `json:"numberMisscheduled"`
	DesiredNumberScheduled int32  `json:"desiredNumberScheduled"`
	NumberReady            int32  `json:"numberReady"`
	ObservedGeneration     int64  `json:"observedGeneration,omitempty"`
	UpdatedNumberScheduled int32  `json:"updatedNumberScheduled,omitempty"`
	NumberAvailable        int32  `json:"numberAvailable,omitempty"`
	NumberUnavailable      int32  `json:"numberUnavailable,omitempty"`
	CollisionCount         *int32 `json:"collisionCount,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is DaemonSetCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}
