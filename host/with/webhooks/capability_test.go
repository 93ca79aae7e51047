package webhooks

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
)

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
