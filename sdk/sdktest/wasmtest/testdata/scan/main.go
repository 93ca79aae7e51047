// Command scan is a plugin for tests with two scans: one starts the Labs whose time has come, the other one
// does what the configuration requests.
package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

var labs = sdk.Kind{APIVersion: "example.com/v1", Kind: "Lab"}

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name: "scan", For: labs, Reconcile: reconcile,
		Indexes: []sdk.Index{{Name: "phase", Kind: labs, Field: "status.phase"}},
		Gauges:  []sdk.Gauge{{Index: "phase"}},
		Scans: []sdk.ScanFunc{
			sdk.Scan("due", time.Second, due),
			sdk.Scan("other", time.Minute, other),
		},
	})
}

// Spec is when a Lab starts.
type Spec struct {
	Start sdk.Time `json:"start"`
}

// Status is what has become of it.
type Status struct {
	Phase string `json:"phase,omitempty"`
	By    string `json:"by,omitempty"` // the signal that has started it
	Runs  int    `json:"runs,omitempty"`
}

// Signal is that of a scan.
type Signal struct {
	By   string `json:"by"`
	Kept int    `json:"kept,omitempty"`
}

// Config is what the scan other does.
type Config struct {
	Do string `json:"do,omitempty"`
}

// kept would count scans if memory were not reset.
var kept int

func due(s *sdk.Scanning) error {
	kept++
	pending, err := sdk.Primaries[Spec, Status](s, sdk.Query{FieldSelector: "status.phase=Pending"})
	for _, o := range pending {
		if !o.Spec.Start.Time().After(s.Now) {
			s.Signal(o.Namespace, o.Name, Signal{By: "due", Kept: kept})
		}
	}
	return err
}

func other(s *sdk.Scanning) error {
	var c Config
	if err := s.Config(&c); err != nil {
		return err
	}
	switch c.Do {
	case "fail":
		return sdk.Stalled("Wrong", errors.New("requested by the configuration"))
	case "panic":
		panic("requested by the configuration")
	case "time":
		s.Signal("default", "a", Signal{By: time.Now().UTC().Format(time.RFC3339) + " " + strconv.Itoa(s.Rand().IntN(1_000_000))})
	case "many":
		for range 10_001 {
			s.Run("default", "a")
		}
	case "large":
		s.Signal("default", "a", string(make([]byte, 5000)))
	case "log":
		s.Log.Info("scans")
		s.Run("default", "none")
		s.Run("", "a")
	}
	return nil
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	r.Status.Runs++
	if r.Status.Phase == "" {
		r.Status.Phase = "Pending"
	}
	for _, data := range r.Signals {
		var s Signal
		if err := sdk.Decode(data, &s); err != nil {
			return sdk.Action{}, err
		}
		r.Status.Phase, r.Status.By = "Running", s.By
	}
	return sdk.AwaitChange(), nil
}

func main() {}
