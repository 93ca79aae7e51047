package object

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestWhatNeedsPatchIsRefusedOfAKindWithoutIt(t *testing.T) {
	kind, other := abi.Kind{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics"}, abi.Kind{APIVersion: "v1", Kind: "Node"}
	readOnly := Resource{Kind: kind, Polled: true, ReadOnly: true}
	withStatus := readOnly
	withStatus.Status = true
	conditions := abi.Conditions{Owned: []string{"Hot"}}
	for name, test := range map[string]struct {
		c       abi.Controller
		r       Resource
		want    string
		patches string
	}{
		"reads it":               {abi.Controller{For: other.All(), Finalizer: true, Reads: []abi.Followed{kind.All()}}, readOnly, "", "A record"},
		"is for it":              {abi.Controller{For: kind.All()}, readOnly, "", ""},
		"finalizer":              {abi.Controller{For: kind.All(), Finalizer: true}, readOnly, "Cleanup", ""},
		"a capability":           {abi.Controller{For: kind.All()}, readOnly, "A record", "A record"},
		"conditions":             {abi.Controller{For: kind.All(), Conditions: conditions}, readOnly, "Conditions", ""},
		"conditions in a status": {abi.Controller{For: kind.All(), Conditions: conditions}, withStatus, "", ""},
		"owns it":                {abi.Controller{For: other.All(), Owns: []abi.Followed{kind.All()}}, readOnly, "the entry in Owns", "A record"},
		"the whole status":       {abi.Controller{For: kind.All(), StatusOwner: abi.StatusOwnerGuest}, withStatus, "", ""},
		"can be patched":         {abi.Controller{For: kind.All(), Finalizer: true}, Resource{Kind: kind, Polled: true}, "", "A record"},
	} {
		test.c.Name = "c"
		err := test.r.Cannot(&test.c, test.patches)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), `controller "c": `+test.want+" cannot be used with metrics.k8s.io/v1beta1 NodeMetrics") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheGuestOwnsNoStatusWithoutASubresource(t *testing.T) {
	kind := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	c := abi.Controller{Name: "c", For: kind.All(), StatusOwner: abi.StatusOwnerGuest}
	err := Resource{Kind: kind}.Cannot(&c, "")
	if want := `controller "c": StatusOwner "guest" cannot be used with example.com/v1 Widget, which has no subresource status: remove it from the controller, or add the subresource to the CustomResourceDefinition`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := (Resource{Kind: kind, Status: true}).Cannot(&c, ""); err != nil {
		t.Error(err)
	}
	if err := (Resource{Kind: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}}).Cannot(&c, ""); err != nil {
		t.Errorf("of another kind: %v", err)
	}
}
