// Package soak is a plugin of which tests make hundreds of versions without
// compiling it again: in the compiled module they replace the texts below by others
// of the same length. It writes its version and the note of its policy into several
// places of everything that it writes in a run.
package soak

import "github.com/thole-dev/thole/sdk"

// The texts that tests replace.
const (
	name    = "soak-0"
	kind    = "Soak0"
	version = "version-000000"
)

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
	Note    string `json:"note,omitempty"`
	Text    string `json:"text,omitempty"`
}

// policy is the configuration in the policy of the plugin.
type policy struct {
	Note string `json:"note"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

type empty struct{}

var child = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

// Plain registers the plugin with one controller.
func Plain() { register(reconcile) }

// Wide registers the plugin with one more controller and more kinds. None of them needs an
// entry in a policy.
func Wide() {
	register(reconcile, sdk.Kind{APIVersion: "v1", Kind: "Service"}, sdk.Kind{APIVersion: "v1", Kind: "LimitRange"})
	own := sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: kind}
	sdk.Register(sdk.Controller[empty, empty]{
		Name:      "metadata",
		For:       own,
		Select:    sdk.Select(sdk.Followed{Kind: own, Selector: sdk.Selector{MetadataOnly: true}}), // so it has no conditions
		Reconcile: func(*sdk.Request[empty, empty]) (sdk.Action, error) { return sdk.Empty(), nil },
	})
}

// Trap registers the plugin so that it traps for every object.
func Trap() {
	register(func(r *sdk.Request[spec, status]) (sdk.Action, error) { panic("no object is good enough") })
}

func register(reconcile func(*sdk.Request[spec, status]) (sdk.Action, error), reads ...sdk.Kind) {
	sdk.Plugin(name, version)
	sdk.Register(sdk.Controller[spec, status]{
		Name:       "main",
		For:        sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: kind},
		Owns:       []sdk.Kind{child},
		Reads:      reads,
		Conditions: sdk.Conditions{Owned: []string{"Stamped"}},
		Warm:       []sdk.Value{configMap{}},
		Reconcile:  reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	var p policy
	if err := r.Config(&p); err != nil {
		return sdk.Empty(), err
	}
	r.Status = status{Version: version, Note: p.Note, Text: r.Spec.Text}
	r.SetCondition(sdk.Condition{Type: "Stamped", Status: sdk.True, Reason: "Stamped", Message: version + " " + p.Note})
	r.Apply(configMap{
		TypeMeta: child.Type(),
		Metadata: sdk.ObjectMeta{Name: r.Name, Annotations: map[string]string{"e2e.thole.dev/version": version}},
		Data:     map[string]string{"version": version, "note": p.Note, "text": r.Spec.Text},
	})
	return sdk.AwaitChange(), nil
}
