// Command bare is a plugin for tests that calls no capability, and so must import
// none.
package main

import "github.com/thole-dev/thole/sdk"

type spec struct {
	Size int `json:"size"`
	Any  any `json:"any,omitempty"`
}

type status struct {
	Size int            `json:"size,omitempty"`
	Any  any            `json:"any,omitempty"`
	Map  map[string]any `json:"map,omitempty"`
}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "bare",
		For:  sdk.Kind{APIVersion: "example.com/v1", Kind: "Bare"},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			r.Status.Size, r.Status.Any = r.Spec.Size, r.Spec.Any
			r.Status.Map, _ = r.Spec.Any.(map[string]any)
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
