// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package clusterrole has the kind rbac.authorization.k8s.io/v1 ClusterRole.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package clusterrole

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/role"
)

// Kind is rbac.authorization.k8s.io/v1 ClusterRole.
var Kind = sdk.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) ClusterRole {
	return ClusterRole{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// ClusterRole is that of the Kubernetes API.
//
//thole:compact
type ClusterRole struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +listType=atomic
	Rules           []role.PolicyRule `json:"rules,omitempty"`
	AggregationRule *AggregationRule  `json:"aggregationRule,omitempty"`
}

// AggregationRule is that of the Kubernetes API.
type AggregationRule struct {
	// +listType=atomic
	ClusterRoleSelectors []sdk.LabelSelector `json:"clusterRoleSelectors,omitempty"`
}
