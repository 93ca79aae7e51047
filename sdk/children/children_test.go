package children_test

import (
	"reflect"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

// pod names a pod.
func pod(name string) sdk.Ref {
	return sdk.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name, UID: "uid-" + name}
}

func TestIntentsHaveTheirOptions(t *testing.T) {
	r := &sdk.Run{}
	pods := children.Group{Name: "pods", Condition: "ReplicaFailure"}
	object := sdk.Raw(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`)
	pods.Apply(r, object, children.Create())
	r.Apply(object, children.Replace())
	children.Adopt(r, pod("orphan"))
	pods.Adopt(r, pod("other"))
	children.Release(r, pod("stranger"))
	pods.Delete(r, pod("surplus"), children.Propagate(children.Orphan), children.GracePeriod(0), children.AtVersion("7"))

	var got abi.Result
	r.Intend(func(out *abi.Result) { got = *out })
	seconds := int64(0)
	want := abi.Result{
		Apply: []abi.Apply{
			{Object: object, Create: true, Group: "pods"},
			{Object: object, Replace: true},
			{Object: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"orphan","namespace":"default","uid":"uid-orphan"}}`), Adopt: true},
			{Object: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other","namespace":"default","uid":"uid-other"}}`), Adopt: true, Group: "pods"},
		},
		Release: []abi.Ref{pod("stranger")},
		Delete: []abi.Delete{{
			Ref: pod("surplus"), Propagation: abi.PropagationOrphan, GracePeriodSeconds: &seconds, ResourceVersion: "7", Group: "pods",
		}},
		Groups: []abi.Group{{Name: "pods", Condition: "ReplicaFailure"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the intents are\n%s, want\n%s", abi.EncodeResult(&got), abi.EncodeResult(&want))
	}
}

func TestAGroupIsDeclaredOnceAndOnlyForItsCondition(t *testing.T) {
	r := &sdk.Run{}
	pods := children.Group{Name: "pods", Condition: "ReplicaFailure"}
	pods.Declare(r)
	pods.Delete(r, pod("surplus"))
	pods.Event(r, sdk.Normal, "Deleted", "surplus")
	children.Group{Name: "services"}.Event(r, sdk.Warning, "None", "no service")

	var got abi.Result
	r.Intend(func(out *abi.Result) { got = *out })
	want := abi.Result{
		Delete: []abi.Delete{{Ref: pod("surplus"), Group: "pods"}},
		Events: []abi.Event{
			{Type: abi.EventNormal, Reason: "Deleted", Message: "surplus", Group: "pods"},
			{Type: abi.EventWarning, Reason: "None", Message: "no service", Group: "services"},
		},
		Groups: []abi.Group{{Name: "pods", Condition: "ReplicaFailure"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the intents are\n%s, want\n%s", abi.EncodeResult(&got), abi.EncodeResult(&want))
	}
}
