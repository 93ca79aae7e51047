// Command gate is a plugin that reviews and converts its objects as the text in their spec says. It
// is run several times: in the further modules the tests replace the texts below by others of the
// same length.
package main

import (
	"errors"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

// The texts that the tests replace.
const (
	name     = "gate-a"
	kind     = "GateA"
	revision = "revision-00001"
)

// spec is that of v1, which is stored.
type spec struct {
	Text string `json:"text"`
	Size int64  `json:"size,omitempty"`
}

// specV2 has other names.
type specV2 struct {
	Message string `json:"message"`
	Length  int64  `json:"length,omitempty"`
}

type status struct{}

type object = sdk.Object[spec, status]

type objectV2 = sdk.Object[specV2, status]

type configMap struct {
	Data map[string]string `json:"data"`
}

var configMaps = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin(name, "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:      "main",
		For:       sdk.Kind{APIVersion: "test.thole.dev/v1", Kind: kind},
		Reads:     []sdk.Kind{configMaps},
		Reconcile: func(*sdk.Request[spec, status]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
		Validate:  sdk.Validate(validate, sdk.OperationCreate, sdk.OperationUpdate, sdk.OperationDelete),
		Mutate:    sdk.Mutate(mutate),
		Convert:   sdk.Convert(sdk.Version("v2", fromV2, toV2)),
	})
}

func validate(r *sdk.Review, old, object *object) error {
	if object == nil {
		if old.Spec.Text == "keep" {
			return sdk.Denied("", errors.New("it is to be kept"))
		}
		return nil
	}
	switch what, rest, _ := strings.Cut(object.Spec.Text, " "); what {
	case "deny":
		return sdk.Denied("Invalid", errors.New("text: "+rest))
	case "warn":
		r.Warn(rest)
		r.Audit("seen", rest)
	case "who":
		r.Warn(r.User.Name + " " + strings.Join(r.User.Groups, ","))
	case "revision":
		r.Warn(revision)
	case "work": // for a tenth of a second
		r.Warn(revision + work())
	case "panic":
		panic("as the text says")
	case "retry":
		return sdk.Retry("Unsure", errors.New(rest))
	case "spin":
		for {
		}
	case "read":
		var found configMap
		if err := r.Get(configMaps.Ref("", rest), &found); err != nil {
			return err
		}
		r.Warn("found " + found.Data["text"])
	}
	return nil
}

// work computes for a while what no compiler knows, and returns "".
func work() string {
	x := uint64(1)
	for range 50_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		return "x"
	}
	return ""
}

func mutate(_ *sdk.Review, _, object *object) error {
	if object.Spec.Text == "rename" {
		object.Name = "other" // which a review may not do
	}
	if object.Spec.Size == 0 {
		object.Spec.Size = int64(len(object.Spec.Text))
	}
	if object.Spec.Text != "plain" {
		object.SetLabel("gate", object.Spec.Text[:min(len(object.Spec.Text), 3)])
	}
	return nil
}

func fromV2(from *objectV2, to *object) error {
	if from.Spec.Message == "unconvertible" {
		return errors.New("the message says so")
	}
	to.Spec = spec{Text: from.Spec.Message, Size: from.Spec.Length}
	return nil
}

func toV2(from *object, to *objectV2) error {
	if from.Spec.Text == "stuck" {
		return errors.New("the text says so")
	}
	to.Spec = specV2{Message: from.Spec.Text, Length: from.Spec.Size}
	return nil
}

func main() {}
