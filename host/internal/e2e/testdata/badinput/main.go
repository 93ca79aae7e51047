// Command badinput is a plugin whose runs fail in the way that the field mood of
// their object names.
package main

import (
	"strings"
	"unsafe"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Mood    string `json:"mood"`
	Ballast string `json:"ballast,omitempty"`
}

type status struct {
	Level  string `json:"level,omitempty"`
	Weight int    `json:"weight,omitempty"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("mood", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:      "mood",
		For:       sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Mood"},
		Owns:      []sdk.Kind{kind},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	r.Status.Level, r.Status.Weight = "low", len(r.Spec.Ballast)
	key, value := "mood", r.Spec.Mood
	switch r.Spec.Mood {
	case "garbage":
		write("\x00\xff no result")
	case "unknown field":
		write(`{"result":"success","aply":[]}`)
	case "panic":
		panic("this mood is too bad")
	case "child refused":
		key = "not a key"
	case "status refused":
		r.Status.Level = "middling"
	case "huge child":
		value = strings.Repeat("x", 1_000_000)
	case "child too large":
		value = strings.Repeat("x", 1<<20+1)
	case "result too large":
		value = strings.Repeat("x", 2<<20)
	}
	r.Apply(configMap{
		TypeMeta: kind.Type(),
		Metadata: sdk.ObjectMeta{Name: r.Name},
		Data:     map[string]string{key: value},
	})
	return sdk.AwaitChange(), nil
}

//go:wasmimport thole/v1 output
func output(at unsafe.Pointer, size uint32)

// write outputs a result before the SDK does.
func write(text string) { output(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text))) }

func main() {}
