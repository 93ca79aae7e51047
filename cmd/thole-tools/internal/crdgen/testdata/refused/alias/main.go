// Command alias has an alias of a type of another package.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{Name: "alias", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Alias"}})
}

// Amount is a quantity.
type Amount = sdk.Quantity

// Spec uses it.
type Spec struct {
	A Amount `json:"a"`
}

// Status has none.
type Status struct{}

func main() {}
