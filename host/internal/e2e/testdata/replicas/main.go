// Command replicas is a plugin that works as a ReplicaSet does: a Replica owns as many
// ConfigMaps as its spec asks for. Their names are random, so that a run that does not
// see what an earlier one created makes too many. A child is ready once somebody has
// annotated it.
package main

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Replicas int  `json:"replicas"`
	Fails    bool `json:"fails,omitempty"` // every run asks for a retry
	Spins    bool `json:"spins,omitempty"` // every run exceeds its deadline
}

type status struct {
	Replicas int `json:"replicas,omitempty"`
	Ready    int `json:"ready,omitempty"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("replicas", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "replicas", For: sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Replica"},
		Owns: []sdk.Kind{kind}, Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	for r.Spec.Spins { //nolint:revive // until the deadline
	}
	if r.Spec.Fails {
		return sdk.Action{}, errors.New("spec.fails is set")
	}
	var children []configMap
	if err := r.List(sdk.Query{Kind: kind, LabelSelector: "replica=" + r.Name}, &children); err != nil {
		return sdk.Action{}, err
	}
	random := r.Rand()
	for range r.Spec.Replicas - len(children) {
		children = append(children, configMap{Metadata: sdk.ObjectMeta{Name: r.Name + "-" + strconv.FormatUint(random.Uint64(), 36)}})
	}
	for _, extra := range children[r.Spec.Replicas:] {
		r.Delete(kind.Ref(r.Namespace, extra.Metadata.Name))
	}
	r.Status = status{Replicas: r.Spec.Replicas}
	for _, child := range children[:r.Spec.Replicas] {
		if child.Metadata.Annotations["ready"] != "" {
			r.Status.Ready++
		}
		r.Apply(configMap{
			TypeMeta: kind.Type(),
			Metadata: sdk.ObjectMeta{Name: child.Metadata.Name, Labels: map[string]string{"replica": r.Name}},
		})
	}
	return sdk.AwaitChange(), nil
}

func main() {}
