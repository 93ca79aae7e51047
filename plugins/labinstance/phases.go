package main

import (
	"errors"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// This file takes an instance through its phases.

// reconcile makes steps until the actual state allows no further one.
func reconcile(r *request) (sdk.Action, error) {
	noteReasons(r)
	found, err := currentPod(r)
	if err != nil {
		return sdk.Action{}, err
	}
	for {
		before := r.Status.Phase
		action, err := step(r, found)
		if r.Status.Phase == before {
			return action, err
		}
	}
}

// step does what is to be done in one phase. The next phase follows if it has set that.
func step(r *request, found *Pod) (sdk.Action, error) {
	switch r.Status.Phase {
	case Pending:
		return pending(r)
	case Provisioning:
		return provisioning(r, found)
	case Running:
		return running(r, found)
	case Completed, Failed, Timeout:
		return ended(r, found)
	default: // a new instance, or one whose status is lost
		r.Status.Phase = Pending
		return sdk.AwaitChange(), nil
	}
}

// pending waits for the start.
func pending(r *request) (sdk.Action, error) {
	if err := r.Spec.check(); err != nil {
		r.Status.Message = err.Error()
		return sdk.Action{}, err
	}
	if !shouldStartNow(r.Spec, r.Now) {
		r.Status.Message = "starts at " + string(r.Spec.ScheduledStart)
		return requeueAt(r, r.Spec.ScheduledStart.Time())
	}
	r.Status.Phase, r.Status.Message = Provisioning, ""
	return sdk.AwaitChange(), nil
}

// check returns an error for a spec that cannot be run, until somebody has corrected it.
func (s Spec) check() error {
	switch {
	case s.Image == "" || strings.ContainsAny(s.Image, " \t\n"):
		return sdk.Stalled("InvalidImage", errors.New("spec.image must name an image, without white space"))
	case s.Duration.Duration <= 0:
		return sdk.Stalled("InvalidDuration", errors.New("spec.duration must be more than 0, such as 90m"))
	case s.ScheduledStart != "" && s.ScheduledStart.Time().IsZero():
		return sdk.Stalled("InvalidSchedule", errors.New("spec.scheduledStart must be a time in RFC 3339 such as 2027-01-31T18:00:00Z"))
	}
	return nil
}

// provisioning creates the container, and waits until it runs.
func provisioning(r *request, found *Pod) (sdk.Action, error) {
	switch {
	case !found.exists():
		if err := r.Spec.check(); err != nil {
			return sdk.Action{}, err
		}
		r.Apply(wantedPod(r))
		r.Event(sdk.Normal, "Provisioning", "created pod "+r.Name+" with image "+r.Spec.Image)
	case !found.Metadata.ControlledBy(r.UID):
		return sdk.Action{}, sdk.Stalled("ContainerNotOurs", errors.New("pod "+r.Name+" was not created for this LabInstanceRequest: delete it, or use another name"))
	case found.Status.Phase == podRunning:
		started(r, found)
		return sdk.AwaitChange(), nil
	case found.Status.Phase == podSucceeded: // within the time of a run
		end(r, Completed, "the container has stopped"+found.reason(r))
		return sdk.AwaitChange(), nil
	case found.Status.Phase == podFailed:
		end(r, Failed, "the container has failed"+found.reason(r))
		return sdk.AwaitChange(), nil
	}
	r.Status.Message = "the container is being created"
	return sdk.Action{}, sdk.Waiting("Provisioning", 0, errors.New(r.Status.Message))
}

// started records that the container runs.
func started(r *request, found *Pod) {
	r.Status.Phase, r.Status.Message = Running, ""
	r.Status.StartedAt = found.startedAt()
	if r.Status.StartedAt == "" {
		r.Status.StartedAt = sdk.TimeOf(r.Now)
	}
	r.Event(sdk.Normal, "Started", "the container runs")
}

// running watches the container, and stops it when its time is over. The time is that of the spec, which
// may have changed. A container that is being deleted after its time, or is gone, was stopped by a run whose
// status has not been written.
func running(r *request, found *Pod) (sdk.Action, error) {
	if found.ours(r) {
		r.Status.ContainerID = found.containerID()
	}
	if d := r.Spec.Duration.Duration; d > 0 {
		r.Status.ExpiresAt = sdk.TimeOf(r.Status.StartedAt.Time().Add(d))
	}
	stopped := !found.ours(r) || found.stopped()
	deleted := !found.ours(r) || found.Metadata.Deleting()
	switch {
	case isExpired(r.Status, r.Now) && (deleted || !stopped):
		end(r, Timeout, "stopped: its time ended at "+string(r.Status.ExpiresAt))
	case stopped:
		end(r, Completed, "the container has stopped"+found.reason(r))
	default:
		return requeueAt(r, r.Status.ExpiresAt.Time())
	}
	return sdk.AwaitChange(), nil
}

// end records the end of an instance.
func end(r *request, phase Phase, message string) {
	r.Status.Phase, r.Status.Message, r.Status.EndedAt = phase, message, sdk.TimeOf(r.Now)
	eventType := sdk.Normal
	if phase != Completed {
		eventType = sdk.Warning
	}
	r.Event(eventType, string(phase), message)
}

// ended stops a container whose time is over, and removes the instance after its retention.
func ended(r *request, found *Pod) (sdk.Action, error) {
	if r.Status.Phase == Timeout && found.ours(r) && !found.Metadata.Deleting() {
		r.Delete(found.ref())
	}
	config, err := configOf(r.Run)
	if err != nil {
		return sdk.Action{}, err
	}
	if r.Status.EndedAt.Time().IsZero() { // somebody has removed it
		r.Status.EndedAt = sdk.TimeOf(r.Now)
	}
	if !isOver(r.Status, config.Retention.Duration, r.Now) {
		return requeueAt(r, r.Status.EndedAt.Time().Add(config.Retention.Duration))
	}
	ref := labKind.Ref(r.Namespace, r.Name)
	ref.UID = r.UID
	r.Delete(ref)
	r.Log.Info("deleted after its retention", "phase", string(r.Status.Phase))
	return sdk.AwaitChange(), nil
}

// cleanup stops the container before the LabInstanceRequest is removed.
func cleanup(r *request) error {
	found, err := currentPod(r)
	if err != nil {
		return err
	}
	if !found.ours(r) {
		return nil
	}
	if !found.Metadata.Deleting() {
		r.Delete(found.ref())
	}
	return sdk.Waiting("ContainerStopping", 5*time.Second, errors.New("waiting for pod "+r.Name+" to terminate"))
}

// maxRequeue is the longest time after which the next run is requested: the ABI has a limit of 100
// years.
const maxRequeue = 365 * 24 * time.Hour

// requeueAt ends a run with another one at that time.
func requeueAt(r *request, at time.Time) (sdk.Action, error) {
	return sdk.RequeueAfter(min(at.Sub(r.Now), maxRequeue)), nil
}

// noteReasons logs what has made the object run beside its own changes, and keeps the last event. Nothing
// depends on it: the phases follow from the actual state.
func noteReasons(r *request) {
	for _, signal := range r.Signals {
		var due string
		if sdk.Decode(signal, &due) == nil {
			r.Log.Info("found by a scan", "due", due)
		}
	}
	for e := range r.Received() {
		r.Status.LastEvent = e.Type
		r.Log.Info("received an event", "type", e.Type, "source", e.Source, "id", e.ID)
	}
}
