// Command raw is a plugin for tests: it applies what the spec of its object has, whatever it is, and
// gives up after three failures.
package main

import (
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

type spec struct {
	Apply  []sdk.Raw          `json:"apply,omitempty"`  // with FILL replaced by so many bytes
	Groups map[string]sdk.Raw `json:"groups,omitempty"` // applied as a group each
	Fill   int                `json:"fill,omitempty"`
	Text   int                `json:"text,omitempty"` // how many bytes the status has there
	More   int                `json:"more,omitempty"`
}

type status struct {
	Text string `json:"text,omitempty"`
	More string `json:"more,omitempty"`
}

func init() {
	sdk.Plugin("raw", "")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "raw", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Raw"},
		Owns: []sdk.Kind{
			{APIVersion: "v1", Kind: "ConfigMap"}, {APIVersion: "v1", Kind: "LimitRange"}, {APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		},
		Retry:     sdk.RetryPolicy{Initial: 100 * time.Millisecond, Attempts: 3},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	for _, o := range r.Spec.Apply {
		r.Apply(sdk.Raw(strings.ReplaceAll(string(o), "FILL", strings.Repeat("x", r.Spec.Fill))))
	}
	for name, o := range r.Spec.Groups {
		children.Group{Name: name}.Apply(r.Run, o)
	}
	r.Status.Text, r.Status.More = strings.Repeat("x", r.Spec.Text), strings.Repeat("x", r.Spec.More)
	return sdk.AwaitChange(), nil
}

func main() {}
