// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package networkpolicy has the kind networking.k8s.io/v1 NetworkPolicy.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package networkpolicy

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is networking.k8s.io/v1 NetworkPolicy.
var Kind = sdk.Kind{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) NetworkPolicy {
	return NetworkPolicy{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// NetworkPolicy is that of the Kubernetes API.
//
//thole:compact
type NetworkPolicy struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
}

// Spec is NetworkPolicySpec of the Kubernetes API.
type Spec struct {
	// +optional
	PodSelector sdk.LabelSelector `json:"podSelector"`
	// +listType=atomic
	Ingress []IngressRule `json:"ingress,omitempty"`
	// +listType=atomic
	Egress []EgressRule `json:"egress,omitempty"`
	// +listType=atomic
	PolicyTypes []string `json:"policyTypes,omitempty"`
}

// IngressRule is NetworkPolicyIngressRule of the Kubernetes API.
type IngressRule struct {
	// +listType=atomic
	Ports []Port `json:"ports,omitempty"`
	// +listType=atomic
	From []Peer `json:"from,omitempty"`
}

// Port is NetworkPolicyPort of the Kubernetes API.
type Port struct {
	Protocol *string          `json:"protocol,omitempty"`
	Port     *sdk.IntOrString `json:"port,omitempty"`
	EndPort  *int32           `json:"endPort,omitempty"`
}

// Peer is NetworkPolicyPeer of the Kubernetes API.
type Peer struct {
	PodSelector       *sdk.LabelSelector `json:"podSelector,omitempty"`
	NamespaceSelector *sdk.LabelSelector `json:"namespaceSelector,omitempty"`
	IPBlock           *IPBlock           `json:"ipBlock,omitempty"`
}

// IPBlock is that of the Kubernetes API.
type IPBlock struct {
	CIDR string `json:"cidr"`
	// +listType=atomic
	Except []string `json:"except,omitempty"`
}

// EgressRule is NetworkPolicyEgressRule of the Kubernetes API.
type EgressRule struct {
	// +listType=atomic
	Ports []Port `json:"ports,omitempty"`
	// +listType=atomic
	To []Peer `json:"to,omitempty"`
}
