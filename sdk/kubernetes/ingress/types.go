// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package ingress has the kind networking.k8s.io/v1 Ingress.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package ingress

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/shared"
)

// Kind is networking.k8s.io/v1 Ingress.
var Kind = sdk.Kind{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Ingress {
	return Ingress{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Ingress is that of the Kubernetes API.
//
//thole:compact
type Ingress struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is IngressSpec of the Kubernetes API.
type Spec struct {
	IngressClassName *string  `json:"ingressClassName,omitempty"`
	DefaultBackend   *Backend `json:"defaultBackend,omitempty"`
	// +listType=atomic
	TLS []TLS `json:"tls,omitempty"`
	// +listType=atomic
	Rules []Rule `json:"rules,omitempty"`
}

// Backend is IngressBackend of the Kubernetes API.
type Backend struct {
	Service  *ServiceBackend                   `json:"service,omitempty"`
	Resource *shared.TypedLocalObjectReference `json:"resource,omitempty"`
}

// ServiceBackend is IngressServiceBackend of the Kubernetes API.
type ServiceBackend struct {
	Name string             `json:"name"`
	Port ServiceBackendPort `json:"port,omitzero"`
}

// ServiceBackendPort is that of the Kubernetes API.
// +structType=atomic
type ServiceBackendPort struct {
	Name   string `json:"name,omitempty"`
	Number int32  `json:"number,omitempty"`
}

// TLS is IngressTLS of the Kubernetes API.
type TLS struct {
	// +listType=atomic
	Hosts      []string `json:"hosts,omitempty"`
	SecretName string   `json:"secretName,omitempty"`
}

// Rule is IngressRule of the Kubernetes API.
type Rule struct {
	Host string         `json:"host,omitempty"`
	HTTP *HTTPRuleValue `json:"http,omitempty"`
}

// HTTPRuleValue is HTTPIngressRuleValue of the Kubernetes API.
type HTTPRuleValue struct {
	// +required
	// +listType=atomic
	Paths []HTTPPath `json:"paths,omitempty"`
}

// HTTPPath is HTTPIngressPath of the Kubernetes API.
type HTTPPath struct {
	Path string `json:"path,omitempty"`
	// +required
	PathType *string `json:"pathType,omitempty"`
	Backend  Backend `json:"backend"`
}

// Status is IngressStatus of the Kubernetes API.
type Status struct {
	LoadBalancer LoadBalancerStatus `json:"loadBalancer,omitzero"`
}

// LoadBalancerStatus is IngressLoadBalancerStatus of the Kubernetes API.
type LoadBalancerStatus struct {
	// +listType=atomic
	Ingress []LoadBalancerIngress `json:"ingress,omitempty"`
}

// LoadBalancerIngress is IngressLoadBalancerIngress of the Kubernetes API.
type LoadBalancerIngress struct {
	IP       string `json:"ip,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// +listType=atomic
	Ports []PortStatus `json:"ports,omitempty"`
}

// PortStatus is IngressPortStatus of the Kubernetes API.
type PortStatus struct {
	Port     int32   `json:"port"`
	Protocol string  `json:"protocol"`
	Error    *string `json:"error,omitempty"`
}
