// Command appliance is the benchmarks' controller as a plugin whose types are
// read and written by the codec that `thole generate` makes of them.
package main

import (
	"github.com/thole-dev/thole/host/sandbox/testdata/bench/appliance"
	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

// Spec and Status are the controller's, with a codec of their own.
type (
	Spec   appliance.Spec
	Status appliance.Status
)

func init() {
	sdk.Plugin("appliance", "1.0.0")
	sdk.Register(sdk.Controller[Spec, Status]{
		Name: "appliance",
		For:  sdk.Kind{APIVersion: "bench.thole.dev/v1", Kind: "Appliance"},
		Reconcile: func(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
			r.Status = Status(appliance.Reconcile(r.Name, (*appliance.Spec)(&r.Spec)))
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
