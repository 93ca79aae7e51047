// Command scaffold declares its kind as the scaffold of kubebuilder does: a struct, with markers on its fields, and in a
// comment that a blank line separates.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[WebsiteSpec, WebsiteStatus]{
		Name: "scaffold", For: sdk.Kind{APIVersion: "scaffold.example.com/v1", Kind: "Website"},
		Reconcile: func(*sdk.Request[WebsiteSpec, WebsiteStatus]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
}

// WebsiteSpec defines the desired state of Website
type WebsiteSpec struct {
	// +optional
	Text *string `json:"text,omitempty"`
	// +kubebuilder:validation:Enum=1;2
	// +optional
	Size int32 `json:"size,omitempty"`
	// +kubebuilder:validation:Enum=true
	// +optional
	Sure bool `json:"sure,omitempty"`
	// +kubebuilder:validation:Enum="1";"true"
	// +optional
	Quoted string `json:"quoted,omitempty"`
	// +kubebuilder:default={least: -1, most: 1, steps: [-1, 0.5]}
	// +optional
	Range Range `json:"range,omitzero"`
	// +kubebuilder:default:={"least":-2}
	// +optional
	Legacy Range `json:"legacy,omitzero"`
}

// Range is a range of numbers.
type Range struct {
	Least int32     `json:"least,omitempty"`
	Most  int32     `json:"most,omitempty"`
	Steps []float64 `json:"steps,omitempty"`
}

// WebsiteStatus defines the observed state of Website.
type WebsiteStatus struct {
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []sdk.Condition `json:"conditions,omitempty"`
	// +optional
	Phase string `json:"phase,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ws

// Website is the Schema for the websites API
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) < 20",message="name too long"
type Website struct {
	sdk.TypeMeta `json:",inline"`

	// metadata is a standard object metadata
	// +optional
	Metadata sdk.ObjectMeta `json:"metadata,omitzero"`

	// spec defines the desired state of Website
	// +kubebuilder:default={text: "a"}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="immutable"
	// +required
	Spec WebsiteSpec `json:"spec"`

	// status defines the observed state of Website
	// +kubebuilder:default={phase: New}
	// +optional
	Status WebsiteStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// WebsiteList contains a list of Website
type WebsiteList struct {
	Items []Website `json:"items"`
}

func main() {}
