// Command ledger is a plugin that writes down the changes in its requests: the controller
// ledger in the status, and the controller journal in a ConfigMap for each object that is gone.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text  string `json:"text,omitempty"`
	Fails bool   `json:"fails,omitempty"` // every run asks for a retry
}

type status struct {
	Seen []string `json:"seen,omitempty"`
}

type request = sdk.Request[spec, status]

var configMap = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("ledger", "")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "ledger", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Ledger"},
		Changes:   sdk.ChangesAnnotation,
		Retry:     sdk.RetryPolicy{Initial: time.Hour, Cap: time.Hour},
		Reconcile: reconcile,
	})
	sdk.Register(sdk.Controller[spec, status]{
		Name: "journal", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Journal"},
		Changes: sdk.ChangesMemory, Writes: []sdk.Kind{configMap},
		Reconcile: reconcile,
		Gone:      gone,
	})
}

// reconcile writes down the type of the change, and the text before and now. Resyncs are left
// out.
func reconcile(r *request) (sdk.Action, error) {
	text, err := seen(r)
	if err != nil {
		return sdk.Action{}, err
	}
	if r.Change.Type != sdk.Resynced && r.Change.Type != sdk.StatusUpdated {
		r.Status.Seen = append(r.Status.Seen, text)
	}
	if r.Spec.Fails {
		r.SetProgress("tried")
		return sdk.Action{}, errors.New("spec.fails is set")
	}
	return sdk.AwaitChange(), nil
}

func seen(r *request) (string, error) {
	old, err := r.Old()
	if err != nil {
		return "", err
	}
	before := "?"
	if old != nil {
		before = old.Spec.Text
	}
	var progress string
	if _, err := r.Progress(&progress); err != nil {
		return "", err
	}
	if progress != "" {
		progress = " " + progress
	}
	return string(r.Change.Type) + " " + before + " to " + r.Spec.Text + progress, nil
}

func gone(r *request) error {
	text, err := seen(r)
	if err != nil {
		return err
	}
	r.Apply(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "gone-" + r.Name},
		"data":     map[string]string{"seen": text},
	})
	return nil
}

func main() {}
