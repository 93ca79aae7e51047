// Package info has what both variants of the plugin mykind share: the types of a MyKind, and the
// other system that its information is sent to. The functions of the document itself are in the main
// package of each variant.
package info

import (
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Kind is that of version 2, the one that is stored. The controller deals with this one alone.
var Kind = sdk.Kind{APIVersion: "example.thole.dev/v2", Kind: "MyKind"}

// Spec is the information.
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.lastAppliedGeneration`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type Spec struct {
	// +optional
	Info Info `json:"info"`
	// Who may see the information; default everyone. It cannot be changed.
	Audience string `json:"audience,omitempty"`
}

// Info is what the document calls someInfo and otherInfo.
type Info struct {
	// +optional
	Some string `json:"some"`
	// +optional
	Other string `json:"other"`
}

// Status has what the other system has.
type Status struct {
	// The generation that the other system has.
	LastAppliedGeneration int64 `json:"lastAppliedGeneration,omitempty"`
}

// Controller has all of the controller but the functions that handle its events.
var Controller = sdk.Controller[Spec, Status]{
	Name: "mykind", For: Kind,
	HTTP: []sdk.HTTPHost{{Host: "*", Methods: []string{"PUT", "DELETE"}}}, // where it is, the configuration states

	Mutate:   sdk.Mutate(mutate),
	Validate: sdk.Validate(validate),
	Convert:  sdk.Convert(sdk.Version("v1", fromV1, toV1)),
}

// RetryAfter is when a request is sent again that failed in a way that may be over then.
const RetryAfter = time.Minute
