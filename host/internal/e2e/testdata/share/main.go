// Command share is a plugin whose primaries share an object that none of them owns: a
// Stamp adds its name to the ConfigMap that its text names.
package main

import "github.com/thole-dev/thole/sdk"

type spec struct {
	Text string `json:"text"`
}

type status struct{}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("share", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:   "stamp",
		For:    sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Reads:  []sdk.Kind{kind},
		Writes: []sdk.Kind{kind},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			if r.Spec.Text != "" {
				r.Apply(configMap{kind.Type(), sdk.ObjectMeta{Name: r.Spec.Text}, map[string]string{r.Name: "1"}})
			}
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
