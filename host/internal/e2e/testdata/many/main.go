// Command many is a plugin of which BenchmarkScale makes hundreds: in the compiled
// module it replaces the texts below by others of the same length. Its controller does
// nothing.
package main

import "github.com/thole-dev/thole/sdk"

// The texts that the benchmark replaces.
const (
	name     = "many-000"
	kind     = "Many000" // the primary kind
	followed = "Many999" // a kind whose objects wake their owner
)

type empty struct{}

const apiVersion = "e2e.thole.dev/v1"

func init() {
	sdk.Plugin(name, "1")
	sdk.Register(sdk.Controller[empty, empty]{
		Name:      "main",
		For:       sdk.Kind{APIVersion: apiVersion, Kind: kind},
		Owns:      []sdk.Kind{{APIVersion: apiVersion, Kind: followed}},
		Reconcile: func(*sdk.Request[empty, empty]) (sdk.Action, error) { return sdk.Empty(), nil },
	})
}

func main() {}
