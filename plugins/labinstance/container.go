package main

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

// This file has the container of an instance: the only one of a Pod of the same name.

var podKind = sdk.Kind{APIVersion: "v1", Kind: "Pod"}

// Phases of a Pod.
const (
	podRunning   = "Running"
	podSucceeded = "Succeeded"
	podFailed    = "Failed"
)

// Pod has the fields of a Pod that this plugin uses.
type Pod struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     PodSpec        `json:"spec"`
	Status   PodStatus      `json:"status,omitzero"`
}

// PodSpec is the spec of a Pod.
type PodSpec struct {
	Containers    []Container `json:"containers"`
	RestartPolicy string      `json:"restartPolicy,omitempty"`
	// AutomountServiceAccountToken is false: a lab is no part of the cluster.
	AutomountServiceAccountToken *bool `json:"automountServiceAccountToken,omitempty"`
}

// Container is a container of a Pod.
type Container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
}

// PodStatus is the status of a Pod.
type PodStatus struct {
	Phase             string            `json:"phase,omitempty"`
	Reason            string            `json:"reason,omitempty"`
	ContainerStatuses []ContainerStatus `json:"containerStatuses,omitempty"`
}

// ContainerStatus is the status of a container.
type ContainerStatus struct {
	ContainerID string         `json:"containerID,omitempty"`
	State       ContainerState `json:"state,omitzero"`
}

// ContainerState is one of these.
type ContainerState struct {
	Running    *ContainerRunning    `json:"running,omitempty"`
	Terminated *ContainerTerminated `json:"terminated,omitempty"`
}

// ContainerRunning is a container that runs.
type ContainerRunning struct {
	StartedAt sdk.Time `json:"startedAt,omitempty"`
}

// ContainerTerminated is a container that has stopped.
type ContainerTerminated struct {
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason,omitempty"`
}

// currentPod reads the Pod. It returns an empty one if it does not exist.
func currentPod(r *request) (*Pod, error) {
	found := &Pod{}
	err := r.Get(podKind.Ref(r.Namespace, r.Name), found)
	if errors.Is(err, sdk.ErrNotFound) {
		return &Pod{}, nil
	}
	return found, err
}

// wantedPod returns the Pod of the spec. It is not started again when it has ended.
func wantedPod(r *request) *Pod {
	mounted := false
	return &Pod{
		TypeMeta: podKind.Type(),
		Metadata: sdk.ObjectMeta{
			Namespace: r.Namespace, Name: r.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "labinstance"},
		},
		Spec: PodSpec{
			Containers:    []Container{{Name: "lab", Image: r.Spec.Image, Command: r.Spec.Command}},
			RestartPolicy: "Never", AutomountServiceAccountToken: &mounted,
		},
	}
}

func (p *Pod) exists() bool { return p.Metadata.UID != "" }

// ours reports whether the Pod exists and was created for the object of the run.
func (p *Pod) ours(r *request) bool { return p.exists() && p.Metadata.ControlledBy(r.UID) }

// stopped reports whether the container has stopped for good.
func (p *Pod) stopped() bool { return p.Status.Phase == podSucceeded || p.Status.Phase == podFailed }

// ref returns a reference with the UID, which is not valid for a later Pod of that name.
func (p *Pod) ref() sdk.Ref {
	ref := podKind.Ref(p.Metadata.Namespace, p.Metadata.Name)
	ref.UID = p.Metadata.UID
	return ref
}

// container returns the status of the container, an empty one before it has one.
func (p *Pod) container() ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

func (p *Pod) containerID() string { return p.container().ContainerID }

// startedAt returns when the container was started, "" if that is not known.
func (p *Pod) startedAt() sdk.Time {
	if running := p.container().State.Running; running != nil {
		return running.StartedAt
	}
	return ""
}

// reason returns why the container does not run, as the end of a sentence.
func (p *Pod) reason(r *request) string {
	terminated := p.container().State.Terminated
	switch {
	case !p.ours(r):
		return ": its pod was deleted"
	case terminated != nil:
		return ": " + terminated.Reason + ", exit code " + strconv.Itoa(terminated.ExitCode)
	case p.Status.Reason != "":
		return ": " + p.Status.Reason
	}
	return ""
}
