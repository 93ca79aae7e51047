package sdk_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// This file's kind has the versions v1alpha1, v1beta1 and v1, of which v1 is the hub.

type lampSpec struct {
	Color  string      `json:"color,omitempty"`
	Watts  int         `json:"watts"`
	Places []lampPlace `json:"places,omitempty"`
}

type lampPlace struct {
	Room  string `json:"room,omitempty"`
	Floor int    `json:"floor,omitempty"`
}

type lampStatus struct {
	On bool `json:"on,omitempty"`
}

// lampBetaSpec has no floors, which are kept in an annotation.
type lampBetaSpec struct {
	Colour string   `json:"colour,omitempty"`
	Watts  int      `json:"watts,omitempty"`
	Rooms  []string `json:"rooms,omitempty"`
}

type lampBetaStatus struct {
	State string `json:"state,omitempty"`
}

// lampAlphaSpec has a color alone: what else there is gets lost.
type lampAlphaSpec struct {
	Color string  `json:"color,omitempty"`
	Bad   float64 `json:"bad,omitempty"`
}

type (
	lamp      = sdk.Object[lampSpec, lampStatus]
	lampBeta  = sdk.Object[lampBetaSpec, lampBetaStatus]
	lampAlpha = sdk.Object[lampAlphaSpec, lampStatus]
)

var lampKind = sdk.Kind{APIVersion: "convert.example.com/v1", Kind: "Lamp"}

const floors = "convert.example.com/floors"

func lampFromBeta(object *lampBeta, hub *lamp) error {
	var known []int
	if text, ok := object.Annotations[floors]; ok {
		if err := sdk.Decode([]byte(text), &known); err != nil {
			return err
		}
		delete(hub.Annotations, floors)
		if object.Annotations[floors] != text {
			return errors.New("the object has changed with the hub")
		}
	}
	hub.Spec.Color, hub.Spec.Watts, hub.Status.On = object.Spec.Colour, object.Spec.Watts, object.Status.State == "on"
	for i, room := range object.Spec.Rooms {
		place := lampPlace{Room: room}
		if i < len(known) {
			place.Floor = known[i]
		}
		hub.Spec.Places = append(hub.Spec.Places, place)
	}
	return nil
}

func lampToBeta(hub *lamp, object *lampBeta) error {
	object.Spec = lampBetaSpec{Colour: hub.Spec.Color, Watts: hub.Spec.Watts}
	if hub.Status.On {
		object.Status.State = "on"
	}
	known, keep := []int{}, false
	for _, place := range hub.Spec.Places {
		object.Spec.Rooms = append(object.Spec.Rooms, place.Room)
		known, keep = append(known, place.Floor), keep || place.Floor != 0
	}
	if keep {
		text, err := sdk.Encode(known)
		object.SetAnnotation(floors, string(text))
		if hub.Annotations[floors] != "" {
			return errors.New("the hub has changed with the object")
		}
		return err
	}
	return nil
}

func lampFromAlpha(object *lampAlpha, hub *lamp) error {
	hub.Spec.Color, hub.Status = object.Spec.Color, object.Status
	hub.Name, hub.UID, hub.Finalizers = "changed in vain", "changed in vain", []string{"a/b"}
	return nil
}

func lampToAlpha(hub *lamp, object *lampAlpha) error {
	switch object.Spec.Color, object.Status = hub.Spec.Color, hub.Status; hub.Spec.Color {
	case "gray":
		return errors.New("no gray")
	case "brown":
		return sdk.Stalled("NoBrown", errors.New("no brown"))
	case "dark":
		object.Spec.Bad = math.Inf(1)
	}
	return nil
}

