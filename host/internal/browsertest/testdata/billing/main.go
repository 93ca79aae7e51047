// Command billing is a plugin with two controllers. What its runs lead to is in the text of their Stamp.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct{}

func init() {
	sdk.Plugin("billing", "2.14.0")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "invoices", For: sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"}, Reconcile: reconcile,
		Retry: sdk.RetryPolicy{Initial: 100 * time.Millisecond, Attempts: 3},
	})
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: "settings", For: sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"},
		Reconcile: func(*sdk.Request[struct{}, struct{}]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	switch r.Spec.Text {
	case "fails":
		return sdk.Action{}, errors.New("the text says so")
	case "panics":
		panic("the text says so")
	}
	return sdk.AwaitChange(), nil
}

func main() {}
