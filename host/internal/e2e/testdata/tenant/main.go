// Command tenant is a plugin that keeps the namespaces of its runs in memory, and
// writes what it finds there into the status. An object whose text is "log" runs
// without a pause and logs as much as a run may.
package main

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version"`
}

var seen []string

func init() {
	sdk.Plugin("tenant", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "stamp",
		For:  sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			if r.Spec.Text == "log" {
				for range 3 {
					r.Log.Info(strings.Repeat("x", 20_000))
				}
				return sdk.RequeueAfter(time.Millisecond), nil
			}
			if !slices.Contains(seen, r.Namespace) {
				seen = append(seen, r.Namespace)
			}
			r.Status.Version = strings.Join(seen, " ")
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
