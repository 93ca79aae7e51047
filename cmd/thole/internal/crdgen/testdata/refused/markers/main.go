// Command markers has markers that have no effect, or wrong values.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "markers", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Marker"}})
}

// Marker is the kind.
// +kubebuilder:resources:shortName=m
type Marker = sdk.Object[Spec, Status]

// Spec has markers.
// +kubebuilder:printcolum:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:default=3
type Spec struct {
	// +kubebuilder:validation:Minimun=1
	Size int `json:"size"`
	// +kubebuilder:printcolumn:name="A",type=string,JSONPath=`.spec.a`
	A string `json:"a"`
	B string `json:"b"` // +kubebuilder:nonsense
	// +kubebuilder:validation:MaxLength=3
	C int    `json:"c"`
	D Nested `json:"d"`
}

// Nested is a part.
type Nested struct {
	// +kubebuilder:validation:Patern="a"
	E string `json:"e"`
}

// Status has none.
type Status struct{}

func main() {}
