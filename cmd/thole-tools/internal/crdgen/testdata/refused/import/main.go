// Command import imports a package that does not exist.
package main

import (
	"example.com/nowhere"

	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Register(sdk.Controller[Spec, Spec]{Name: "import", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "F"}})
}

// Spec is a spec.
type Spec struct {
	A nowhere.Type `json:"a"`
	B []*Part      `json:"b"`
	C missing      `json:"c"`
}

// Part is a part.
type Part struct {
	D map[string]undeclared.Type `json:"d"`
}

func main() {}
