// Command vanish is a plugin that makes a ConfigMap for each Stamp, which does not own it, and
// deletes it in its cleanup. With the text "stuck" the cleanup of a Stamp that exists fails; with
// "late" the first two of one that has vanished do.
package main

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct{}

type request = sdk.Request[spec, status]

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("vanish", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:   "stamp",
		For:    sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Writes: []sdk.Kind{kind},
		Reconcile: func(r *request) (sdk.Action, error) {
			r.Apply(configMap{kind.Type(), sdk.ObjectMeta{Name: "of-" + r.Name}})
			return sdk.AwaitChange(), nil
		},
		Cleanup: cleanup,
	})
}

func cleanup(r *request) error {
	switch {
	case r.Spec.Text == "stuck" && !r.Gone, r.Spec.Text == "late" && r.Gone && r.Attempt < 2:
		return errors.New("not yet")
	}
	r.Log.Info("cleaned", "uid", r.UID)
	r.Delete(kind.Ref("", "of-"+r.Name))
	return nil
}

func main() {}
