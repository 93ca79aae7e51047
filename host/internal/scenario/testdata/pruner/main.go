// Command pruner is a plugin for tests that would prune, but owns nothing.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/prune"
)

func init() {
	sdk.Plugin("pruner", "")
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: "pruner", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Want"},
		Reconcile: func(r *sdk.Request[struct{}, struct{}]) (sdk.Action, error) {
			prune.Unnamed(r.Run)
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
