// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package rolebinding has the kind rbac.authorization.k8s.io/v1 RoleBinding.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package rolebinding

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is rbac.authorization.k8s.io/v1 RoleBinding.
var Kind = sdk.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) RoleBinding {
	return RoleBinding{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Subject is that of the Kubernetes API.
// +structType=atomic
//
//thole:compact
type Subject struct {
	Kind      string `json:"kind"`
	APIGroup  string `json:"apiGroup,omitempty"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// RoleRef is that of the Kubernetes API.
// +structType=atomic
//
//thole:compact
type RoleRef struct {
	// +optional
	APIGroup string `json:"apiGroup"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// RoleBinding is that of the Kubernetes API.
//
//thole:compact
type RoleBinding struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +listType=atomic
	Subjects []Subject `json:"subjects,omitempty"`
	RoleRef  RoleRef   `json:"roleRef"`
}
