// Command appliance is the benchmarks' controller as a plugin whose types are
// read and written by encoding/json.
package main

import (
	"github.com/thole-dev/thole/host/sandbox/testdata/bench/appliance"
	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Plugin("appliance", "1.0.0")
	sdk.Register(sdk.Controller[appliance.Spec, appliance.Status]{
		Name: "appliance",
		For:  sdk.Kind{APIVersion: "bench.thole.dev/v1", Kind: "Appliance"},
		Reconcile: func(r *sdk.Request[appliance.Spec, appliance.Status]) (sdk.Action, error) {
			r.Status = appliance.Reconcile(r.Name, &r.Spec)
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
