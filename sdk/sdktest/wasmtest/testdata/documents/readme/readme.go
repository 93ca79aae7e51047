// Package readme has the plugin of README.md.
package readme

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/configmap"
)

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "greeting",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Greeting"},
		Owns:      []sdk.Kind{configmap.Kind},
		Reconcile: reconcile,
	})
}

type Spec struct {
	Name string `json:"name"`
}

type Status struct {
	Greeting string `json:"greeting,omitempty"`
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	r.Status.Greeting = "Hello, " + r.Spec.Name
	child := configmap.New(r.Name)
	child.Data = map[string]string{"greeting": r.Status.Greeting}
	r.Apply(child)
	return sdk.AwaitChange(), nil
}
