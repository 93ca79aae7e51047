// Command plugin shows which types get a codec, and the codec.
package main

import (
	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "plugin",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Plugin"},
		Reconcile: reconcile,
		Warm:      []sdk.Value{Warmed{}, &Pod{}},
		Daemon:    sdk.Daemon(step),
		Validate:  sdk.Validate(validate),
		Convert:   sdk.Convert(sdk.Version("v2", fromV2, toV2)),
	})
}

// Spec is a type argument of the controller.
type Spec struct {
	Size   int32             `json:"size"`
	Limit  *float64          `json:"limit,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Ports  []Port            `json:"ports,omitempty"`
}

// Port is part of Spec: it gets functions, and no methods.
type Port struct {
	Name string          `json:"name,omitempty"`
	Port sdk.IntOrString `json:"port"`
}

// Status is the other type argument of the controller.
type Status struct {
	Phase string `json:"phase,omitempty"`
}

// Warmed is an element of Warm.
type Warmed struct{ Left Node }

// Node is recursive.
type Node struct {
	Next *Node `json:"next,omitempty"`
}

// Pod is passed to Get and List.
type Pod struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

// Applied is passed to Apply, Patched to Patch, Settings to Config, Memo to Memo and
// SetMemo, and Coded to Decode.
type (
	Coded    struct{ C int }
	Applied  struct{ A int }
	Patched  struct{ P int }
	Settings struct{ S int }
	Memo     struct{ M int }
)

// State is the state of a daemon, and Explicit that of one with type arguments. Signal is passed to
// Signal, and the others to methods of a step.
type (
	State    struct{ S string }
	Explicit struct{ E int }
	Signal   struct{ N int }
	Got      struct{ G int }
	Listed   struct{ L int }
	StepConf struct{ C int }
)

// OnlyStep is a type argument of a step that belongs to no controller.
type OnlyStep struct{ O int }

// Marked is not passed to the SDK.
//
//thole:generate
type Marked struct{ M map[string]Marked }

// Embeds gets methods of its own, or it would inherit those of Marked.
type Embeds struct {
	Marked
	More int
}

// Unused gets no codec.
type Unused struct{ Any any }

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	var pod Pod
	var pods []Pod
	var settings Settings
	var memo Memo
	var raw sdk.Raw
	_ = r.Get(sdk.Ref{}, &pod)
	_ = r.Get(sdk.Ref{}, &raw)
	_ = r.List(sdk.Query{}, &pods)
	_ = r.Config(&settings)
	_, _ = r.Memo(&memo)
	_ = sdk.Decode(raw, new(Coded))
	r.SetMemo(Memo{1})
	r.Apply(&Applied{1})
	r.Patch(Patched{})
	return sdk.AwaitChange(), nil
}

func step(d *sdk.DaemonStep[Spec, Status], state *State) error {
	var listed []Listed
	d.Signal(Signal{1})
	_ = d.Get(sdk.Ref{}, new(Got))
	_ = d.List(sdk.Query{}, &listed)
	return d.Config(&StepConf{})
}

// The types of another version, and of objects of a third one.
type (
	SpecV2   struct{ V int }
	StatusV2 struct{ T int }
	SpecV3   struct{ W int }
	Reviewed struct{ R int }
)

func fromV2(*sdk.Object[SpecV2, StatusV2], *sdk.Object[Spec, Status]) error { return nil }
func toV2(*sdk.Object[Spec, Status], *sdk.Object[SpecV2, StatusV2]) error   { return nil }

func validate(r *sdk.Review, _, _ *sdk.Object[Spec, Status]) error {
	return r.Get(sdk.Ref{}, &Reviewed{})
}

var _ sdk.Object[SpecV3, Status]

func other(*sdk.DaemonStep[OnlyStep, OnlyStep], *Explicit) error { return nil }

var _ = sdk.Daemon[Explicit](other)

func main() {}
