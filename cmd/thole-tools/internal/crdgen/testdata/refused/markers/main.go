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

// +kubebuilder:validation:MaxProprties=3

// Nested is a part.
type Nested struct {
	// +kubebuilder:validation:Patern="a"
	E string `json:"e"`
	// +kubebuilder:validation:Enum=1;2
	F string `json:"f"`
	// +kubebuilder:validation:Enum=a;b
	G *int32  `json:"g"`
	H Choice  `json:"h"`
	I string  `json:"i"` // +kubebuilder:validation:MaxLength=3
	J Bounded `json:"j"`
	/* +kubebuilder:validation:MaxLength=3 */
	K string `json:"k"`
}

/*
Bounded has a marker that no tool reads.
+kubebuilder:validation:MaxLength=3
*/
type Bounded string

// Choice has values that are none.
// +kubebuilder:validation:Enum=yes;no
type Choice bool

// Status has none.
type Status struct{}

// Reconcile has markers of kubebuilder, and one that belongs to a field.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get
// +kubebuilder:validation:MaxLength=3
func Reconcile() {
	// +kubebuilder:scaffold:imports
	// +kubebuilder:validation:Required
}

func main() {}
