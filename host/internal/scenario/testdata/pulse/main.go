// Command pulse is a plugin whose daemon watches the ConfigMap <name>-feed of a Pulse. It signals
// what it has seen, and Reconcile writes that into the status.
package main

import (
	"errors"
	"runtime"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Mode string `json:"mode,omitempty"` // busy, fail, panic or spin; else the daemon waits for its feed
}

type status struct {
	Starts   int    `json:"starts,omitempty"`
	Stops    int    `json:"stops,omitempty"`
	Steps    int    `json:"steps,omitempty"` // of the daemon, up to enough
	Text     string `json:"text,omitempty"`  // of the feed
	By       string `json:"by,omitempty"`    // the event because of which the daemon has read it
	Compiler string `json:"compiler,omitempty"`
}

// enough is up to where is counted: a status that does not change can be expected.
const enough = 3

// seen is the state of the daemon.
type seen struct {
	Steps int    `json:"steps"`
	Text  string `json:"text"`
}

// news is a signal.
type news struct {
	seen
	Event sdk.DaemonEvent `json:"event"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var configMapKind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "pulse", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Pulse"},
		Reads: []sdk.Kind{configMapKind}, Writes: []sdk.Kind{configMapKind},
		Reconcile: reconcile, Cleanup: cleanup,
		Daemon: sdk.Daemon(watchFeed, sdk.DaemonSelector("pulse!=off")),
	})
}

// steps is part of the memory, which no step finds as another one has left it.
var steps int

func watchFeed(d *sdk.DaemonStep[spec, status], state *seen) error {
	if steps++; steps > 1 && runtime.Compiler == "tinygo" {
		return errors.New("a step has found the memory of another one")
	}
	switch d.Spec.Mode {
	case "fail":
		return errors.New("it was told to fail")
	case "panic":
		panic("it was told to")
	case "busy":
		for range 5_000_000 {
			steps = steps*1_664_525 + 1_013_904_223
		}
		d.Wait(sdk.After(0))
		return nil
	case "spin":
		for {
			steps++
		}
	}
	state.Steps++
	if d.Stopping() {
		d.Signal(news{*state, sdk.DaemonStop})
		return nil
	}
	var feed configMap
	if err := d.Get(configMapKind.Ref("", d.Name+"-feed"), &feed); err != nil && !errors.Is(err, sdk.ErrNotFound) {
		return err
	}
	text := feed.Data["text"]
	if d.Woken(sdk.DaemonStart) || text != state.Text || state.Steps == enough {
		state.Text = text
		d.Signal(news{*state, d.Events[0]})
	}
	if state.Steps < enough {
		d.Wait(sdk.ReadChange(), sdk.After(200*time.Millisecond))
	} else {
		d.Wait(sdk.ReadChange(), sdk.ObjectChange())
	}
	return nil
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	for _, signal := range r.Signals {
		var n news
		if err := sdk.Decode(signal, &n); err != nil {
			return sdk.AwaitChange(), err
		}
		switch n.Event {
		case sdk.DaemonStart:
			r.Status.Starts++
			r.Status.Compiler = runtime.Compiler
		case sdk.DaemonStop:
			r.Status.Stops++
		}
		r.Status.Steps = min(n.Steps, enough)
		if n.Text != r.Status.Text {
			r.Status.Text, r.Status.By = n.Text, string(n.Event)
		}
	}
	return sdk.AwaitChange(), nil
}

// cleanup leaves a ConfigMap with what the daemon has signalled at last.
func cleanup(r *sdk.Request[spec, status]) error {
	if n := len(r.Signals); n > 0 { // one that no run had before may be among them
		r.Apply(configMap{TypeMeta: configMapKind.Type(), Metadata: sdk.ObjectMeta{Name: r.Name + "-farewell"}, Data: map[string]string{"signal": string(r.Signals[n-1])}})
	}
	return nil
}

func main() {}
