// Command bare is a plugin for tests that calls no capability, and so must import
// none.
package main

import "github.com/thole-dev/thole/sdk"

type spec struct {
	Size int `json:"size"`
}

type status struct {
	Size int `json:"size,omitempty"`
}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "bare",
		For:  sdk.Kind{APIVersion: "example.com/v1", Kind: "Bare"},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			r.Status.Size = r.Spec.Size
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
