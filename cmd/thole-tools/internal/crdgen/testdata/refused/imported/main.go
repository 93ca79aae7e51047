// Command imported has mistakes in another package of its module.
package main

import (
	"github.com/thole-dev/thole/cmd/thole-tools/internal/crdgen/testdata/refused/imported/parts"
	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Register(sdk.Controller[Spec, parts.Status]{Name: "imported", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Imported"}})
}

// Spec has a part.
type Spec struct {
	Part parts.Part `json:"part"`
}

func main() {}
