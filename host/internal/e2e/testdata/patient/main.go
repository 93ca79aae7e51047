// Command patient is a plugin that waits an hour after a failure, and fails twice at
// most. It writes the status of a Stamp every three seconds.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "patient", For: sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Retry: sdk.RetryPolicy{Initial: time.Hour, Factor: 1.5, Attempts: 2},
		ErrorPolicy: func(_ *sdk.Request[spec, status], err error, attempt int) error {
			return sdk.RetryAfter(time.Duration(attempt)*time.Second, err)
		},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			if r.Spec.Text == "fails" {
				return sdk.Action{}, errors.New("the text says so")
			}
			r.Status.Version = r.Now.Format(time.RFC3339Nano)
			return sdk.RequeueAfter(3 * time.Second), nil
		},
	})
}

func main() {}
