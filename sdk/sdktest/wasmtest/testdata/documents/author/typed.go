package author

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

// Use typed objects.

func init() {
	register(siteKind, "typed", typed,
		sdk.Controller[Spec, Status]{
			Owns: []sdk.Kind{deployment.Kind},
		})
}

func typed(r *request) (sdk.Action, error) {
	labels := map[string]string{"site": r.Name}
	d := deployment.New(r.Name)
	d.Spec = deployment.Spec{
		Replicas: new(int32(2)),
		Selector: &sdk.LabelSelector{MatchLabels: labels},
		Template: pod.TemplateSpec{
			Metadata: sdk.ObjectMeta{Labels: labels},
			Spec:     pod.Spec{Containers: []pod.Container{{Name: "web", Image: r.Spec.Image}}},
		},
	}
	r.Apply(d)
	return sdk.AwaitChange(), nil
}
