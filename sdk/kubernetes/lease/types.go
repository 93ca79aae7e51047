// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package lease has the kind coordination.k8s.io/v1 Lease.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package lease

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is coordination.k8s.io/v1 Lease.
var Kind = sdk.Kind{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Lease {
	return Lease{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Lease is that of the Kubernetes API.
//
//thole:compact
type Lease struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
}

// Spec is LeaseSpec of the Kubernetes API.
type Spec struct {
	HolderIdentity       *string       `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int32        `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          sdk.MicroTime `json:"acquireTime,omitempty"`
	RenewTime            sdk.MicroTime `json:"renewTime,omitempty"`
	LeaseTransitions     *int32        `json:"leaseTransitions,omitempty"`
	Strategy             *string       `json:"strategy,omitempty"`
	PreferredHolder      *string       `json:"preferredHolder,omitempty"`
}
