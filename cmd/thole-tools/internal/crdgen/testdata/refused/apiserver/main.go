// Command apiserver has what controller-tools writes into a definition, and the API server refuses.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "schema", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Schema"}})
	sdk.Register(sdk.Controller[Rules, Status]{Name: "rules", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Rule"}})
	sdk.Register(sdk.Controller[Named, Status]{Name: "named", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Named"}})
	sdk.Register(sdk.Controller[Large, Status]{Name: "large", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Large"}})
	sdk.Register(sdk.Controller[Skipped, Status]{Name: "skipped", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Skipped"}})
	sdk.Register(sdk.Controller[pod.Spec, Foreign]{Name: "foreign", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Foreign"}})
}

// Spec has schemas that are refused.
type Spec struct {
	// +listType=map
	// +listMapKey=size
	Keys []Item `json:"keys,omitempty"`
	// +listType=map
	// +listMapKey=missing
	NoKey []Item `json:"noKey,omitempty"`
	// +listType=set
	Set []Item `json:"set,omitempty"`
	// +kubebuilder:default=text
	Default int `json:"default,omitempty"`
	// +kubebuilder:validation:Maximum=3
	// +kubebuilder:default=4
	Most int `json:"most,omitempty"`
	// +kubebuilder:default={unknown: 1}
	Pruned Inner `json:"pruned,omitzero"`
	// +kubebuilder:validation:UniqueItems=true
	Unique []string `json:"unique,omitempty"`
	// +kubebuilder:validation:EmbeddedResource
	NoObject string            `json:"noObject,omitempty"`
	Deep     map[string][]Item `json:"deep,omitempty"`
}

// Item is in a list.
type Item struct {
	Size int `json:"size,omitempty"`
	Base
	// +listType=map
	// +listMapKey=name
	Same []Inner `json:"same,omitempty"`
}

// Base is embedded.
type Base struct {
	// +kubebuilder:validation:Pattern=`[`
	// +kubebuilder:default=x
	Pattern string `json:"pattern,omitempty"`
}

// Inner is a part.
type Inner struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name,omitempty"`
}

// Rules has rules that are refused.
// +kubebuilder:validation:XValidation:rule="self.missing == 1"
type Rules struct {
	// +kubebuilder:validation:XValidation:rule="self +"
	Syntax string `json:"syntax,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.all(y, self.all(z, x + y + z != '')))"
	Cost []string `json:"cost,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self != ''",fieldPath=".missing"
	Path string `json:"path,omitempty"`
}

// Named has names that are refused.
// +kubebuilder:resource:path=Named,shortName=N;_
// +kubebuilder:printcolumn:name="A",type=text,JSONPath=`spec.a`
// +kubebuilder:subresource:scale:specpath=.status.a,statuspath=.spec.a
// +kubebuilder:selectablefield:JSONPath=`.spec.missing`
type Named struct {
	A int32 `json:"a,omitempty"`
}

// Large has many Pods.
type Large struct {
	A *pod.Pod `json:"a,omitempty"`
	B *pod.Pod `json:"b,omitempty"`
	C *pod.Pod `json:"c,omitempty"`
	D *pod.Pod `json:"d,omitempty"`
	E *pod.Pod `json:"e,omitempty"`
	F *pod.Pod `json:"f,omitempty"`
	G *pod.Pod `json:"g,omitempty"`
	H *pod.Pod `json:"h,omitempty"`
	I *pod.Pod `json:"i,omitempty"`
	J *pod.Pod `json:"j,omitempty"`
	K *pod.Pod `json:"k,omitempty"`
	L *pod.Pod `json:"l,omitempty"`
	M *pod.Pod `json:"m,omitempty"`
	N *pod.Pod `json:"n,omitempty"`
	O *pod.Pod `json:"o,omitempty"`
	P *pod.Pod `json:"p,omitempty"`
	Q *pod.Pod `json:"q,omitempty"`
	R *pod.Pod `json:"r,omitempty"`
	S *pod.Pod `json:"s,omitempty"`
	T *pod.Pod `json:"t,omitempty"`
	U *pod.Pod `json:"u,omitempty"`
}

// Skipped is left out.
// +kubebuilder:skipversion
type Skipped struct{}

// Foreign is a status with a mistake.
type Foreign struct {
	// +kubebuilder:validation:Maximum=3
	// +kubebuilder:default=4
	Most int `json:"most,omitempty"`
}

// Status has none.
type Status struct{}

func main() {}
