// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package job has the kind batch/v1 Job.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package job

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

// Kind is batch/v1 Job.
var Kind = sdk.Kind{APIVersion: "batch/v1", Kind: "Job"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Job {
	return Job{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// TemplateSpec is JobTemplateSpec of the Kubernetes API.
//
//thole:compact
type TemplateSpec struct {
	Metadata sdk.ObjectMeta `json:"metadata,omitzero"`
	Spec     Spec           `json:"spec,omitzero"`
}

// Spec is JobSpec of the Kubernetes API.
type Spec struct {
	Parallelism             *int32             `json:"parallelism,omitempty"`
	Completions             *int32             `json:"completions,omitempty"`
	ActiveDeadlineSeconds   *int64             `json:"activeDeadlineSeconds,omitempty"`
	PodFailurePolicy        *PodFailurePolicy  `json:"podFailurePolicy,omitempty"`
	SuccessPolicy           *SuccessPolicy     `json:"successPolicy,omitempty"`
	BackoffLimit            *int32             `json:"backoffLimit,omitempty"`
	BackoffLimitPerIndex    *int32             `json:"backoffLimitPerIndex,omitempty"`
	MaxFailedIndexes        *int32             `json:"maxFailedIndexes,omitempty"`
	Selector                *sdk.LabelSelector `json:"selector,omitempty"`
	ManualSelector          *bool              `json:"manualSelector,omitempty"`
	Template                pod.TemplateSpec   `json:"template"`
	TTLSecondsAfterFinished *int32             `json:"ttlSecondsAfterFinished,omitempty"`
	CompletionMode          *string            `json:"completionMode,omitempty"`
	Suspend                 *bool              `json:"suspend,omitempty"`
	PodReplacementPolicy    *string            `json:"podReplacementPolicy,omitempty"`
	ManagedBy               *string            `json:"managedBy,omitempty"`
}

// PodFailurePolicy is that of the Kubernetes API.
type PodFailurePolicy struct {
	// +required
	// +listType=atomic
	Rules []PodFailurePolicyRule `json:"rules,omitempty"`
}

// PodFailurePolicyRule is that of the Kubernetes API.
type PodFailurePolicyRule struct {
	Action      string                                  `json:"action"`
	OnExitCodes *PodFailurePolicyOnExitCodesRequirement `json:"onExitCodes,omitempty"`
	// +listType=atomic
	OnPodConditions []PodFailurePolicyOnPodConditionsPattern `json:"onPodConditions,omitempty"`
}

// PodFailurePolicyOnExitCodesRequirement is that of the Kubernetes API.
type PodFailurePolicyOnExitCodesRequirement struct {
	ContainerName *string `json:"containerName,omitempty"`
	Operator      string  `json:"operator"`
	// +required
	// +listType=set
	Values []int32 `json:"values,omitempty"`
}

// PodFailurePolicyOnPodConditionsPattern is that of the Kubernetes API.
type PodFailurePolicyOnPodConditionsPattern struct {
	Type string `json:"type"`
	// +optional
	Status string `json:"status"`
}

// SuccessPolicy is that of the Kubernetes API.
type SuccessPolicy struct {
	// +required
	// +listType=atomic
	Rules []SuccessPolicyRule `json:"rules,omitempty"`
}

// SuccessPolicyRule is that of the Kubernetes API.
type SuccessPolicyRule struct {
	SucceededIndexes *string `json:"succeededIndexes,omitempty"`
	SucceededCount   *int32  `json:"succeededCount,omitempty"`
}

// Job is that of the Kubernetes API.
//
//thole:compact
type Job struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Status is JobStatus of the Kubernetes API.
type Status struct {
	// +listType=atomic
	Conditions              []Condition              `json:"conditions,omitempty"`
	StartTime               sdk.Time                 `json:"startTime,omitempty"`
	CompletionTime          sdk.Time                 `json:"completionTime,omitempty"`
	Active                  int32                    `json:"active,omitempty"`
	Succeeded               int32                    `json:"succeeded,omitempty"`
	Failed                  int32                    `json:"failed,omitempty"`
	Terminating             *int32                   `json:"terminating,omitempty"`
	CompletedIndexes        string                   `json:"completedIndexes,omitempty"`
	FailedIndexes           *string                  `json:"failedIndexes,omitempty"`
	UncountedTerminatedPods *UncountedTerminatedPods `json:"uncountedTerminatedPods,omitempty"`
	Ready                   *int32                   `json:"ready,omitempty"`
}

// Condition is JobCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastProbeTime      sdk.Time `json:"lastProbeTime,omitempty"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}

// UncountedTerminatedPods is that of the Kubernetes API.
type UncountedTerminatedPods struct {
	// +listType=set
	Succeeded []string `json:"succeeded,omitempty"`
	// +listType=set
	Failed []string `json:"failed,omitempty"`
}
