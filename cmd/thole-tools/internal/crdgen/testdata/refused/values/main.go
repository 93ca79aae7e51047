// Command values has markers with wrong values.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "values", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Value"}})
}

// Spec has markers.
// +kubebuilder:printcolumn:name="A",JSONPath=`.spec.a`
type Spec struct {
	// +kubebuilder:validation:Maximum=many
	A int `json:"a"`
	// +kubebuilder:default={
	B string `json:"b"`
}

// Status has none.
type Status struct{}

func main() {}
