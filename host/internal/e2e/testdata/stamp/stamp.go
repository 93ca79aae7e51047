// Package stamp is a plugin in two versions. A Stamp owns a ConfigMap with its text
// and the version of the plugin that wrote it.
package stamp

import "github.com/thole-dev/thole/sdk"

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

// Register registers the plugin as that version.
func Register(version string) {
	sdk.Plugin("stamp", version)
	sdk.Register(sdk.Controller[spec, status]{
		Name: "stamp",
		For:  sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Owns: []sdk.Kind{kind},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			r.Status.Version = version
			r.Apply(configMap{
				TypeMeta: kind.Type(),
				Metadata: sdk.ObjectMeta{Name: r.Name},
				Data:     map[string]string{"text": r.Spec.Text, "version": version},
			})
			return sdk.AwaitChange(), nil
		},
	})
}
