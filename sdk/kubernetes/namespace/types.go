// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package namespace has the kind v1 Namespace.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package namespace

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is v1 Namespace.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "Namespace"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Namespace {
	return Namespace{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Namespace is that of the Kubernetes API.
//
//thole:compact
type Namespace struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is NamespaceSpec of the Kubernetes API.
type Spec struct {
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
}

// Status is NamespaceStatus of the Kubernetes API.
type Status struct {
	Phase string `json:"phase,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is NamespaceCondition of the Kubernetes API.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}
