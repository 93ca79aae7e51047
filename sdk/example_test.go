package sdk_test

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// GreetingSpec is the spec of a Greeting.
type GreetingSpec struct {
	Who string `json:"who"`
}

// GreetingStatus is the status of a Greeting.
type GreetingStatus struct {
	Text string `json:"text,omitempty"`
}

// ConfigMap has the fields of a ConfigMap that this plugin uses.
type ConfigMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

var configMap = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Register(sdk.Controller[GreetingSpec, GreetingStatus]{
		Name:      "greeting",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Greeting"},
		Owns:      []sdk.Kind{configMap},
		Reconcile: greet,
		Warm:      []sdk.Value{ConfigMap{}},
	})
}

func greet(r *sdk.Request[GreetingSpec, GreetingStatus]) (sdk.Action, error) {
	if r.Spec.Who == "" {
		return sdk.Action{}, sdk.Stalled("NobodyToGreet", errors.New("spec.who is empty"))
	}
	// The word to greet with is in a ConfigMap. Because this run reads it, the host
	// runs the Greeting again when the ConfigMap changes.
	var words ConfigMap
	if err := r.Get(configMap.Ref(r.Namespace, "words"), &words); err != nil {
		return sdk.Action{}, sdk.Waiting("NoWords", time.Minute, err)
	}
	r.Status.Text = words.Data["hello"] + ", " + r.Spec.Who
	r.Apply(ConfigMap{
		TypeMeta: configMap.Type(),
		Metadata: sdk.ObjectMeta{Name: r.Name},
		Data:     map[string]string{"text": r.Status.Text},
	})
	return sdk.AwaitChange(), nil
}

func Example() {
	// The main function of a plugin is empty: the host calls the controllers that
	// init has registered.

	// Output:
}
