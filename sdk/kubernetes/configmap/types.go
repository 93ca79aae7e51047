// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package configmap has the kind v1 ConfigMap.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package configmap

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is v1 ConfigMap.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) ConfigMap {
	return ConfigMap{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// ConfigMap is that of the Kubernetes API.
//
//thole:compact
type ConfigMap struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata   sdk.ObjectMeta    `json:"metadata"`
	Immutable  *bool             `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}
