// Command pods is a plugin that owns a Pod for each Stamp, with its text as the image,
// and follows no other Pods.
package main

import "github.com/thole-dev/thole/sdk"

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
}

type pod struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     podSpec        `json:"spec"`
	Status   podStatus      `json:"status,omitzero"`
}

type podSpec struct {
	Containers []container `json:"containers"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

type podStatus struct {
	Phase string `json:"phase,omitempty"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "Pod"}

func init() {
	sdk.Plugin("pods", "1")
	sdk.Managed()
	sdk.Register(sdk.Controller[spec, status]{
		Name: "stamp",
		For:  sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Owns: []sdk.Kind{kind},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			var all []pod
			if err := r.List(sdk.Query{Kind: kind}, &all); err != nil {
				return sdk.Action{}, err
			}
			for _, p := range all {
				if p.Metadata.ControlledBy(r.UID) {
					r.Status.Version = p.Status.Phase
				}
			}
			r.Apply(pod{
				TypeMeta: kind.Type(), Metadata: sdk.ObjectMeta{Name: r.Name},
				Spec: podSpec{Containers: []container{{Name: "main", Image: r.Spec.Text}}},
			})
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
