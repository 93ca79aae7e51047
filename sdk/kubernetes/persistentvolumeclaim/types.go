// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package persistentvolumeclaim has the kind v1 PersistentVolumeClaim.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package persistentvolumeclaim

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/shared"
)

// Kind is v1 PersistentVolumeClaim.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "PersistentVolumeClaim"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) PersistentVolumeClaim {
	return PersistentVolumeClaim{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// PersistentVolumeClaim is that of the Kubernetes API.
//
//thole:compact
type PersistentVolumeClaim struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is PersistentVolumeClaimSpec of the Kubernetes API.
type Spec struct {
	// +listType=atomic
	AccessModes               []string                          `json:"accessModes,omitempty"`
	Selector                  *sdk.LabelSelector                `json:"selector,omitempty"`
	Resources                 VolumeResourceRequirements        `json:"resources,omitzero"`
	VolumeName                string                            `json:"volumeName,omitempty"`
	StorageClassName          *string                           `json:"storageClassName,omitempty"`
	VolumeMode                *string                           `json:"volumeMode,omitempty"`
	DataSource                *shared.TypedLocalObjectReference `json:"dataSource,omitempty"`
	DataSourceRef             *TypedObjectReference             `json:"dataSourceRef,omitempty"`
	VolumeAttributesClassName *string                           `json:"volumeAttributesClassName,omitempty"`
}

// VolumeResourceRequirements is that of the Kubernetes API.
type VolumeResourceRequirements struct {
	Limits   map[string]sdk.Quantity `json:"limits,omitempty"`
	Requests map[string]sdk.Quantity `json:"requests,omitempty"`
}

// TypedObjectReference is that of the Kubernetes API.
type TypedObjectReference struct {
	APIGroup  *string `json:"apiGroup,omitempty"`
	Kind      string  `json:"kind"`
	Name      string  `json:"name"`
	Namespace *string `json:"namespace,omitempty"`
}

// Status is PersistentVolumeClaimStatus of the Kubernetes API.
type Status struct {
	Phase string `json:"phase,omitempty"`
	// +listType=atomic
	AccessModes []string                `json:"accessModes,omitempty"`
	Capacity    map[string]sdk.Quantity `json:"capacity,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions         []Condition             `json:"conditions,omitempty"`
	AllocatedResources map[string]sdk.Quantity `json:"allocatedResources,omitempty"`
	// +mapType=granular
	AllocatedResourceStatuses        map[string]string   `json:"allocatedResourceStatuses,omitempty"`
	CurrentVolumeAttributesClassName *string             `json:"currentVolumeAttributesClassName,omitempty"`
	ModifyVolumeStatus               *ModifyVolumeStatus `json:"modifyVolumeStatus,omitempty"`
}

// Condition is PersistentVolumeClaimCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastProbeTime      sdk.Time `json:"lastProbeTime,omitempty"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}

// ModifyVolumeStatus is that of the Kubernetes API.
type ModifyVolumeStatus struct {
	TargetVolumeAttributesClassName string `json:"targetVolumeAttributesClassName,omitempty"`
	Status                          string `json:"status"`
}

// Template is PersistentVolumeClaimTemplate of the Kubernetes API.
//
//thole:compact
type Template struct {
	Metadata sdk.ObjectMeta `json:"metadata,omitzero"`
	Spec     Spec           `json:"spec"`
}
