// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package clusterrolebinding has the kind rbac.authorization.k8s.io/v1 ClusterRoleBinding.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package clusterrolebinding

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/rolebinding"
)

// Kind is rbac.authorization.k8s.io/v1 ClusterRoleBinding.
var Kind = sdk.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) ClusterRoleBinding {
	return ClusterRoleBinding{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// ClusterRoleBinding is that of the Kubernetes API.
//
//thole:compact
type ClusterRoleBinding struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +listType=atomic
	Subjects []rolebinding.Subject `json:"subjects,omitempty"`
	RoleRef  rolebinding.RoleRef   `json:"roleRef"`
}
