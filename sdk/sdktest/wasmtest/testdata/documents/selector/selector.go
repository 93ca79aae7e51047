// Package selector has the labels that a user chooses, of docs/how-to/author.md.
package selector

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

type Spec struct {
	Selector *sdk.LabelSelector `json:"selector"`
}

// Status is what is selected.
type Status struct {
	Pods []string `json:"pods,omitempty"`
}

// Pod is what is read of a pod.
type Pod struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
}

var podKind = pod.Kind

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "selector",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "PodSet"},
		Reads:     []sdk.Kind{podKind},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	var pods []Pod
	if err := r.Spec.Selector.Validate(); err != nil {
		return sdk.Action{}, sdk.Stalled("InvalidSelector", errors.New("spec.selector."+err.Error()))
	}
	err := r.List(sdk.Query{Kind: podKind, LabelSelector: r.Spec.Selector.Text()}, &pods)
	for _, pod := range pods {
		r.Status.Pods = append(r.Status.Pods, pod.Metadata.Name)
	}
	return sdk.AwaitChange(), err
}
