package webhooks

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/object"
)

func TestRulesOfWebhooks(t *testing.T) {
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	served := func(kind abi.Kind) (object.Resource, bool) {
		return object.Resource{GVR: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}}, kind == widget
	}
	of := func(name string, kind abi.Kind, w contract.Webhooks) abi.Controller {
		return abi.Controller{Name: name, For: kind.All(), Sections: []abi.Section{w.Section()}}
	}
	create := []contract.Operation{contract.OperationCreate}
	m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{
		of("a", widget, contract.Webhooks{Validate: create, Convert: true}), of("b", widget, contract.Webhooks{Mutate: create}),
		of("c", abi.Kind{APIVersion: "unknown.dev/v1", Kind: "Unknown"}, contract.Webhooks{Convert: true}),
	}}
	var got []string
	for _, r := range rules(m, served) {
		got = append(got, fmt.Sprint(r.Group, "/", r.Resource, " ", r.Name, " ", r.Verbs))
	}
	if want := []string{
		"admissionregistration.k8s.io/mutatingwebhookconfigurations thole-p [get create patch delete]",
		"admissionregistration.k8s.io/validatingwebhookconfigurations thole-p [get create patch delete]",
		"apiextensions.k8s.io/customresourcedefinitions widgets.example.com [get watch patch]",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if got := rules(&abi.Manifest{Controllers: []abi.Controller{{For: widget.All()}}}, served); got != nil {
		t.Errorf("without: %v", got)
	}
}

func TestWebhooksOfAControllerAreShown(t *testing.T) {
	if got := describe(&abi.Controller{}); got != "" {
		t.Errorf("without: %q", got)
	}
	for want, w := range map[string]contract.Webhooks{
		"validates CREATE, DELETE": {Validate: []contract.Operation{contract.OperationCreate, contract.OperationDelete}},
		"validates CREATE; mutates UPDATE; converts between versions": {
			Validate: []contract.Operation{contract.OperationCreate}, Mutate: []contract.Operation{contract.OperationUpdate}, Convert: true,
		},
	} {
		if got := describe(&abi.Controller{Sections: []abi.Section{w.Section()}}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
