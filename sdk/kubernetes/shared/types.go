// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package shared has the types that several kinds have, and that belong to none.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package shared

// TypedLocalObjectReference is that of the Kubernetes API.
// +structType=atomic
//
//thole:compact
type TypedLocalObjectReference struct {
	APIGroup *string `json:"apiGroup,omitempty"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name"`
}

// LocalObjectReference is that of the Kubernetes API.
// +structType=atomic
//
//thole:compact
type LocalObjectReference struct {
	// +default=""
	Name string `json:"name,omitempty"`
}

// ObjectReference is that of the Kubernetes API.
// +structType=atomic
//
//thole:compact
type ObjectReference struct {
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	APIVersion      string `json:"apiVersion,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	FieldPath       string `json:"fieldPath,omitempty"`
}
