// Package calls has handlers that create a ConfigMap for each call that the host has performed,
// so that a script can count them. A handler fails if fails of the object has its name, until the
// ConfigMap NAME-repaired has the object's text for that name: a repair is no change of the object.
package calls

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

type spec struct {
	Text  string `json:"text,omitempty"`
	Scale int    `json:"scale,omitempty"`
	Label string `json:"label,omitempty"` // "patches" gives the object a label with this value
}

type status struct {
	Change string `json:"change,omitempty"` // of the last run
}

// compiler is what has built the plugin.
var compiler = map[string]string{"gc": "go", "tinygo": "tinygo"}[runtime.Compiler]

// none is the status of objects that have none, and the spec.
type none struct{}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

var configMaps = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

// Register registers the controllers of a plugin with a name and a target condition.
func Register(name, target string) {
	sdk.Plugin(name, "")
	conditions := sdk.Conditions{Target: target}
	registerTraces(conditions)
	registerBares(conditions)
	registerNotes()
}

// registerTraces registers the handlers of a kind with status.
func registerTraces(conditions sdk.Conditions) {
	var h handlers.Handlers[spec, status]
	h.OnEvent("event", func(c *handlers.Call[spec, status]) error {
		c.Status.Change = string(c.Reason)
		return nil
	})
	add(&h, "spec.scale")
	h.OnField("patches", "spec.label", func(c *handlers.Call[spec, status]) error {
		c.Patch(map[string]any{"metadata": map[string]any{"labels": map[string]string{"patched": c.Spec.Label}}})
		return call(c)
	})
	sdk.Register(h.Controller(sdk.Controller[spec, status]{
		Name: "trace", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Trace"},
		Owns: []sdk.Kind{configMaps}, Conditions: conditions,
	}))
}

// registerBares registers those of a kind without /status, whose schema keeps nothing else.
func registerBares(conditions sdk.Conditions) {
	var h handlers.Handlers[spec, none]
	add(&h, "spec.scale")
	sdk.Register(h.Controller(sdk.Controller[spec, none]{
		Name: "bare", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Bare"},
		Owns: []sdk.Kind{configMaps}, Conditions: conditions,
	}))
}

// registerNotes registers those of a kind without generation, spec and status: ConfigMaps with
// the label note, as NAME-repaired must have, too.
func registerNotes() {
	var h handlers.Handlers[none, none]
	add(&h, "data.scale")
	sdk.Register(h.Controller(sdk.Controller[none, none]{
		Name: "note", For: configMaps,
		Writes: []sdk.Kind{configMaps},
		Select: sdk.Select(sdk.Followed{Kind: configMaps, Selector: sdk.Selector{LabelSelector: "note"}}),
	}))
}

// add adds handlers of each cause, several of some.
func add[Spec, Status any](h *handlers.Handlers[Spec, Status], field string) {
	for _, added := range []*handlers.Handler[Spec, Status]{
		h.OnCreate("create1", call[Spec, Status]),
		h.OnCreate("create2", call[Spec, Status]),
		h.OnUpdate("update1", call[Spec, Status]),
		h.OnUpdate("update2", call[Spec, Status]),
		h.OnField("field", field, call[Spec, Status]),
		h.OnDelete("delete1", call[Spec, Status]),
		h.OnDelete("delete2", call[Spec, Status]),
		h.OnResume("resume", call[Spec, Status]),
	} {
		added.Backoff(time.Second)
	}
}

// content is what the handlers read of an object of any kind.
type content struct {
	Text      string `json:"text"`
	Fails     string `json:"fails"`
	Permanent string `json:"permanent"`
}

// call is the function of all handlers.
func call[Spec, Status any](c *handlers.Call[Spec, Status]) error {
	var object struct{ Spec, Data content }
	if err := json.Unmarshal(c.Object(), &object); err != nil {
		return err
	}
	of := object.Spec
	if of == (content{}) {
		of = object.Data
	}
	var repaired configMap
	err := c.Get(configMaps.Ref(c.Namespace, c.Name+"-repaired"), &repaired)
	if err != nil && !errors.Is(err, sdk.ErrNotFound) {
		return err
	}
	switch {
	case strings.Contains(of.Permanent, c.Handler):
		trace(c, "failed")
		return handlers.Permanent(errors.New("it is to fail for good"))
	case strings.Contains(of.Fails, c.Handler) && repaired.Data[c.Handler] != of.Text:
		trace(c, "failed")
		return errors.New("it is to fail")
	}
	trace(c, "ok")
	return nil
}

// trace creates the ConfigMap of a call.
func trace[Spec, Status any](c *handlers.Call[Spec, Status], outcome string) {
	diff := ""
	for _, item := range c.Diff() {
		diff += string(item.Op)
		for _, name := range item.Path {
			diff += "." + name
		}
		diff += " " + string(item.New) + "\n"
	}
	c.Apply(configMap{
		TypeMeta: configMaps.Type(),
		Metadata: sdk.ObjectMeta{
			Name: c.Name + "-" + c.Handler + "-" + hex.EncodeToString(c.Seed[:6]),
			Labels: map[string]string{
				"of": c.Name, "handler": c.Handler, "outcome": outcome,
				"compiler": compiler, "reason": string(c.Reason),
			},
		},
		Data: map[string]string{"diff": diff, "retry": strconv.Itoa(c.Retry)},
	})
}
