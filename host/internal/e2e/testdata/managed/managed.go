// Package managed is a plugin in two versions. A Stamp owns the Secrets that its text
// names, and has in its status how many there are.
package managed

import (
	"strconv"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
}

type secret struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Type     string         `json:"type,omitempty"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "Secret"}

// Register registers the plugin as that version. Of a Secret whose name ends in ! a
// Stamp reads the type, and of one that ends in ? it wants to take over one that exists.
func Register(version string) {
	sdk.Plugin("managed", version)
	sdk.Register(sdk.Controller[spec, status]{
		Name: "stamp",
		For:  sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Owns: []sdk.Kind{kind},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			var all []secret
			if err := r.List(sdk.Query{Kind: kind}, &all); err != nil {
				return sdk.Action{}, err
			}
			r.Status.Version = version + ": " + strconv.Itoa(len(all))
			for _, name := range strings.Fields(r.Spec.Text) {
				if other, ok := strings.CutSuffix(name, "!"); ok {
					var s secret
					if err := r.Get(kind.Ref("", other), &s); err != nil {
						return sdk.Action{}, err
					}
					r.Status.Version += " " + s.Type
					continue
				}
				var options []sdk.ApplyOption
				name, adopt := strings.CutSuffix(name, "?")
				if adopt {
					options = append(options, sdk.Adopt())
				}
				r.Apply(secret{TypeMeta: kind.Type(), Metadata: sdk.ObjectMeta{Name: name, Labels: map[string]string{"of": r.Name}}}, options...)
			}
			return sdk.AwaitChange(), nil
		},
	})
}
