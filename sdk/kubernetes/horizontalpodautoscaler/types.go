// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package horizontalpodautoscaler has the kind autoscaling/v2 HorizontalPodAutoscaler.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package horizontalpodautoscaler

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is autoscaling/v2 HorizontalPodAutoscaler.
var Kind = sdk.Kind{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) HorizontalPodAutoscaler {
	return HorizontalPodAutoscaler{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// HorizontalPodAutoscaler is that of the Kubernetes API.
//
//thole:compact
type HorizontalPodAutoscaler struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +required
	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is HorizontalPodAutoscalerSpec of the Kubernetes API.
type Spec struct {
	ScaleTargetRef CrossVersionObjectReference `json:"scaleTargetRef"`
	MinReplicas    *int32                      `json:"minReplicas,omitempty"`
	MaxReplicas    int32                       `json:"maxReplicas"`
	// +listType=atomic
	Metrics  []MetricSpec `json:"metrics,omitempty"`
	Behavior *Behavior    `json:"behavior,omitempty"`
}

// CrossVersionObjectReference is that of the Kubernetes API.
type CrossVersionObjectReference struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// MetricSpec is that of the Kubernetes API.
type MetricSpec struct {
	Type              string                         `json:"type"`
	Object            *ObjectMetricSource            `json:"object,omitempty"`
	Pods              *PodsMetricSource              `json:"pods,omitempty"`
	Resource          *ResourceMetricSource          `json:"resource,omitempty"`
	ContainerResource *ContainerResourceMetricSource `json:"containerResource,omitempty"`
	External          *ExternalMetricSource          `json:"external,omitempty"`
}

// ObjectMetricSource is that of the Kubernetes API.
type ObjectMetricSource struct {
	DescribedObject CrossVersionObjectReference `json:"describedObject"`
	Target          MetricTarget                `json:"target"`
	Metric          MetricIdentifier            `json:"metric"`
}

// MetricTarget is that of the Kubernetes API.
type MetricTarget struct {
	Type               string       `json:"type"`
	Value              sdk.Quantity `json:"value,omitempty"`
	AverageValue       sdk.Quantity `json:"averageValue,omitempty"`
	AverageUtilization *int32       `json:"averageUtilization,omitempty"`
}

// MetricIdentifier is that of the Kubernetes API.
type MetricIdentifier struct {
	Name     string             `json:"name"`
	Selector *sdk.LabelSelector `json:"selector,omitempty"`
}

// PodsMetricSource is that of the Kubernetes API.
type PodsMetricSource struct {
	Metric MetricIdentifier `json:"metric"`
	Target MetricTarget     `json:"target"`
}

// ResourceMetricSource is that of the Kubernetes API.
type ResourceMetricSource struct {
	Name   string       `json:"name"`
	Target MetricTarget `json:"target"`
}

// ContainerResourceMetricSource is that of the Kubernetes API.
type ContainerResourceMetricSource struct {
	Name      string       `json:"name"`
	Target    MetricTarget `json:"target"`
	Container string       `json:"container"`
}

// ExternalMetricSource is that of the Kubernetes API.
type ExternalMetricSource struct {
	Metric MetricIdentifier `json:"metric"`
	Target MetricTarget     `json:"target"`
}

// Behavior is HorizontalPodAutoscalerBehavior of the Kubernetes API.
type Behavior struct {
	ScaleUp   *HPAScalingRules `json:"scaleUp,omitempty"`
	ScaleDown *HPAScalingRules `json:"scaleDown,omitempty"`
}

// HPAScalingRules is that of the Kubernetes API.
type HPAScalingRules struct {
	StabilizationWindowSeconds *int32  `json:"stabilizationWindowSeconds,omitempty"`
	SelectPolicy               *string `json:"selectPolicy,omitempty"`
	// +listType=atomic
	Policies  []HPAScalingPolicy `json:"policies,omitempty"`
	Tolerance sdk.Quantity       `json:"tolerance,omitempty"`
}

// HPAScalingPolicy is that of the Kubernetes API.
type HPAScalingPolicy struct {
	Type          string `json:"type"`
	Value         int32  `json:"value"`
	PeriodSeconds int32  `json:"periodSeconds"`
}

// Status is HorizontalPodAutoscalerStatus of the Kubernetes API.
type Status struct {
	ObservedGeneration *int64   `json:"observedGeneration,omitempty"`
	LastScaleTime      sdk.Time `json:"lastScaleTime,omitempty"`
	CurrentReplicas    int32    `json:"currentReplicas,omitempty"`
	DesiredReplicas    int32    `json:"desiredReplicas"`
	// +listType=atomic
	CurrentMetrics []MetricStatus `json:"currentMetrics,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// MetricStatus is that of the Kubernetes API.
type MetricStatus struct {
	Type              string                         `json:"type"`
	Object            *ObjectMetricStatus            `json:"object,omitempty"`
	Pods              *PodsMetricStatus              `json:"pods,omitempty"`
	Resource          *ResourceMetricStatus          `json:"resource,omitempty"`
	ContainerResource *ContainerResourceMetricStatus `json:"containerResource,omitempty"`
	External          *ExternalMetricStatus          `json:"external,omitempty"`
}

// ObjectMetricStatus is that of the Kubernetes API.
type ObjectMetricStatus struct {
	Metric          MetricIdentifier            `json:"metric"`
	Current         MetricValueStatus           `json:"current"`
	DescribedObject CrossVersionObjectReference `json:"describedObject"`
}

// MetricValueStatus is that of the Kubernetes API.
type MetricValueStatus struct {
	Value              sdk.Quantity `json:"value,omitempty"`
	AverageValue       sdk.Quantity `json:"averageValue,omitempty"`
	AverageUtilization *int32       `json:"averageUtilization,omitempty"`
}

// PodsMetricStatus is that of the Kubernetes API.
type PodsMetricStatus struct {
	Metric  MetricIdentifier  `json:"metric"`
	Current MetricValueStatus `json:"current"`
}

// ResourceMetricStatus is that of the Kubernetes API.
type ResourceMetricStatus struct {
	Name    string            `json:"name"`
	Current MetricValueStatus `json:"current"`
}

// ContainerResourceMetricStatus is that of the Kubernetes API.
type ContainerResourceMetricStatus struct {
	Name      string            `json:"name"`
	Current   MetricValueStatus `json:"current"`
	Container string            `json:"container"`
}

// ExternalMetricStatus is that of the Kubernetes API.
type ExternalMetricStatus struct {
	Metric  MetricIdentifier  `json:"metric"`
	Current MetricValueStatus `json:"current"`
}

// Condition is HorizontalPodAutoscalerCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}
