//go:build !wasip1

package guest_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

type (
	widgetSpec struct {
		Size int `json:"size,omitempty"`
	}
	widgetStatus struct {
		Size int `json:"size,omitempty"`
	}
	widget     = sdk.Request[widgetSpec, widgetStatus]
	controller = sdk.Controller[widgetSpec, widgetStatus]
)

var (
	widgetKind = sdk.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	configMap  = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	podKind    = sdk.Kind{APIVersion: "v1", Kind: "Pod"}
	nodeKind   = sdk.Kind{APIVersion: "v1", Kind: "Node"}
	secretKind = sdk.Kind{APIVersion: "v1", Kind: "Secret"}
)

// manifestOf returns the manifest of a plugin with this controller.
func manifestOf(t *testing.T, c controller) *abi.Manifest {
	t.Helper()
	guest.Fresh(t)
	c.Name, c.For = "widget", widgetKind
	if c.Reconcile == nil {
		c.Reconcile = func(*widget) (sdk.Action, error) { return sdk.AwaitChange(), nil }
	}
	sdk.Register(c)
	return guest.Manifest()
}

func TestSelectIsPartOfEachEntryOfTheKind(t *testing.T) {
	shard := sdk.Selector{LabelSelector: "shard=a", Namespaces: []string{"x", "y"}}
	node := sdk.Selector{FieldSelector: "metadata.name=n", MetadataOnly: true}
	m := manifestOf(t, controller{
		Owns: []sdk.Kind{configMap, podKind}, Reads: []sdk.Kind{nodeKind, widgetKind, secretKind},
		Select: sdk.Select(
			sdk.Followed{Kind: widgetKind, Selector: shard},
			sdk.Followed{Kind: nodeKind, Selector: node},
			sdk.Followed{Kind: podKind, Selector: sdk.Selector{MetadataOnly: true}},
		),
	})
	c := m.Controllers[0]
	for name, have := range map[string][2]any{
		"for":   {c.For, abi.Followed{Kind: widgetKind, Selector: shard}},
		"owns":  {c.Owns, []abi.Followed{configMap.All(), {Kind: podKind, Selector: abi.Selector{MetadataOnly: true}}}},
		"reads": {c.Reads, []abi.Followed{{Kind: nodeKind, Selector: node}, {Kind: widgetKind, Selector: shard}, secretKind.All()}},
	} {
		if !reflect.DeepEqual(have[0], have[1]) {
			t.Errorf("%s is %+v, want %+v", name, have[0], have[1])
		}
	}
}

func TestWatchesArePartOfTheManifest(t *testing.T) {
	watch := sdk.Watch{Followed: secretKind.All(), By: sdk.ByField, Field: "spec.secret"}
	narrow := watch
	narrow.MetadataOnly = true
	want := []sdk.Watch{watch, narrow, {Followed: sdk.Poll(secretKind, time.Minute), By: sdk.ByField, Field: "spec.secret"}}
	if have := manifestOf(t, controller{Watches: want}).Controllers[0].Watches; !reflect.DeepEqual(have, want) {
		t.Errorf("watches %+v, want %+v", have, want)
	}
}

func TestPollIsPartOfEachEntryOfTheKind(t *testing.T) {
	both := sdk.Poll(nodeKind, 1500*time.Millisecond)
	both.MetadataOnly = true
	c := manifestOf(t, controller{
		Owns: []sdk.Kind{podKind}, Reads: []sdk.Kind{nodeKind, widgetKind, secretKind},
		Select: sdk.Select(sdk.Poll(widgetKind, time.Minute), both, sdk.Poll(podKind, time.Microsecond)),
	}).Controllers[0]
	polled := func(kind sdk.Kind, ms int64) abi.Followed { return abi.Followed{Kind: kind, PollInterval: ms} }
	node := polled(nodeKind, 1500)
	node.MetadataOnly = true
	for name, have := range map[string][2]any{
		"for":   {c.For, polled(widgetKind, 60_000)},
		"owns":  {c.Owns, []abi.Followed{polled(podKind, 1)}}, // which counts as 1000
		"reads": {c.Reads, []abi.Followed{node, polled(widgetKind, 60_000), secretKind.All()}},
	} {
		if !reflect.DeepEqual(have[0], have[1]) {
			t.Errorf("%s is %+v, want %+v", name, have[0], have[1])
		}
	}
}

func TestEventsArePartOfTheManifest(t *testing.T) {
	received := []sdk.Receive{{Type: "a", DataSchema: "b"}, {Type: "c", Resolve: &sdk.Resolve{Index: "container", From: "data.id"}}}
	m := manifestOf(t, controller{
		CloudEvents: true, Receives: received,
		Indexes: []sdk.Index{{Name: "container", Kind: widgetKind, Field: "status.container"}},
	})
	text := abi.EncodeManifest(m)
	m, err := abi.DecodeManifest(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if c := m.Controllers[0]; string(c.Section("cloudEvents")) != "true" || !bytes.Equal(c.Section(receives.Name), receives.Encode(received)) {
		t.Errorf("the controller is %+v", c)
	}
}

func TestManagedIsOfThePlugin(t *testing.T) {
	if manifestOf(t, controller{}).Managed {
		t.Error("a plugin has managed children without asking for it")
	}
	sdk.Managed()
	if !guest.Manifest().Managed {
		t.Error("the manifest does not say that the children are managed")
	}
}

func TestRegisterPanicsOnASelectOfNoKind(t *testing.T) {
	for want, selected := range map[string][]sdk.Followed{
		`sdk.Register: controller "widget" selects "v1 Pod", which is in none of For, Owns and Reads`: {podKind.All()},
		`sdk.Register: controller "widget" selects "v1 Node" twice`:                                   {nodeKind.All(), widgetKind.All(), nodeKind.All()},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v", got)
				}
			}()
			manifestOf(t, controller{Reads: []sdk.Kind{nodeKind}, Select: sdk.Select(selected...)})
		})
	}
}

// TestStatusOfMetadataFails: the host would refuse the result, as a violation of the contract.
func TestStatusOfMetadataFails(t *testing.T) {
	var do func(*widget)
	manifestOf(t, controller{
		Select:    sdk.Select(sdk.Followed{Kind: widgetKind, Selector: sdk.Selector{MetadataOnly: true}}),
		Reconcile: func(r *widget) (sdk.Action, error) { do(r); return sdk.AwaitChange(), nil },
	})
	w := sdktest.New(t)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"default","name":"one"},"spec":{"size":3},"status":{"size":2}}`)
	for name, set := range map[string]func(*widget){
		"status":    func(r *widget) { r.Status.Size = 1 },
		"condition": func(r *widget) { r.SetCondition(sdk.Condition{Type: "Ready", Status: sdk.True, Reason: "Done"}) },
	} {
		do = func(r *widget) {
			r.Patch(map[string]any{"metadata": map[string]any{"labels": map[string]string{"a": name}}})
			set(r)
		}
		run := w.Reconcile("default/one").ExpectStalled("MetadataOnly").ExpectNoWrites()
		if want := "status and conditions of the primary cannot be set: Select follows only its metadata"; run.Message != want {
			t.Errorf("%s: %s", name, run.Message)
		}
	}
	do = func(r *widget) {
		if r.Name != "one" || r.Spec.Size != 0 || r.Status.Size != 0 {
			t.Errorf("the object has more than metadata: %s", r.Object())
		}
		r.Patch(map[string]any{"spec": map[string]any{"size": 4}})
	}
	w.Reconcile("default/one").ExpectWrites("patch")
}