func init() {
	sdk.Register(sdk.Controller[lampSpec, lampStatus]{
		Name: "lamp", For: lampKind,
		Reconcile: func(*sdk.Request[lampSpec, lampStatus]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
		Convert: sdk.Convert(
			sdk.Version("v1beta1", lampFromBeta, lampToBeta),
			sdk.Version("v1alpha1", lampFromAlpha, lampToAlpha),
		),
	})
}

func lampOf(version, members string) string {
	return `{"apiVersion":"convert.example.com/` + version + `","kind":"Lamp","metadata":{"namespace":"a","name":"one"}` + members + `}`
}

func TestConversionKeepsWhatItDoesNotConvert(t *testing.T) {
	w := sdktest.New(t, "lamp")
	for _, c := range []struct{ name, object, version, want string }{
		{
			"to another version", lampOf("v1", `,"spec":{"color":"red","watts":5},"status":{"on":true}`), "v1beta1",
			lampOf("v1beta1", `,"spec":{"colour":"red","watts":5},"status":{"state":"on"}`),
		},
		{
			"from another version", lampOf("v1beta1", `,"spec":{"colour":"red","watts":5},"status":{"state":"on"}`), "v1",
			lampOf("v1", `,"spec":{"color":"red","watts":5},"status":{"on":true}`),
		},
		{
			"by way of the hub", lampOf("v1alpha1", `,"spec":{"color":"red"}`), "v1beta1",
			lampOf("v1beta1", `,"spec":{"colour":"red"}`),
		},
		{"to its own version", lampOf("v1", `,"spec": {"watts" : 1.0}`), "v1", lampOf("v1", `,"spec": {"watts" : 1.0}`)},
		{
			"metadata and other members, to the byte",
			`{"kind":"Lamp","data":{"n":1.0},"spec":{"color":"red"},"metadata":{"name":"one","managedFields":[ {"x":1e3} ],"labels":{"b":"\u0041","a":"1"}},"apiVersion":"convert.example.com/v1alpha1"}`,
			"v1beta1",
			`{"kind":"Lamp","data":{"n":1.0},"spec":{"colour":"red"},"metadata":{"name":"one","managedFields":[ {"x":1e3} ],"labels":{"b":"\u0041","a":"1"}},"apiVersion":"convert.example.com/v1beta1"}`,
		},
		{
			"an annotation that is new", lampOf("v1", `,"spec":{"watts":5,"places":[{"room":"hall","floor":2}]}`), "v1beta1",
			`{"apiVersion":"convert.example.com/v1beta1","kind":"Lamp","metadata":{"namespace":"a","name":"one","annotations":{"convert.example.com/floors":"[2]"}},"spec":{"watts":5,"rooms":["hall"]}}`,
		},
		{"without spec and status", lampOf("v1beta1", ``), "v1", lampOf("v1", ``)},
		{"with an empty spec", lampOf("v1beta1", `,"spec":{}`), "v1", lampOf("v1", `,"spec":{"watts":0}`)},
		{"with a status that is null", lampOf("v1beta1", `,"status":null`), "v1", lampOf("v1", `,"status":{}`)},
		{
			"what the host has written into the status",
			lampOf("v1", `,"status":{"observedGeneration":3,"on":true,"conditions":[{"type":"Ready","n":1.0}],"lastHandledReconcileAt":"x","lost":1}`), "v1beta1",
			lampOf("v1beta1", `,"status":{"state":"on","conditions":[{"type":"Ready","n":1.0}],"observedGeneration":3,"lastHandledReconcileAt":"x"}`),
		},
		{"that alone", lampOf("v1beta1", `,"status":{"observedGeneration":3}`), "v1", lampOf("v1", `,"status":{"observedGeneration":3}`)},
		{"without metadata", `{"apiVersion":"convert.example.com/v1","kind":"Lamp"}`, "v1beta1", `{"apiVersion":"convert.example.com/v1beta1","kind":"Lamp"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := w.Convert(c.object, c.version); string(got.Object) != c.want {
				t.Errorf("it has become\n%s, expected\n%s\n%s %s", got.Object, c.want, got.Reason, got.Message)
			}
		})
	}
}

func TestFailedConversionSaysWhy(t *testing.T) {
	w := sdktest.New(t, "lamp")
	colored := func(color string) string { return lampOf("v1", `,"spec":{"watts":1,"color":"`+color+`"}`) }
	for _, c := range []struct {
		name, object, version string
		class                 abi.Class
		reason, message       string
	}{
		{"error of the function", colored("gray"), "v1alpha1", abi.ClassRetry, "", "no gray"},
		{"its reason", colored("brown"), "v1alpha1", abi.ClassStalled, "NoBrown", "no brown"},
		{"value without JSON", colored("dark"), "v1alpha1", abi.ClassStalled, "InvalidObject", "encode the converted object: json: unsupported value: +Inf"},
		{"unknown version", colored("red"), "v2", abi.ClassStalled, "UnknownVersion", `the plugin does not convert the version "convert.example.com/v2"`},
		{"from an unknown version", lampOf("v0", ``), "v1", abi.ClassStalled, "UnknownVersion", `"convert.example.com/v0"`},
		{"from another group", strings.Replace(colored("red"), "convert.", "other.", 1), "v1alpha1", abi.ClassStalled, "UnknownVersion", `"other.example.com/v1"`},
		{"apiVersion that is a number", `{"apiVersion":1}`, "v1", abi.ClassStalled, "UnknownVersion", `""`},
		{"spec that does not fit", lampOf("v1", `,"spec":{"watts":"many"}`), "v1beta1", abi.ClassStalled, "InvalidSpec", "spec.watts: expected an integer, found string"},
		{"metadata that is a list", `{"apiVersion":"convert.example.com/v1","kind":"Lamp","metadata":[]}`, "v1beta1", abi.ClassRetry, "", "metadata: expected an object, found an array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := w.Convert(c.object, c.version).ExpectFailure(c.class, c.reason); !strings.Contains(got.Message, c.message) || got.Object != nil {
				t.Errorf("the message is %q, expected %q", got.Message, c.message)
			}
		})
	}
}

func TestRoundTripOfConversion(t *testing.T) {
	w := sdktest.New(t, "lamp")
	sdktest.RoundTrip[lampSpec, lampStatus](w, "v1", "v1beta1")
	sdktest.RoundTrip(w, "v1beta1", "v1", func(o *lampBeta) { o.Status.State = "on" })
	sdktest.RoundTrip(w, "v1alpha1", "v1beta1", func(o *lampAlpha) { o.Spec.Bad = 0 })
	w.RoundTrip(lampOf("v1", `,"spec":{"watts":5}`), "v1beta1")
}

func TestConvertOfAnotherControllerIsRefused(t *testing.T) {
	for request, want := range map[string]string{
		string(webhooks.EncodeConvertRequest(&webhooks.ConvertRequest{Controller: "widget"})): `the plugin does not convert for controller "widget"`,
		`{`: "read request: ",
	} {
		code, text := guest.Convert([]byte(request))
		result, err := webhooks.DecodeConvertResult(text)
		if err != nil || code != abi.CodeRetry || result.Error == nil || !strings.HasPrefix(result.Error.Message, want) {
			t.Errorf("%s: returned %d %s, expected %s", request, code, text, want)
		}
	}
}

func TestVersionMayBeGivenOnce(t *testing.T) {
	for _, names := range [][]string{{"v1"}, {"v2", "v2"}} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.Contains(text, "is given twice, or is that of For") {
					t.Errorf("%q: it panics with %q", names, text)
				}
			}()
			var versions []sdk.VersionOf[lampSpec, lampStatus]
			for _, name := range names {
				versions = append(versions, sdk.Version(name, lampFromAlpha, lampToAlpha))
			}
			sdk.Register(sdk.Controller[lampSpec, lampStatus]{
				Name: "lamp-twice", For: lampKind, Convert: sdk.Convert(versions...),
				Reconcile: func(*sdk.Request[lampSpec, lampStatus]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
			})
		}()
	}
}
