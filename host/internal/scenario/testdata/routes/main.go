// Command routes is a plugin for tests. The status of its kind has a required member, which it writes only if the
// spec has it; else it wants nothing of the status.
package main

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/configmap"
)

type spec struct {
	Parent string `json:"parent,omitempty"`
	Fail   bool   `json:"fail,omitempty"`
}

type status struct {
	Parents []string `json:"parents,omitempty"`
}

func init() {
	sdk.Plugin("routes", "")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "routes", For: sdk.Kind{APIVersion: "routes.thole.dev/v1", Kind: "Route"}, Owns: []sdk.Kind{configmap.Kind}, Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	if r.Spec.Fail {
		return sdk.Action{}, sdk.Stalled("AskedTo", errors.New("asked to fail"))
	}
	if r.Spec.Parent != "" {
		r.Status.Parents = []string{r.Spec.Parent}
	}
	r.Apply(configmap.New(r.ChildName("child")))
	return sdk.AwaitChange(), nil
}

func main() {}
