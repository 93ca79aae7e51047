// Command pruner is a plugin for tests that would prune, but owns nothing.
package main

import (
	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Plugin("pruner", "")
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: "pruner", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Want"}, Prune: true,
		Reconcile: func(r *sdk.Request[struct{}, struct{}]) (sdk.Action, error) {
			r.Prune()
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
