// Command markers has the markers that authors need most, and the kinds of types.
package main

import (
	"encoding/json"
	"time"

	"github.com/thole-dev/thole/sdk"
)

var kind = sdk.Kind{"markers.example.com/v1", "Gadget"}

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "markers", For: kind, Reconcile: reconcile})
}

// A Gadget has everything.
//
// +kubebuilder:resource:scope=Cluster,shortName=gd;gdg,categories=all,path=gadgetry,singular=gadgetron
type Gadget = sdk.Object[Spec, Status]

// Spec is what is wanted.
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.spec.mode`
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size
// +kubebuilder:validation:XValidation:rule="self.size < 3 || has(self.nested)",message="a large one needs nested"
type Spec struct {
	Base `json:",inline"`

	// Size is the size.
	// It has two lines.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=2
	Size int32 `json:"size,omitempty"`
	// +kubebuilder:validation:Enum=Fast;Slow
	// +kubebuilder:default=Fast
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode cannot be changed"
	Mode string `json:"mode,omitempty"`
	// +optional
	Optional string            `json:"optional"`
	Color    Color             `json:"color"`
	Nested   *Nested           `json:"nested,omitempty"`
	Zero     Nested            `json:"zero,omitzero"`
	List     []Nested          `json:"list,omitempty"`
	Set      Labels            `json:"set,omitempty"`
	Map      map[string]Nested `json:"map,omitempty"`
	// +listType=map
	// +listMapKey=name
	ByName    []Item        `json:"byName,omitempty"`
	Limits    Limits        `json:"limits,omitempty"`
	Share     float64       `json:"share,omitempty"`
	Bytes     []byte        `json:"bytes,omitempty"`
	Big       int64         `json:"big,omitempty"`
	Unsigned  uint32        `json:"unsigned,omitempty"`
	Enabled   *bool         `json:"enabled,omitempty"`
	Time      sdk.Time      `json:"time,omitempty"`
	MicroTime sdk.MicroTime `json:"microTime,omitempty"`
	// +kubebuilder:validation:MaxLength=9
	Duration sdk.Duration    `json:"duration,omitzero"`
	Port     sdk.IntOrString `json:"port,omitzero"`
	// +kubebuilder:validation:XValidation:rule="type(self) == int || quantity(self).isLessThan(quantity('1Ti'))"
	// +kubebuilder:validation:MaxLength=20
	Memory    *sdk.Quantity   `json:"memory,omitempty"`
	Anything  sdk.Raw         `json:"anything,omitempty"`
	Any       json.RawMessage `json:"any,omitempty"`
	GoTime    time.Time       `json:"goTime,omitzero"`
	Nanos     time.Duration   `json:"nanos,omitempty"`
	Condition sdk.Condition   `json:"condition,omitzero"`
	Metadata  sdk.ObjectMeta  `json:"metadata,omitzero"`
	Ignored   func()          `json:"-"`
	private   chan int
}

// Base is embedded.
type Base struct {
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	Owner string `json:"owner"`
}

// Color is a color.
// +kubebuilder:validation:Enum=red;green
type Color string

// Labels are a list that is a set.
// +listType=set
// +kubebuilder:validation:MaxItems=5
// +kubebuilder:validation:items:MaxLength=63
type Labels []string

// Limits are a map of a named type.
// +kubebuilder:validation:MaxProperties=4
type Limits map[string]sdk.Quantity

// Nested is a part of the spec.
type Nested struct {
	Required string  `json:"required"`
	Deeper   *Deeper `json:"deeper,omitempty"`
}

// Deeper is a part of a part.
// +structType=atomic
type Deeper struct {
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:MinItems=1
	Values []int64 `json:"values"`
}

// Item is in a list with keys.
type Item struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Status is what is.
type Status struct {
	Size  int32  `json:"size"`
	Parts []Item `json:"parts,omitempty"`
	Phase Color  `json:"phase,omitempty"`
}

func reconcile(*sdk.Request[Spec, Status]) (sdk.Action, error) { return sdk.AwaitChange(), nil }

func main() {}
