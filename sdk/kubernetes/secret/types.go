// Code generated from the OpenAPI of kube-apiserver. DO NOT EDIT.

// Package secret has the kind v1 Secret.
//
// It is generated from the OpenAPI of kube-apiserver 1.36. The fields are those of
// the Kubernetes API reference; see package kubernetes, the folder.
package secret

import (
	"github.com/thole-dev/thole/sdk"
)

// Kind is v1 Secret.
var Kind = sdk.Kind{APIVersion: "v1", Kind: "Secret"}

// New returns an object of that name with its kind, for [sdk.Run.Apply].
func New(name string) Secret {
	return Secret{TypeMeta: Kind.Type(), Metadata: sdk.ObjectMeta{Name: name}}
}

// Secret is that of the Kubernetes API.
//
//thole:compact
type Secret struct {
	sdk.TypeMeta `json:",inline"`
	// +optional
	Metadata  sdk.ObjectMeta    `json:"metadata"`
	Immutable *bool             `json:"immutable,omitempty"`
	Data      map[string][]byte `json:"data,omitempty"`
	// What an intent has here is applied as data, so that a key which it has no more goes from the Secret.
	StringData map[string]string `json:"stringData,omitempty"`
	Type       string            `json:"type,omitempty"`
}
