// Command diary is a plugin that writes to the status of a Diary how often it has run,
// by its memo, and after how many failures. Its cleanup fails until no finalizer
// but its own is left.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text     string `json:"text,omitempty"`
	Fails    bool   `json:"fails,omitempty"`    // every run asks for a retry
	Requests bool   `json:"requests,omitempty"` // every run requests another one by the annotation
}

type status struct {
	Text    string `json:"text,omitempty"`
	Runs    int    `json:"runs,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
}

type request = sdk.Request[spec, status]

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "diary", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Diary"},
		Retry:     sdk.RetryPolicy{Initial: time.Hour},
		Reconcile: reconcile,
		Cleanup:   cleanup,
	})
}

func reconcile(r *request) (sdk.Action, error) {
	var runs int
	if _, err := r.Memo(&runs); err != nil {
		return sdk.Action{}, err
	}
	runs++
	r.SetMemo(runs)
	if r.Spec.Requests {
		now := r.Now.Format(time.RFC3339Nano)
		r.Patch(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"reconcile.thole.dev/requestedAt": now}}})
		r.Status.Text = r.Spec.Text
		return sdk.AwaitChange(), nil
	}
	r.Status = status{Text: r.Spec.Text, Runs: runs, Attempt: r.Attempt}
	if r.Spec.Fails {
		return sdk.Action{}, errors.New("spec.fails is set")
	}
	return sdk.AwaitChange(), nil
}

// cleanup is tried again after an hour, so that only a change makes it run earlier.
func cleanup(r *request) error {
	if len(r.Finalizers) > 1 {
		return errors.New("another finalizer is left")
	}
	return nil
}

func main() {}
