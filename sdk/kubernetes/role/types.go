// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package role has the kind rbac.authorization.k8s.io/v1 Role.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package role

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is rbac.authorization.k8s.io/v1 Role.
var Kind = sdk.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Role {
	return Role{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// PolicyRule is that of the Kubernetes API.
//
//thole:compact
type PolicyRule struct {
	// +required
	// +listType=atomic
	Verbs []string `json:"verbs,omitempty"`
	// +listType=atomic
	APIGroups []string `json:"apiGroups,omitempty"`
	// +listType=atomic
	Resources []string `json:"resources,omitempty"`
	// +listType=atomic
	ResourceNames []string `json:"resourceNames,omitempty"`
	// +listType=atomic
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Role is that of the Kubernetes API.
//
//thole:compact
type Role struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	// +listType=atomic
	Rules []PolicyRule `json:"rules,omitempty"`
}
