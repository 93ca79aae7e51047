package main

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Status is the status of a ReplicaSet. It is written by the plugin alone.
type Status struct {
	Replicas             int32       `json:"replicas"`
	FullyLabeledReplicas int32       `json:"fullyLabeledReplicas,omitempty"`
	ReadyReplicas        int32       `json:"readyReplicas,omitempty"`
	AvailableReplicas    int32       `json:"availableReplicas,omitempty"`
	TerminatingReplicas  *int32      `json:"terminatingReplicas,omitempty"`
	ObservedGeneration   int64       `json:"observedGeneration,omitempty"`
	Conditions           []Condition `json:"conditions,omitempty"`
}

// Condition is a condition of a ReplicaSet. It has no observedGeneration.
type Condition struct {
	Type               string   `json:"type"`
	Status             string   `json:"status"`
	LastTransitionTime sdk.Time `json:"lastTransitionTime,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	Message            string   `json:"message,omitempty"`
}

// replicaFailure is True while pods cannot be created or deleted.
const replicaFailure = "ReplicaFailure"

// longestWait bounds the time until another pod is available: a host takes at most 100 years, and a pod can be
// ready since any year. A run that comes too early does no harm.
const longestWait = 365 * 24 * time.Hour

// setStatus records what this run has found. It returns the time until another pod is available, 0 if there
// is none to wait for. Since when a pod is ready may be unknown: then minReadySeconds later it may be known.
func setStatus(r *request, pods podSet) (next time.Duration) {
	terminating, minReady := int32(len(pods.terminating)), time.Duration(r.Spec.MinReadySeconds)*time.Second
	s := Status{
		Replicas: int32(len(pods.active)), TerminatingReplicas: &terminating, ObservedGeneration: r.Generation,
		Conditions: r.Status.Conditions,
	}
	for _, pod := range pods.active {
		if hasLabels(pod.Metadata.Labels, r.Spec.Template.Metadata.Labels) {
			s.FullyLabeledReplicas++
		}
		since, ready := pod.readySince()
		if !ready {
			continue
		}
		s.ReadyReplicas++
		switch wait := since.Add(minReady).Sub(r.Now); {
		case minReady == 0 || !since.IsZero() && wait <= 0:
			s.AvailableReplicas++
		case since.IsZero():
		case next == 0 || wait < next:
			next = wait
		}
	}
	if next == 0 && s.AvailableReplicas < s.ReadyReplicas {
		next = minReady
	}
	missing := 0 // what is being deleted misses none
	if !r.Deleting() {
		missing = wanted(r) - len(pods.active)
	}
	s.setFailure(r, missing)
	r.Status = s
	return min(next, longestWait)
}

// hasLabels reports whether labels has all of wanted.
func hasLabels(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if have, ok := labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// setFailure sets the condition if the last run could not create pods and some are still missing, or could not
// delete any and there are still too many; else it removes it. No later run would: a status wakes nothing. A
// condition that is there stays as it is: the messages of further tries differ in the names of pods alone.
func (s *Status) setFailure(r *request, missing int) {
	failure := lastFailure(r.Previous)
	if failure != nil {
		r.Event(sdk.Warning, failure.reason, failure.event)
	}
	at := slices.IndexFunc(s.Conditions, func(c Condition) bool { return c.Type == replicaFailure })
	switch unmet := failure != nil && missing != 0 && (missing > 0) == (failure.reason == failedCreate); {
	case unmet && at < 0:
		s.Conditions = append(s.Conditions, Condition{
			Type: replicaFailure, Status: sdk.True, LastTransitionTime: sdk.TimeOf(r.Now),
			Reason: failure.reason, Message: failure.message,
		})
	case !unmet && at >= 0:
		s.Conditions = slices.Delete(s.Conditions, at, at+1)
	}
}

// The reasons of [replicaFailure], and of Events.
const (
	failedCreate = "FailedCreate"
	failedDelete = "FailedDelete"
)

// failure is why pods could not be created or deleted.
type failure struct{ reason, event, message string }

// lastFailure returns the failure of the last run, nil if there was none. That nothing can be created in a
// namespace that is being deleted is none: the ReplicaSet is deleted with it. Of adoptions and releases that
// fail the host tells.
func lastFailure(previous *sdk.Previous) *failure {
	if previous == nil {
		return nil
	}
	for _, f := range previous.Failures {
		switch verb, _, _ := strings.Cut(f.Group, "-"); {
		case f.Reason == "NamespaceTerminating":
		case verb == toDelete:
			return &failure{reason: failedDelete, event: "Error deleting: " + f.Message, message: "unable to delete pods: " + f.Message}
		case verb == toCreate:
			return &failure{reason: failedCreate, event: "Error creating: " + f.Message, message: f.Message}
		}
	}
	return nil
}
