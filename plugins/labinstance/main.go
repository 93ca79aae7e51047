// Command labinstance is a plugin: a LabInstanceRequest runs one container for a limited time, at once
// or from a scheduled start on.
//
// It is the example of the document Resource Watcher and Reconciliation Loop Patterns. Its phases are
//
//	Pending -> Provisioning -> Running -> Completed or Timeout
//
// or, if its container ends before it is seen to run, Provisioning -> Completed or Failed.
//
// A run goes from the phase of the status as far as the actual state allows: it does the same whether
// the object has changed, its container has, a time has come, a scan has found it, or an event was received.
package main

import (
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole generate

var labKind = sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "LabInstanceRequest"}

// The indexes by which LabInstanceRequests are found.
var (
	byContainerID = sdk.Index{Name: "container-id", Kind: labKind, Field: "status.containerId"}
	byPhase       = sdk.Index{Name: "phase", Kind: labKind, Field: "status.phase"}
)

func init() {
	sdk.Plugin("labinstance", "0.1.0")
	sdk.RegisterGenerated(sdk.Controller[Spec, Status]{
		Name:      "labinstance",
		For:       labKind,
		Owns:      []sdk.Kind{podKind},
		Writes:    []sdk.Kind{labKind}, // its retention ends by its deletion
		Indexes:   []sdk.Index{byContainerID, byPhase},
		Reconcile: reconcile,
		Cleanup:   cleanup,

		CloudEvents: true,
		Receives: []sdk.Receive{
			// From whoever creates and changes requests; their subject names the object.
			{Type: "labinstancerequest.created"},
			{Type: "labinstancerequest.updated"},
			// From the runtime of the containers, which does not know the object.
			{Type: "container.started", Resolve: &sdk.Resolve{Index: byContainerID.Name, From: "data.containerId"}},
			{Type: "container.stopped", Resolve: &sdk.Resolve{Index: byContainerID.Name, From: "data.containerId"}},
		},

		Scans: []sdk.ScanFunc{
			sdk.Scan("scheduler", schedulerInterval, scheduler),
			sdk.Scan("cleanup", cleanupInterval, cleanupScan),
		},
		Gauges: []sdk.Gauge{{Name: "phase", Field: byPhase.Field}},

		Timeout: 10 * time.Second,
		Retry:   sdk.RetryPolicy{Initial: 100 * time.Millisecond, Attempts: 5}, // the first repetition is after 100 ms, the least
		Warm:    []any{Pod{}, Config{}},
	})
}

// Spec describes what is to run.
type Spec struct {
	Image          string       `json:"image"`
	Command        []string     `json:"command,omitempty"`
	Duration       sdk.Duration `json:"duration"`                 // from the start of the container
	ScheduledStart sdk.Time     `json:"scheduledStart,omitempty"` // "": at once
}

// Status is how far the instance is. The host writes conditions and observedGeneration.
type Status struct {
	Phase       Phase    `json:"phase,omitempty"`
	ContainerID string   `json:"containerId,omitempty"` // as the runtime knows it
	StartedAt   sdk.Time `json:"startedAt,omitempty"`
	ExpiresAt   sdk.Time `json:"expiresAt,omitempty"`
	EndedAt     sdk.Time `json:"endedAt,omitempty"`
	Message     string   `json:"message,omitempty"`
	LastEvent   string   `json:"lastEvent,omitempty"` // the type of the last event that was received
}

// Phase is a phase of an instance.
type Phase string

// The phases of an instance.
const (
	Pending      Phase = "Pending"      // its start is in the future
	Provisioning Phase = "Provisioning" // its container is being created
	Running      Phase = "Running"
	Completed    Phase = "Completed" // the container has stopped by itself, or was stopped
	Failed       Phase = "Failed"    // the container has failed before it was seen to run
	Timeout      Phase = "Timeout"   // the container was stopped when its time was over
)

// Config is the configuration in the policy of the plugin.
type Config struct {
	// Retention is how long a LabInstanceRequest stays after its end.
	Retention sdk.Duration `json:"retention"`
}

type request = sdk.Request[Spec, Status]

func main() {}
