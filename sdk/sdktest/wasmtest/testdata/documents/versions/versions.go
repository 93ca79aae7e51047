// Package versions has the conversion of docs/how-to/author.md.
package versions

import "github.com/thole-dev/thole/sdk"

// The types of the versions v1 and v1beta1.
type (
	Spec struct {
		Replicas int32 `json:"replicas,omitempty"`
	}
	Status struct{}

	BetaSpec struct {
		Size int32 `json:"size,omitempty"`
	}
	BetaStatus struct{}
)

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name: "fleet",
		For:  sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Fleet"},
		Reconcile: func(*sdk.Request[Spec, Status]) (sdk.Action, error) {
			return sdk.AwaitChange(), nil
		},
		Convert: sdk.Convert(
			sdk.Version("v1beta1",
				func(object *sdk.Object[BetaSpec, BetaStatus], hub *sdk.Object[Spec, Status]) error {
					hub.Spec.Replicas = object.Spec.Size
					return nil
				},
				func(hub *sdk.Object[Spec, Status], object *sdk.Object[BetaSpec, BetaStatus]) error {
					object.Spec.Size = hub.Spec.Replicas
					return nil
				}),
		),
	})
}
