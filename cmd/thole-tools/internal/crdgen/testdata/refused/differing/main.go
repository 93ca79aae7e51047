// Command differing has two controllers for a kind, with different types.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Plugin("differing", "1")
	sdk.Register(sdk.Controller[Spec, Status]{Name: "first", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "E"}})
	sdk.Register(sdk.Controller[Status, Spec]{Name: "second", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "E"}})
	sdk.Register(sdk.Controller[Spec, Status]{Name: "third", For: sdk.Kind{APIVersion: "example.com/v2", Kind: "E"}})
}

// Spec is a spec.
type Spec struct{}

// Status is a status.
type Status struct{}

func main() {}
