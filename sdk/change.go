package sdk

import (
	"errors"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/timers"
)

// This file has the changes and timers of a request: SPEC.md, "Changes", and abi/timers/SPEC.md.

// Changes is where the host keeps what the last run that ended well was given of an object.
type Changes = abi.Changes

// The values of [Changes].
const (
	// ChangesMemory keeps it in the host. After a restart or a fail-over the first run of
	// an object is [Resumed], without the old state.
	ChangesMemory Changes = abi.ChangesMemory
	// ChangesAnnotation keeps it in an annotation of the object, without the status. It
	// costs one write for each change that was handled, and is refused for Secrets and
	// other sensitive kinds.
	ChangesAnnotation Changes = abi.ChangesAnnotation
)

// Change is how an object differs from what the last run was given that ended well. It is
// best effort: the desired state is in the object.
//
//	type Change struct {
//		Type     ChangeType
//		Old      []byte // JSON: what that run was given; nil if there was none, or the host does not have it
//		Progress []byte // JSON: what the runs since then have stored
//	}
type Change = abi.Change

// ChangeType is the type of a [Change].
type ChangeType = abi.ChangeType

// The values of [ChangeType]. The first one that applies counts: Deleted, Created, Resumed,
// Updated, StatusUpdated, Resynced.
const (
	Created       ChangeType = abi.ChangeCreated       // no run has ended well for the object
	Updated       ChangeType = abi.ChangeUpdated       // it differs in more than its status
	StatusUpdated ChangeType = abi.ChangeStatusUpdated // it differs in its status; with ChangesMemory only
	Deleted       ChangeType = abi.ChangeDeleted       // it is being deleted, or is gone
	Resumed       ChangeType = abi.ChangeResumed       // the first run of this host or revision; it may differ
	Resynced      ChangeType = abi.ChangeResynced      // it does not differ
)

// Old returns what the last run that ended well was given, nil if there is none or the host
// does not have it. With [ChangesAnnotation] it has no status.
func (r *Request[Spec, Status]) Old() (*Object[Spec, Status], error) {
	if r.Change == nil || r.Change.Old == nil {
		return nil, nil
	}
	var old Object[Spec, Status]
	if err := old.read(r.Change.Old); err != nil {
		return nil, errors.New("read the old object: " + err.Error())
	}
	return &old, nil
}

// Progress reads what the runs since the last one that ended well have stored by
// [Run.SetProgress]. ok is false if there is nothing.
func (r *Run) Progress(into Value) (ok bool, err error) {
	if r.result.Progress == nil {
		return false, nil
	}
	return true, decode(r.result.Progress, into)
}

// SetProgress stores a value for the next runs of this object, of at most 4 KiB as JSON,
// until a run ends well. It is kept where Changes of the [Controller] says, so that it
// can survive a restart of the host. nil removes it.
func (r *Run) SetProgress(v Value) {
	if v == nil {
		r.result.Progress = nil
		return
	}
	if progress, ok := r.encodeBounded(v, "InvalidProgress", "progress"); ok {
		r.result.Progress = progress
	}
}

func progressOf(c *Change) []byte {
	if c == nil {
		return nil
	}
	return c.Progress
}

// Timer is a schedule of each object of a controller.
type Timer struct {
	Name     string        // a DNS label, distinct within the controller
	Interval time.Duration // between two runs, at least 100 ms
	// InitialDelay is the time from the creation of the object to the first run.
	InitialDelay time.Duration
	// Idle is how long the spec, labels and annotations of the object must have been
	// unchanged; 0 for no condition.
	Idle time.Duration
	// Sharp keeps the times on a grid from the creation of the object. Otherwise Interval
	// begins at the end of a run, and the host adds up to 5 %.
	Sharp bool
}

// Due reports whether a timer is due in this run.
func (r *Run) Due(timer string) bool { return slices.Contains(r.Timers, timer) }

// timersOf returns the section of a manifest with timers.
func timersOf(all []Timer) abi.Section {
	written := make([]timers.Timer, len(all))
	for i, t := range all {
		written[i] = timers.Timer{
			Name: t.Name, Interval: milliseconds(t.Interval), InitialDelay: milliseconds(t.InitialDelay),
			Idle: milliseconds(t.Idle), Sharp: t.Sharp,
		}
	}
	return abi.Section{Name: timers.Name, Value: timers.Encode(written)}
}

// dueTimers returns the names of the timers that are due in a run.
func dueTimers(q *abi.Request) []string {
	due, _ := timers.DecodeDue(q.Section(timers.Name)) // the host has written it
	return due
}
