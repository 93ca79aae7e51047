// Command web is a plugin for tests that reads and applies a Deployment and a Service.
// Its size is what the types of these take.
package main

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
	"github.com/thole-dev/thole/sdk/kubernetes/service"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "web",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Web"},
		Owns:      []sdk.Kind{deployment.Kind, service.Kind},
		Reconcile: reconcile,
	})
}

// Spec is the desired state.
type Spec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas,omitempty"`
}

// Status is the actual state.
type Status struct {
	Ready   int32  `json:"ready,omitempty"`
	Address string `json:"address,omitempty"`
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	found := deployment.Deployment{}
	if err := r.Get(deployment.Kind.Ref(r.Namespace, r.Name), &found); err != nil && !errors.Is(err, sdk.ErrNotFound) {
		return sdk.Action{}, err
	}
	r.Status.Ready = found.Status.ReadyReplicas
	reached := service.Service{}
	if err := r.Get(service.Kind.Ref(r.Namespace, r.Name), &reached); err != nil && !errors.Is(err, sdk.ErrNotFound) {
		return sdk.Action{}, err
	}
	r.Status.Address = reached.Spec.ClusterIP

	labels := map[string]string{"app": r.Name}
	d := deployment.New(r.Name)
	d.Spec = deployment.Spec{
		Replicas: new(r.Spec.Replicas),
		Selector: &sdk.LabelSelector{MatchLabels: labels},
		Template: pod.TemplateSpec{
			Metadata: sdk.ObjectMeta{Labels: labels},
			Spec: pod.Spec{Containers: []pod.Container{{
				Name: "web", Image: r.Spec.Image, Ports: []pod.ContainerPort{{ContainerPort: 80}},
			}}},
		},
	}
	r.Apply(d)
	s := service.New(r.Name)
	s.Spec = service.Spec{Selector: labels, Ports: []service.Port{{Port: 80}}}
	r.Apply(s)
	return sdk.AwaitChange(), nil
}

func main() {}
