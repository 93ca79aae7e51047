// Command echo is the plugin of BenchmarkEcho: an Echo owns a ConfigMap of its own name
// with a part of its spec, and records in its status which revision of the spec that is.
// host/internal/nativeecho is the same controller on controller-runtime.
package main

import (
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

// Spec is text to copy, and text that makes the object larger.
type Spec struct {
	Revision int     `json:"revision"`
	Text     string  `json:"text"`
	Entries  []Entry `json:"entries,omitempty"`
}

// Entry is a name with a value.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Status has the revision of the spec that the ConfigMap shows.
type Status struct {
	Revision int `json:"revision,omitempty"`
}

// ConfigMap has the fields of a ConfigMap that this plugin writes.
type ConfigMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var child = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("echo", "1")
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "echo",
		For:       sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Echo"},
		Owns:      []sdk.Kind{child},
		Warm:      []sdk.Value{&ConfigMap{}},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	r.Apply(&ConfigMap{
		TypeMeta: child.Type(),
		Metadata: sdk.ObjectMeta{Name: r.Name},
		Data: map[string]string{
			"revision": strconv.Itoa(r.Spec.Revision),
			"entries":  strconv.Itoa(len(r.Spec.Entries)),
			"text":     r.Spec.Text,
		},
	})
	r.Status.Revision = r.Spec.Revision
	return sdk.AwaitChange(), nil
}

func main() {}
