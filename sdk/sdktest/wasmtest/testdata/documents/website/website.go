// Package website has the types with markers of docs/how-to/author.md.
package website

import "github.com/thole-dev/thole/sdk"

// A Website serves a text.
//
// +kubebuilder:resource:shortName=web
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
type Website = sdk.Object[Spec, Status]

// Spec is what the user wants.
// +kubebuilder:validation:XValidation:rule="self.replicas == 0 || has(self.text) && size(self.text) > 0",message="an empty text is not served"
type Spec struct {
	// +optional
	Text string `json:"text"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	Replicas int32 `json:"replicas,omitempty"`
	// +listType=map
	// +listMapKey=name
	Ports []Port `json:"ports,omitempty"`
}

// Port is a port of a website.
type Port struct {
	Name   string `json:"name"`
	Number int32  `json:"number"`
}

// Status is what is served.
type Status struct {
	Serves Spec `json:"serves,omitzero"`
}

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name: "website",
		For:  sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Website"},
		Reconcile: func(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
			r.Status.Serves = r.Spec
			return sdk.AwaitChange(), nil
		},
	})
}
