// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package serviceaccount has the kind v1 ServiceAccount.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package serviceaccount

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/shared"
)

// Kind is v1 ServiceAccount.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "ServiceAccount"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) ServiceAccount {
	return ServiceAccount{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// ServiceAccount is that of the Kubernetes API.
//
//thole:compact
type ServiceAccount struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +listType=map
	// +listMapKey=name
	Secrets []shared.ObjectReference `json:"secrets,omitempty"`
	// +listType=atomic
	ImagePullSecrets             []shared.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	AutomountServiceAccountToken *bool                         `json:"automountServiceAccountToken,omitempty"`
}
