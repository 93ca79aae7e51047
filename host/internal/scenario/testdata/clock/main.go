// Command clock is a plugin with two timers. It counts in the status of a Clock how often
// each was due since spec.phase was changed, up to enough.
package main

import (
	"time"

	"github.com/thole-dev/thole/sdk"
)

// enough is up to where is counted: a status that does not change can be expected.
const enough = 2

const interval = 10 * time.Second // of the timer tick

type spec struct {
	Phase string `json:"phase,omitempty"`
}

type status struct {
	Phase string `json:"phase,omitempty"`
	Ticks int    `json:"ticks,omitempty"`
	Tocks int    `json:"tocks,omitempty"`
	Late  string `json:"late,omitempty"` // by how much a tick missed the grid, if that is half of the interval
}

type request = sdk.Request[spec, status]

func init() {
	sdk.Register(sdk.Controller[spec, status]{
		Name: "clock", For: sdk.Kind{APIVersion: "scenario.thole.dev/v1", Kind: "Clock"},
		Timers: []sdk.Timer{
			{Name: "tick", Interval: interval, Sharp: true},
			{Name: "tock", Interval: time.Second, InitialDelay: time.Second},
		},
		Reconcile: reconcile,
	})
}

func reconcile(r *request) (sdk.Action, error) {
	if r.Status.Phase != r.Spec.Phase {
		r.Status = status{Phase: r.Spec.Phase, Late: r.Status.Late}
		return sdk.AwaitChange(), nil
	}
	if r.Due("tick") {
		r.Status.Ticks = min(r.Status.Ticks+1, enough)
		if late := r.Now.Sub(r.CreationTimestamp.Time()) % interval; late > interval/2 {
			r.Status.Late = late.String()
		}
	}
	if r.Due("tock") {
		r.Status.Tocks = min(r.Status.Tocks+1, enough)
	}
	return sdk.AwaitChange(), nil
}

func main() {}
