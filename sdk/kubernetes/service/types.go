// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package service has the kind v1 Service.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package service

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is v1 Service.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "Service"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Service {
	return Service{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Service is that of the Kubernetes API.
//
//thole:compact
type Service struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     Spec           `json:"spec,omitzero"`
	Status   Status         `json:"status,omitzero"`
}

// Spec is ServiceSpec of the Kubernetes API.
type Spec struct {
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	Ports []Port `json:"ports,omitempty"`
	// +mapType=atomic
	Selector  map[string]string `json:"selector,omitempty"`
	ClusterIP string            `json:"clusterIP,omitempty"`
	// +listType=atomic
	ClusterIPs []string `json:"clusterIPs,omitempty"`
	Type       string   `json:"type,omitempty"`
	// +listType=atomic
	ExternalIPs     []string `json:"externalIPs,omitempty"`
	SessionAffinity string   `json:"sessionAffinity,omitempty"`
	LoadBalancerIP  string   `json:"loadBalancerIP,omitempty"`
	// +listType=atomic
	LoadBalancerSourceRanges []string               `json:"loadBalancerSourceRanges,omitempty"`
	ExternalName             string                 `json:"externalName,omitempty"`
	ExternalTrafficPolicy    string                 `json:"externalTrafficPolicy,omitempty"`
	HealthCheckNodePort      int32                  `json:"healthCheckNodePort,omitempty"`
	PublishNotReadyAddresses bool                   `json:"publishNotReadyAddresses,omitempty"`
	SessionAffinityConfig    *SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
	// +listType=atomic
	IPFamilies                    []string `json:"ipFamilies,omitempty"`
	IPFamilyPolicy                *string  `json:"ipFamilyPolicy,omitempty"`
	AllocateLoadBalancerNodePorts *bool    `json:"allocateLoadBalancerNodePorts,omitempty"`
	LoadBalancerClass             *string  `json:"loadBalancerClass,omitempty"`
	InternalTrafficPolicy         *string  `json:"internalTrafficPolicy,omitempty"`
	TrafficDistribution           *string  `json:"trafficDistribution,omitempty"`
}

// Port is ServicePort of the Kubernetes API.
type Port struct {
	Name string `json:"name,omitempty"`
	// +default="TCP"
	Protocol    string          `json:"protocol,omitempty"`
	AppProtocol *string         `json:"appProtocol,omitempty"`
	Port        int32           `json:"port"`
	TargetPort  sdk.IntOrString `json:"targetPort,omitzero"`
	NodePort    int32           `json:"nodePort,omitempty"`
}

// SessionAffinityConfig is that of the Kubernetes API.
type SessionAffinityConfig struct {
	ClientIP *ClientIPConfig `json:"clientIP,omitempty"`
}

// ClientIPConfig is that of the Kubernetes API.
type ClientIPConfig struct {
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// Status is ServiceStatus of the Kubernetes API.
type Status struct {
	LoadBalancer LoadBalancerStatus `json:"loadBalancer,omitzero"`
	// +listType=map
	// +listMapKey=type
	Conditions []sdk.Condition `json:"conditions,omitempty"`
}

// LoadBalancerStatus is that of the Kubernetes API.
type LoadBalancerStatus struct {
	// +listType=atomic
	Ingress []LoadBalancerIngress `json:"ingress,omitempty"`
}

// LoadBalancerIngress is that of the Kubernetes API.
type LoadBalancerIngress struct {
	IP       string  `json:"ip,omitempty"`
	Hostname string  `json:"hostname,omitempty"`
	IPMode   *string `json:"ipMode,omitempty"`
	// +listType=atomic
	Ports []PortStatus `json:"ports,omitempty"`
}

// PortStatus is that of the Kubernetes API.
type PortStatus struct {
	Port     int32   `json:"port"`
	Protocol string  `json:"protocol"`
	Error    *string `json:"error,omitempty"`
}
