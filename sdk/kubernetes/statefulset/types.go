// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package statefulset has the kind apps/v1 StatefulSet.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package statefulset

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/persistentvolumeclaim"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

// Kind is apps/v1 StatefulSet.
var Kind = sdk.Kind{APIVersion: "apps/v1", Kind: "StatefulSet"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) StatefulSet {
	return StatefulSet{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// StatefulSet is that of the Kubernetes API.
//
//thole:compact
type StatefulSet struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is StatefulSetSpec of the Kubernetes API.
type Spec struct {
	Replicas *int32 `json:"replicas,omitempty"`
	// +required
	Selector *sdk.LabelSelector `json:"selector,omitempty"`
	Template pod.TemplateSpec   `json:"template"`
	// +listType=atomic
	VolumeClaimTemplates []persistentvolumeclaim.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// +optional
	ServiceName                          string                                `json:"serviceName"`
	PodManagementPolicy                  string                                `json:"podManagementPolicy,omitempty"`
	UpdateStrategy                       UpdateStrategy                        `json:"updateStrategy,omitzero"`
	RevisionHistoryLimit                 *int32                                `json:"revisionHistoryLimit,omitempty"`
	MinReadySeconds                      int32                                 `json:"minReadySeconds,omitempty"`
	PersistentVolumeClaimRetentionPolicy *PersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	Ordinals                             *Ordinals                             `json:"ordinals,omitempty"`
}

// UpdateStrategy is StatefulSetUpdateStrategy of the Kubernetes API.
type UpdateStrategy struct {
	Type          string                 `json:"type,omitempty"`
	RollingUpdate *RollingUpdateStrategy `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStrategy is RollingUpdateStatefulSetStrategy of the Kubernetes API.
type RollingUpdateStrategy struct {
	Partition      *int32           `json:"partition,omitempty"`
	MaxUnavailable *sdk.IntOrString `json:"maxUnavailable,omitempty"`
}

// PersistentVolumeClaimRetentionPolicy is StatefulSetPersistentVolumeClaimRetentionPolicy of the Kubernetes API.
type PersistentVolumeClaimRetentionPolicy struct {
	WhenDeleted string `json:"whenDeleted,omitempty"`
	WhenScaled  string `json:"whenScaled,omitempty"`
}

// Ordinals is StatefulSetOrdinals of the Kubernetes API.
type Ordinals struct {
	// +optional
	Start int32 `json:"start"`
}

// Status is StatefulSetStatus of the Kubernetes API.
type Status struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Replicas           int32  `json:"replicas"`
	ReadyReplicas      int32  `json:"readyReplicas,omitempty"`
	CurrentReplicas    int32  `json:"currentReplicas,omitempty"`
	UpdatedReplicas    int32  `json:"updatedReplicas,omitempty"`
	CurrentRevision    string `json:"currentRevision,omitempty"`
	UpdateRevision     string `json:"updateRevision,omitempty"`
	CollisionCount     *int32 `json:"collisionCount,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
}

// Condition is StatefulSetCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}
