// Command leases is a plugin for tests: a ConfigMap has one Lease for each name in its data, and prunes the others.
package main

import (
	"github.com/thole-dev/thole/sdk"
)

var leaseKind = sdk.Kind{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}

func init() {
	sdk.Plugin("leases", "0.1.0")
	for _, name := range []string{"leases", "others"} {
		sdk.Register(sdk.Controller[struct{}, struct{}]{
			Name: name, For: sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}, Owns: []sdk.Kind{leaseKind}, Prune: true,
			Reconcile: func(r *sdk.Request[struct{}, struct{}]) (sdk.Action, error) { return reconcile(r, name) },
		})
	}
}

func main() {}

// reconcile reads the names from the data of the ConfigMap: those of this controller have its name as their value.
func reconcile(r *sdk.Request[struct{}, struct{}], controller string) (sdk.Action, error) {
	var object struct {
		Data map[string]string `json:"data"`
	}
	if err := sdk.Decode(r.Object(), &object); err != nil {
		return sdk.Action{}, err
	}
	if _, ours := r.Labels["leases"]; !ours {
		return sdk.Empty(), nil
	}
	for name, value := range object.Data {
		if value == controller {
			r.Apply(map[string]any{
				"apiVersion": leaseKind.APIVersion, "kind": leaseKind.Kind,
				"metadata": map[string]any{"name": r.Name + "-" + name, "labels": map[string]string{"by": controller}},
			})
		}
	}
	r.Prune()
	return sdk.AwaitChange(), nil
}
