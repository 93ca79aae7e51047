// Command claims is a plugin whose Stamps adopt the ConfigMaps with the label of equal to their text,
// release the others, and have in their status how many they control.
package main

import (
	"strconv"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("claims", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:      "stamp",
		For:       sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Owns:      []sdk.Kind{kind},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	var all []configMap
	if err := r.List(sdk.Query{Kind: kind}, &all); err != nil {
		return sdk.Action{}, err
	}
	controlled := 0
	for i := range all {
		meta := &all[i].Metadata
		ref := kind.Ref(meta.Namespace, meta.Name)
		ref.UID = meta.UID
		switch matches := meta.Labels["of"] == r.Spec.Text; {
		case matches && meta.ControllerRef() == nil && !meta.Deleting():
			children.Adopt(r.Run, ref)
		case !matches && meta.ControlledBy(r.UID):
			children.Release(r.Run, ref)
		case matches && meta.ControlledBy(r.UID):
			controlled++
		}
	}
	r.Status.Version = strconv.Itoa(controlled)
	return sdk.AwaitChange(), nil
}

func main() {}
