// Command agenda is a plugin whose scan starts the Tasks whose time has come. A second scan marks those
// that have run.
package main

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Start sdk.Time `json:"start"`
	Mode  string   `json:"mode,omitempty"` // fail or panic: what the scan does that finds the Task
}

type status struct {
	Phase    string `json:"phase,omitempty"` // Pending, Running or Archived
	Compiler string `json:"compiler,omitempty"`
	Runs     int    `json:"runs,omitempty"` // since it was started, for a signal
}

type config struct {
	Archive bool `json:"archive,omitempty"`
}

var taskKind = sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Task"}

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "agenda", For: taskKind, Reconcile: reconcile,
		Indexes: []sdk.Index{{Name: "phase", Kind: taskKind, Field: "status.phase"}},
		Scans:   []sdk.ScanFunc{sdk.Scan("due", time.Second, due), sdk.Scan("archive", 2*time.Second, archive)},
		Gauges:  []sdk.Gauge{{Index: "phase"}},
	})
}

// scans is part of the memory, which no scan finds as another one has left it.
var scans int

func due(s *sdk.Scanning) error {
	if scans++; scans > 1 && runtime.Compiler == "tinygo" {
		return errors.New("a scan has found the memory of another one")
	}
	pending, err := sdk.Primaries[spec, status](s, sdk.Query{FieldSelector: "status.phase=Pending"})
	for _, o := range pending {
		switch {
		case o.Spec.Start.Time().After(s.Now):
		case o.Spec.Mode == "fail":
			return sdk.Stalled("Told", errors.New("it was told to fail"))
		case o.Spec.Mode == "panic":
			panic("it was told to")
		default:
			s.Signal(o.Namespace, o.Name, "start")
		}
	}
	return err
}

func archive(s *sdk.Scanning) error {
	var c config
	if err := s.Config(&c); err != nil || !c.Archive {
		return err
	}
	running, err := sdk.Primaries[spec, status](s, sdk.Query{FieldSelector: "status.phase=Running"})
	for _, o := range running {
		s.Signal(o.Namespace, o.Name, "archive")
	}
	return err
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	if r.Status.Phase == "" {
		r.Status.Phase = "Pending"
	}
	var signals []string
	for _, data := range r.Signals {
		var signal string
		if err := sdk.Decode(data, &signal); err != nil {
			return sdk.Action{}, err
		}
		signals = append(signals, signal)
	}
	if slices.Contains(signals, "start") && r.Status.Phase == "Pending" {
		r.Status.Phase, r.Status.Compiler = "Running", runtime.Compiler
		r.Status.Runs++
	}
	if slices.Contains(signals, "archive") {
		r.Status.Phase = "Archived"
	}
	return sdk.AwaitChange(), nil
}

func main() {}
