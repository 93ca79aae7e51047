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

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate
//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate crd

var labKind = sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "LabInstanceRequest"}

// The indexes by which LabInstanceRequests are found.
var (
	byContainerID = sdk.Index{Name: "container-id", Kind: labKind, Field: "status.containerId"}
	byPhase       = sdk.Index{Name: "phase", Kind: labKind, Field: "status.phase"}
)

func init() {
	sdk.Plugin("labinstance", "0.1.0")
	sdk.Register(sdk.Controller[Spec, Status]{
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
		Gauges: []sdk.Gauge{{Index: byPhase.Name}},

		Timeout: 10 * time.Second,
		Retry:   sdk.RetryPolicy{Initial: 100 * time.Millisecond, Attempts: 5}, // the first repetition is after 100 ms, the least
		Warm:    []sdk.Value{Pod{}, Config{}},
	})
}

// A LabInstanceRequest is a container that runs for a limited time. The Pod has the same name.
//
// +kubebuilder:resource:shortName=lab,categories=thole
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Start",type=string,JSONPath=`.spec.scheduledStart`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LabInstanceRequest = sdk.Object[Spec, Status]

// Spec is what is to run. The image and the command cannot be changed.
// +kubebuilder:validation:XValidation:rule="has(self.command) == has(oldSelf.command) && (!has(self.command) || self.command == oldSelf.command)",message="spec.command cannot be changed"
type Spec struct {
	// The image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.image cannot be changed"
	Image string `json:"image"`
	// The command of the container; that of the image if absent.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command,omitempty"`
	// How long the container runs, such as 90m. It may be changed while it runs.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="spec.duration must be more than 0 and at most 8760h"
	Duration sdk.Duration `json:"duration"`
	// When the container starts; at once if absent. It may be changed until then.
	// +kubebuilder:validation:MaxLength=64
	ScheduledStart sdk.Time `json:"scheduledStart,omitempty"`
}

// Status is how far the instance is. Written by the controller.
type Status struct {
	Phase Phase `json:"phase,omitempty"`
	// The container, as its runtime names it.
	ContainerID string `json:"containerId,omitempty"`
	// When the container was started.
	StartedAt sdk.Time `json:"startedAt,omitempty"`
	// When the container is stopped.
	ExpiresAt sdk.Time `json:"expiresAt,omitempty"`
	// When the instance was found to have ended. Its retention begins then.
	EndedAt sdk.Time `json:"endedAt,omitempty"`
	// Why the instance is in its phase.
	Message string `json:"message,omitempty"`
	// The type of the last event that was received for it.
	LastEvent string `json:"lastEvent,omitempty"`
}

// Phase is a phase of an instance.
// +kubebuilder:validation:Enum=Pending;Provisioning;Running;Completed;Failed;Timeout
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
