// Command press is a plugin that creates ConfigMaps under new names and under a fixed one, and
// replaces one that cannot be changed.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

type spec struct {
	Copies int    `json:"copies,omitempty"` // how many ConfigMaps there are with the label press
	Fixed  string `json:"fixed,omitempty"`  // the name of one that is only created
	Text   string `json:"text,omitempty"`   // of one that is immutable
}

type status struct {
	Copies int `json:"copies"`
}

type request = sdk.Request[spec, status]

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

type configMap struct {
	sdk.TypeMeta
	Metadata  sdk.ObjectMeta    `json:"metadata"`
	Immutable bool              `json:"immutable,omitempty"`
	Data      map[string]string `json:"data,omitempty"`
}

func init() {
	sdk.Plugin("press", "")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "press", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Press"}, Owns: []sdk.Kind{kind}, Reconcile: reconcile,
	})
}

func reconcile(r *request) (sdk.Action, error) {
	var copies []configMap
	if err := r.List(sdk.Query{Kind: kind, LabelSelector: "press=" + r.Name}, &copies); err != nil {
		return sdk.Action{}, err
	}
	for range r.Spec.Copies - len(copies) {
		r.Apply(configMap{
			TypeMeta: kind.Type(),
			Metadata: sdk.ObjectMeta{Name: r.UniqueName(r.Name + "-"), Labels: map[string]string{"press": r.Name}},
		}, children.Create())
	}
	for _, surplus := range copies[min(r.Spec.Copies, len(copies)):] {
		r.Delete(kind.Ref(r.Namespace, surplus.Metadata.Name), children.AtVersion(surplus.Metadata.ResourceVersion), children.Propagate(children.Foreground))
	}
	if r.Spec.Fixed != "" {
		r.Apply(configMap{TypeMeta: kind.Type(), Metadata: sdk.ObjectMeta{Name: r.Spec.Fixed}}, children.Create())
	}
	if r.Spec.Text != "" {
		r.Apply(configMap{
			TypeMeta: kind.Type(), Metadata: sdk.ObjectMeta{Name: r.ChildName("text")},
			Immutable: true, Data: map[string]string{"text": r.Spec.Text},
		}, children.Replace())
	}
	r.Status.Copies = len(copies)
	return sdk.AwaitChange(), nil
}

func main() {}
