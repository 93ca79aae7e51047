// Command polled is a plugin that follows a kind whose API has no watch: a Stamp reads the
// Sample that its text names, and each Sample is copied to a ConfigMap.
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
	Version string `json:"version"`
}

type sample struct {
	Spec spec `json:"spec"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var (
	samples = sdk.Kind{APIVersion: "poll.e2e.thole.dev/v1", Kind: "Sample"}
	maps    = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}
)

func init() {
	sdk.Plugin("polled", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:   "stamp",
		For:    sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Reads:  []sdk.Kind{samples},
		Select: sdk.Select(sdk.Poll(samples, time.Minute)), // the other controller asks for a shorter one
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			var s sample
			switch err := r.Get(samples.Ref("", r.Spec.Text), &s); {
			case errors.Is(err, sdk.ErrNotFound):
				s.Spec.Text = "none"
			case err != nil:
				return sdk.AwaitChange(), err
			}
			r.Status.Version = s.Spec.Text
			return sdk.AwaitChange(), nil
		},
	})
	sdk.Register(sdk.Controller[spec, struct{}]{
		Name:   "sample",
		For:    samples,
		Select: sdk.Select(sdk.Poll(samples, time.Second)),
		Writes: []sdk.Kind{maps},
		Reconcile: func(r *sdk.Request[spec, struct{}]) (sdk.Action, error) {
			r.Apply(configMap{maps.Type(), sdk.ObjectMeta{Name: r.Name}, map[string]string{"text": r.Spec.Text}})
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
