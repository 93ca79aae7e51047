// Command daemon is a plugin for tests whose objects have a daemon, which does what the
// spec requests.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

var maps = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

var byOwner = sdk.IndexBy("by-owner", maps, func(x *sdk.Indexing) error {
	var m ConfigMap
	err := x.Object(&m)
	if owner := m.Metadata.Labels["owner"]; owner != "" {
		x.Add(owner, nil)
	}
	return err
})

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name: "daemon", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"},
		Reads: []sdk.Kind{maps}, Indexes: []sdk.Index{byOwner},
		Reconcile: reconcile,
		Daemon:    sdk.Daemon(step, sdk.DaemonSelector("!off")),
	})
}

// Spec is what the daemon does.
type Spec struct {
	Do string `json:"do,omitempty"`
}

// Status is what it has signalled last.
type Status struct {
	Steps int    `json:"steps,omitempty"`
	Count int    `json:"count,omitempty"`
	Text  string `json:"text,omitempty"`
}

// State is what a daemon keeps.
type State struct {
	Steps int `json:"steps"`
}

// Signal is what it signals.
type Signal struct {
	Steps int    `json:"steps"`
	Count int    `json:"count"`
	Text  string `json:"text,omitempty"`
}

// ConfigMap is one that is read.
type ConfigMap struct {
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

// kept would keep steps between calls if memory were not reset.
var kept int

func step(d *sdk.DaemonStep[Spec, Status], state *State) error {
	kept++
	state.Steps++
	if d.Stopping() {
		d.Log.Info("stops", "steps", state.Steps)
		return nil
	}
	d.Wait(sdk.ObjectChange(), sdk.ReadChange(), sdk.After(time.Minute))
	s := Signal{Steps: state.Steps}
	switch d.Spec.Do {
	case "end":
		d.End()
	case "fail":
		return sdk.Stalled("Wrong", errors.New("requested by the spec"))
	case "panic":
		panic("requested by the spec")
	case "keep":
		s.Count = kept
	case "time":
		s.Text = time.Now().UTC().Format(time.RFC3339) + " " + string(rune('a'+d.Rand().IntN(26)))
	case "get":
		var m ConfigMap
		if err := d.Get(maps.Ref("", "words"), &m); err != nil && !errors.Is(err, sdk.ErrNotFound) {
			return err
		}
		s.Text = m.Data["hello"]
	default:
		items, err := d.Lookup(sdk.IndexQuery{Index: byOwner.Name, Key: d.Name})
		if err != nil {
			return err
		}
		s.Count = len(items)
	}
	d.Signal(s)
	return nil
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	for _, data := range r.Signals {
		var s Signal
		if err := sdk.Decode(data, &s); err != nil {
			return sdk.Action{}, err
		}
		r.Status = Status(s)
	}
	return sdk.AwaitChange(), nil
}

func main() {}
