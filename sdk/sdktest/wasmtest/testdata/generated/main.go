// Command generated is a plugin for tests: it reads a text as one of the types
// that have a generated codec, and writes what it has read.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/shapes"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole generate

func init() {
	sdk.RegisterGenerated(sdk.Controller[Spec, Status]{
		Name:      "generated",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Generated"},
		Reconcile: reconcile,
	})
}

// Spec says what to read, and how.
type Spec struct {
	Subject string `json:"subject"`
	Text    []byte `json:"text"`
}

// Status is what came of it.
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
