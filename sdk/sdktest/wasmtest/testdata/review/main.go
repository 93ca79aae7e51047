// Command review is a plugin for tests that validates and mutates its objects as their spec
// requests, and converts them.
package main

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

var maps = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name: "review", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"},
		Reads:     []sdk.Kind{maps},
		Reconcile: func(*sdk.Request[Spec, Status]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
		Validate:  sdk.Validate(validate, sdk.OperationCreate, sdk.OperationUpdate, sdk.OperationDelete),
		Mutate:    sdk.Mutate(mutate),
		Convert:   sdk.Convert(sdk.Version("v1beta1", fromBeta, toBeta)),
	})
}

// Spec is what the reviews do.
type Spec struct {
	Do       string `json:"do,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
	Ports    []Port `json:"ports,omitempty"`
	// Deep is JSON in which the text "old" is replaced.
	Deep sdk.Raw `json:"deep,omitempty"`
}

// Port is an element of a list.
type Port struct {
	Name string `json:"name,omitempty"`
	Port int    `json:"port,omitempty"`
}

// Status has nothing to do with reviews.
type Status struct {
	Ready bool `json:"ready,omitempty"`
}

// BetaSpec is the spec of v1beta1, which has no ports.
type BetaSpec struct {
	Action string `json:"action,omitempty"`
	Size   int    `json:"size,omitempty"`
}

// ConfigMap is one that is read.
type ConfigMap struct {
	Data map[string]string `json:"data,omitempty"`
}

// kept would keep calls if memory were not reset.
var kept int

func validate(r *sdk.Review, old, object *sdk.Object[Spec, Status]) error {
	kept++
	if object == nil {
		return sdk.Denied("Protected", errors.New(r.User.Name+" may not delete "+old.Name))
	}
	switch object.Spec.Do {
	case "deny":
		r.Warn("it was to be expected")
		r.Audit("rule", "deny")
		return sdk.Denied("Invalid", errors.New("spec.do: requested"))
	case "kept":
		return errors.New(strconv.Itoa(kept))
	case "panic":
		panic("requested by the spec")
	case "spin":
		for i := 0; ; i++ {
			kept += i
		}
	case "quota":
		var quota ConfigMap
		if err := r.Get(maps.Ref("", "quota"), &quota); err != nil {
			return err
		}
		if limit, _ := strconv.Atoi(quota.Data["replicas"]); object.Spec.Replicas > limit {
			return errors.New("the quota is " + strconv.Itoa(limit))
		}
	}
	return nil
}

func mutate(_ *sdk.Review, _, object *sdk.Object[Spec, Status]) error {
	if object.Spec.Replicas == 0 {
		object.Spec.Replicas = 1
		object.SetLabel("defaulted", "true")
	}
	object.Spec.Deep = bytes.ReplaceAll(object.Spec.Deep, []byte("old"), []byte("new"))
	for i := range object.Spec.Ports {
		if object.Spec.Ports[i].Port == 0 {
			object.Spec.Ports[i].Port = 80
		}
	}
	return nil
}

func fromBeta(object *sdk.Object[BetaSpec, Status], hub *sdk.Object[Spec, Status]) error {
	hub.Spec, hub.Status = Spec{Do: object.Spec.Action, Replicas: object.Spec.Size}, object.Status
	return nil
}

func toBeta(hub *sdk.Object[Spec, Status], object *sdk.Object[BetaSpec, Status]) error {
	if hub.Spec.Do == "fail" {
		return sdk.Stalled("Wrong", errors.New("requested by the spec"))
	}
	object.Spec, object.Status = BetaSpec{Action: hub.Spec.Do, Size: hub.Spec.Replicas}, hub.Status
	return nil
}

func main() {}
