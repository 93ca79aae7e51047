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

// Role is that of the Kubernetes API.
//
//thole:compact
type Role struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Rules    []PolicyRule   `json:"rules,omitempty"`
}

// PolicyRule is that of the Kubernetes API.
type PolicyRule struct {
	Verbs           []string `json:"verbs,omitempty"`
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}
