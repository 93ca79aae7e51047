// Command generated is a plugin for tests that decodes a text into one of the types
// with a generated codec, and encodes the value again.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/shapes"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "generated",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Generated"},
		Reconcile: reconcile,
	})
}

// Spec has the text, and the name of the type.
type Spec struct {
	Subject string `json:"subject"`
	Text    []byte `json:"text"`
}

// Status has the encoded value, or the error.
type Status struct {
	Result string `json:"result,omitempty"`
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	for _, s := range shapes.Subjects {
		if s.Name == r.Spec.Subject {
			r.Status.Result = s.Round(r.Spec.Text)
		}
	}
	return sdk.AwaitChange(), nil
}

func main() {}
