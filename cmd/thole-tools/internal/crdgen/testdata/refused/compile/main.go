// Command compile does not compile.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[missing, Status]{Name: "compile", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "G"}})
}

// Status is a status.
type Status struct{}

func main() {}
