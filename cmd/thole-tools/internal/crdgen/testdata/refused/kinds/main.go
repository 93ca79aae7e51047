// Command kinds has controllers whose kinds are not known, or do not fit together.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	for _, name := range []string{"A", "B"} {
		sdk.Register(sdk.Controller[Spec, Status]{Name: "computed", For: sdk.Kind{APIVersion: "example.com/v1", Kind: name}})
	}
	sdk.Register(sdk.Controller[Spec, Status]{Name: "function", For: kindOf()})
	register[Spec, Status]("d")
	sdk.Register(sdk.Controller[struct{}, Status]{Name: "unnamed", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "C"}})
}

// register registers a controller whose types are parameters.
func register[S, T sdk.Value](name string) {
	sdk.Register(sdk.Controller[S, T]{Name: name, For: sdk.Kind{APIVersion: "example.com/v1", Kind: name}})
	sdk.Register(sdk.Controller[S, T]{Name: name, For: sdk.Kind{APIVersion: "apps/v1", Kind: "Deployment"}}) // which has no definition
}

func kindOf() sdk.Kind { return sdk.Kind{} }

// Spec is a spec.
type Spec struct{}

// Status is a status.
type Status struct{}

func main() {}
