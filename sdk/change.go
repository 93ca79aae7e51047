package sdk

import (
	"errors"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/timers"
)

// This file has the changes and timers of a request: abi/changes/SPEC.md and abi/timers/SPEC.md.

// Changes is where the host keeps what the last run that ended well was given of an object.
//
//	type Changes string
//
//	func (m Changes) Encode() []byte // returns the section of a controller with this mode
type Changes = changes.Mode

// The values of [Changes].
const (
	// ChangesMemory keeps it in the host. After a restart or a fail-over the first run of
	// an object is [Resumed], without the old state.
	ChangesMemory Changes = changes.Memory
	// ChangesAnnotation keeps it in an annotation of the object, without the status. It
	// costs one write for each change that was handled, and is refused for Secrets and
	// other sensitive kinds.
	ChangesAnnotation Changes = changes.Annotation
)

// Change is how an object differs from what the last run was given that ended well. It is
// best effort: the desired state is in the object.
//
//	type Change struct {
//		Type     ChangeType
//		Old      []byte // JSON: what that run was given; nil if there was none, or the host does not have it
//		Progress []byte // JSON: what the runs since then have stored
//	}
//
//	func (c *Change) Encode() []byte // returns the section of a request
type Change = changes.Change

// ChangeType is the type of a [Change].
type ChangeType = changes.Type

// The values of [ChangeType]. The first one that applies counts: Deleted, Created, Resumed,
// Updated, StatusUpdated, Resynced.
const (
	Created       ChangeType = changes.Created       // no run has ended well for the object
	Updated       ChangeType = changes.Updated       // it differs in more than its status
	StatusUpdated ChangeType = changes.StatusUpdated // it differs in its status; with ChangesMemory only
	Deleted       ChangeType = changes.Deleted       // it is being deleted, or is gone
	Resumed       ChangeType = changes.Resumed       // the first run of this host or revision; it may differ
	Resynced      ChangeType = changes.Resynced      // it does not differ
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
	if r.progress == nil {
		return false, nil
	}
	return true, decode(r.progress, into)
}

// SetProgress stores a value for the next runs of this object, of at most 4 KiB as JSON,
// until a run ends well. It is kept where Changes of the [Controller] says, so that it
// can survive a restart of the host. nil removes it.
func (r *Run) SetProgress(v Value) {
	if v == nil {
		r.progress = nil
		return
	}
	if progress, ok := r.encodeBounded(v, "InvalidProgress", "progress"); ok {
		r.progress = progress
	}
}

// readChange reads what the request has of changes.
func (r *Run) readChange(q *abi.Request) {
	if r.Change, _ = changes.DecodeChange(q.Section(changes.Name)); r.Change != nil { // the host has written it
		r.progress = r.Change.Progress
	}
}

// changed returns the sections of the result.
func (r *Run) changed() []abi.Section {
	if r.progress == nil {
		return nil
	}
	return []abi.Section{{Name: changes.Name, Value: (&changes.Result{Progress: r.progress}).Encode()}}
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
