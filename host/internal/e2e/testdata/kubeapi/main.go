// Command kubeapi is a plugin with a child of package k8s.io/api, which standard Go alone compiles. It
// copies the text of a Stamp into a ConfigMap of its name.
package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct{}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "kubeapi",
		For:  sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Owns: []sdk.Kind{{APIVersion: "v1", Kind: "ConfigMap"}},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			r.Apply(&corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: r.Name},
				Data:       map[string]string{"text": r.Spec.Text},
			})
			return sdk.AwaitChange(), nil
		},
	})
}

func main() {}
