// Command crowd is a plugin whose Echoes all read one ConfigMap, which changes nothing of
// what they write: their status has the revision of their spec.
package main

import "github.com/thole-dev/thole/sdk"

type spec struct {
	Revision int `json:"revision"`
}

type status struct {
	Revision int `json:"revision,omitempty"`
}

type configMap struct {
	Data map[string]string `json:"data"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("crowd", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:  "crowd",
		For:   sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Echo"},
		Reads: []sdk.Kind{kind},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			var shared configMap
			if err := r.Get(kind.Ref(r.Namespace, "shared"), &shared); err != nil {
				return sdk.Action{}, err
			}
			r.Status.Revision = r.Spec.Revision
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
