// Command versions has two kinds, one of them with three versions, and a built-in one.
package main

import "github.com/thole-dev/thole/sdk"

var store = sdk.Kind{APIVersion: "versions.example.com/v2", Kind: "Store"}

// name is a constant, as the name of a kind may be.
const name = "Policy"

func init() {
	sdk.Plugin("versions", "1")
	sdk.Register(controller)
	sdk.Register(sdk.Controller[PolicySpec, None]{
		Name: "policy", For: sdk.Kind{APIVersion: "versions.example.com/v1", Kind: name},
		Reconcile: func(*sdk.Request[PolicySpec, None]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
	// Another controller of the same kind, and one of a kind of Kubernetes.
	sdk.Register(sdk.Controller[Spec, Status]{Name: "second", For: store, Reconcile: reconcile})
	sdk.Register(sdk.Controller[None, None]{
		Name: "nodes", For: sdk.Kind{APIVersion: "v1", Kind: "Node"},
		Reconcile: func(*sdk.Request[None, None]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
}

var controller = sdk.Controller[Spec, Status]{
	Name: "store", For: store, Reconcile: reconcile,
	Convert: sdk.Convert(
		sdk.Version("v1", fromV1, toV1),
		sdk.Version("v1beta1", fromBeta, toBeta),
	),
}

// Spec is that of version 2.
// +kubebuilder:resource:shortName=st
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
type Spec struct {
	Size int `json:"size,omitempty"`
}

// Status is that of versions 1 and 2.
type Status struct {
	Used int `json:"used"`
}

// V1Spec is that of version 1.
// +kubebuilder:storageversion
type V1Spec struct {
	Capacity int `json:"capacity"`
}

// BetaSpec is that of an old version.
// +kubebuilder:unservedversion
// +kubebuilder:deprecatedversion:warning="use v2"
type BetaSpec struct{}

// PolicySpec is that of a Policy.
type PolicySpec struct {
	Allow bool `json:"allow"`
}

// None is a status without members.
type None struct{}

func fromV1(*sdk.Object[V1Spec, Status], *sdk.Object[Spec, Status]) error { return nil }
func toV1(*sdk.Object[Spec, Status], *sdk.Object[V1Spec, Status]) error   { return nil }

func fromBeta(*sdk.Object[BetaSpec, None], *sdk.Object[Spec, Status]) error { return nil }
func toBeta(*sdk.Object[Spec, Status], *sdk.Object[BetaSpec, None]) error   { return nil }

func reconcile(*sdk.Request[Spec, Status]) (sdk.Action, error) { return sdk.AwaitChange(), nil }

func main() {}
