// Command kinds is a plugin for tests that decodes objects into the types of
// sdk/kubernetes and encodes them again.
package main

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/clusterrole"
	"github.com/thole-dev/thole/sdk/kubernetes/clusterrolebinding"
	"github.com/thole-dev/thole/sdk/kubernetes/configmap"
	"github.com/thole-dev/thole/sdk/kubernetes/cronjob"
	"github.com/thole-dev/thole/sdk/kubernetes/daemonset"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/kubernetes/horizontalpodautoscaler"
	"github.com/thole-dev/thole/sdk/kubernetes/ingress"
	"github.com/thole-dev/thole/sdk/kubernetes/job"
	"github.com/thole-dev/thole/sdk/kubernetes/lease"
	"github.com/thole-dev/thole/sdk/kubernetes/namespace"
	"github.com/thole-dev/thole/sdk/kubernetes/networkpolicy"
	"github.com/thole-dev/thole/sdk/kubernetes/persistentvolumeclaim"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
	"github.com/thole-dev/thole/sdk/kubernetes/poddisruptionbudget"
	"github.com/thole-dev/thole/sdk/kubernetes/role"
	"github.com/thole-dev/thole/sdk/kubernetes/rolebinding"
	"github.com/thole-dev/thole/sdk/kubernetes/secret"
	"github.com/thole-dev/thole/sdk/kubernetes/service"
	"github.com/thole-dev/thole/sdk/kubernetes/serviceaccount"
	"github.com/thole-dev/thole/sdk/kubernetes/statefulset"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "kinds",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Kinds"},
		Reconcile: reconcile,
	})
}

// Spec has the object, or whole objects as members.
type Spec struct {
	Kind   string  `json:"kind"`
	Object sdk.Raw `json:"object,omitempty"`
	Whole  Whole   `json:"whole,omitzero"`
}

// Whole has whole kinds as members.
type Whole struct {
	Deployment deployment.Deployment `json:"deployment,omitzero"`
	Pods       []pod.Pod             `json:"pods,omitempty"`
	Lease      *lease.Lease          `json:"lease,omitempty"`
}

// Status has the object as it is encoded again, and a new one of its kind.
type Status struct {
	Object sdk.Raw `json:"object,omitempty"`
	New    sdk.Raw `json:"new,omitempty"`
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	if r.Spec.Kind == "Whole" {
		var err error
		r.Status.Object, err = sdk.Encode(r.Spec.Whole)
		return sdk.AwaitChange(), err
	}
	again, ok := kinds[r.Spec.Kind]
	if !ok {
		return sdk.Action{}, errors.New("there is no type for kind " + r.Spec.Kind)
	}
	return sdk.AwaitChange(), again(r)
}

var kinds = map[string]func(*sdk.Request[Spec, Status]) error{
	"ClusterRole":             of(clusterrole.New),
	"ClusterRoleBinding":      of(clusterrolebinding.New),
	"ConfigMap":               of(configmap.New),
	"CronJob":                 of(cronjob.New),
	"DaemonSet":               of(daemonset.New),
	"Deployment":              of(deployment.New),
	"HorizontalPodAutoscaler": of(horizontalpodautoscaler.New),
	"Ingress":                 of(ingress.New),
	"Job":                     of(job.New),
	"Lease":                   of(lease.New),
	"Namespace":               of(namespace.New),
	"NetworkPolicy":           of(networkpolicy.New),
	"PersistentVolumeClaim":   of(persistentvolumeclaim.New),
	"Pod":                     of(pod.New),
	"PodDisruptionBudget":     of(poddisruptionbudget.New),
	"Role":                    of(role.New),
	"RoleBinding":             of(rolebinding.New),
	"Secret":                  of(secret.New),
	"Service":                 of(service.New),
	"ServiceAccount":          of(serviceaccount.New),
	"StatefulSet":             of(statefulset.New),
}

// of returns the function for the type of a kind.
func of[T any](construct func(name string) T) func(*sdk.Request[Spec, Status]) error {
	return func(r *sdk.Request[Spec, Status]) (err error) {
		var object T
		if err := sdk.Decode(r.Spec.Object, &object); err != nil {
			return err
		}
		if r.Status.Object, err = sdk.Encode(object); err != nil {
			return err
		}
		r.Status.New, err = sdk.Encode(construct(r.Name))
		return err
	}
}

func main() {}
