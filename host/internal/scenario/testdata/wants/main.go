// Command wants is a plugin for tests: the result of a run has the intents that the spec of its object lists,
// also such that the host refuses.
package main

import (
	"fmt"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

type spec struct {
	Apply   []object `json:"apply,omitempty"`
	Create  []object `json:"create,omitempty"`
	Adopt   []object `json:"adopt,omitempty"`
	Release []object `json:"release,omitempty"`
	Copies  int      `json:"copies,omitempty"` // so many ConfigMaps, named by the object and a number
	Prune   bool     `json:"prune,omitempty"`
}

// object is an object of the namespace, unless it has another one.
type object struct {
	Kind      string   `json:"kind,omitempty"` // default: ConfigMap
	Name      string   `json:"name"`
	Namespace string   `json:"namespace,omitempty"`
	Owners    []object `json:"owners,omitempty"` // beside the one that applies it; read to know their UIDs
}

type status struct {
	Wanted int `json:"wanted"` // intents of the last run that succeeded
}

type request = sdk.Request[spec, status]

var kinds = map[string]sdk.Kind{
	"":      {APIVersion: "v1", Kind: "ConfigMap"},
	"Want":  {APIVersion: "scenario.thole.dev/v1", Kind: "Want"},
	"Claim": {APIVersion: "scenario.thole.dev/v1", Kind: "Claim"},
	"Lease": {APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
}

func init() {
	sdk.Plugin("wants", "")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "wants", For: kinds["Want"], Owns: []sdk.Kind{kinds[""], kinds["Want"]}, Writes: []sdk.Kind{kinds["Want"]}, Prune: true, Reconcile: reconcile,
	})
	sdk.Register(sdk.Controller[spec, status]{ // that owns nothing
		Name: "claims", For: kinds["Claim"], Writes: []sdk.Kind{kinds[""]}, Reconcile: reconcile,
	})
}

func reconcile(r *request) (sdk.Action, error) {
	for _, o := range r.Spec.Apply {
		if err := apply(r, o); err != nil {
			return sdk.Action{}, err
		}
	}
	for _, o := range r.Spec.Create {
		if err := apply(r, o, children.Create()); err != nil {
			return sdk.Action{}, err
		}
	}
	for _, o := range r.Spec.Adopt {
		children.Adopt(r.Run, o.ref())
	}
	for _, o := range r.Spec.Release {
		children.Release(r.Run, o.ref())
	}
	for i := range r.Spec.Copies {
		if err := apply(r, object{Name: fmt.Sprint(r.Name, "-", i)}); err != nil {
			return sdk.Action{}, err
		}
	}
	if r.Spec.Prune {
		r.Prune()
	}
	r.Status.Wanted = len(r.Spec.Apply) + len(r.Spec.Create) + len(r.Spec.Adopt) + len(r.Spec.Release) + r.Spec.Copies
	return sdk.AwaitChange(), nil
}

func (o object) ref() sdk.Ref { return kinds[o.Kind].Ref(o.Namespace, o.Name) }

// child is an object without a spec.
type child struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

func apply(r *request, o object, options ...sdk.ApplyOption) error {
	c := child{TypeMeta: kinds[o.Kind].Type(), Metadata: sdk.ObjectMeta{Name: o.Name, Namespace: o.Namespace}}
	for _, owner := range o.Owners {
		var have child
		if err := r.Get(kinds[owner.Kind].Ref(r.Namespace, owner.Name), &have); err != nil {
			return err
		}
		c.Metadata.OwnerReferences = append(c.Metadata.OwnerReferences, sdk.OwnerReference{
			APIVersion: kinds[owner.Kind].APIVersion, Kind: kinds[owner.Kind].Kind, Name: owner.Name, UID: have.Metadata.UID,
		})
	}
	r.Apply(c, options...)
	return nil
}

func main() {}
