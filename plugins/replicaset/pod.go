package main

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Pod is the part of a pod that the controller reads.
type Pod struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     PodSpec        `json:"spec"`
	Status   PodStatus      `json:"status"`
}

// PodSpec is the part of a pod's spec that the controller reads.
type PodSpec struct {
	NodeName       string      `json:"nodeName"`
	InitContainers []Container `json:"initContainers"` // read by sidecarRestarts alone
}

// Container is the part of an init container that the controller reads.
type Container struct {
	Name          string `json:"name"`
	RestartPolicy string `json:"restartPolicy"`
}

// PodStatus is the part of a pod's status that the controller reads.
type PodStatus struct {
	Phase                 string            `json:"phase"`
	Conditions            []sdk.Condition   `json:"conditions"`
	ContainerStatuses     []ContainerStatus `json:"containerStatuses"`
	InitContainerStatuses []ContainerStatus `json:"initContainerStatuses"` // read by sidecarRestarts alone
}

// ContainerStatus is how often a container was restarted.
type ContainerStatus struct {
	Name         string `json:"name"`
	RestartCount int32  `json:"restartCount"`
}

func (p *Pod) ref() sdk.Ref {
	ref := podKind.Ref(p.Metadata.Namespace, p.Metadata.Name)
	ref.UID = p.Metadata.UID
	return ref
}

// ended reports whether the pod runs no more, and never will.
func (p *Pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// controlled reports whether the pod has a controller.
func (p *Pod) controlled() bool {
	for _, owner := range p.Metadata.OwnerReferences {
		if owner.Controller {
			return true
		}
	}
	return false
}

// sidecarRestarts returns the restarts of the sidecar that was restarted most often.
func (p *Pod) sidecarRestarts() (most int32) {
	for _, c := range p.Status.InitContainerStatuses {
		if slices.Contains(p.Spec.InitContainers, Container{Name: c.Name, RestartPolicy: "Always"}) {
			most = max(most, c.RestartCount)
		}
	}
	return most
}

// restarts returns the restarts of the container that was restarted most often.
func (p *Pod) restarts() (most int32) {
	for _, c := range p.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}

// readySince returns since when a pod is ready, the zero time if its condition does not have that; false if it
// is not ready.
func (p *Pod) readySince() (since time.Time, ready bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == sdk.True {
			return c.LastTransitionTime.Time(), true
		}
	}
	return time.Time{}, false
}
