package dispatch

import (
	"time"

	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
)

// Hooks are what one capability does while a controller works. A nil function is not called. Those of
// several capabilities are called in the order of [Config.Hooks].
type Hooks struct {
	// Changed is called for each event of the primary kind, before the object is due for it, so that it has
	// returned before a run that the event has led to begins. old is nil for an object that was created, or
	// that existed when the informer started; updated is nil for one that was deleted, or is not selected
	// any more. The events of an object come one after the other. It is called by the goroutine of the
	// informer, without a lock, and must not block.
	Changed func(rev *Revision, old, updated *object.Object)
	// Ended is called when a run has ended, and its effects were performed, before its key is due again. It
	// is not called for a step of a daemon alone. It is called by the worker, without a lock, and must not
	// block.
	Ended func(rev *Revision, run EndedRun)
}

// EndedRun is a run that has ended.
type EndedRun struct {
	events.RunEnded
	Primary *object.Object // with what the run has written
	Started time.Time
}

// callChanged calls the hooks for an event of the primary kind.
func (c *Controller) callChanged(old, updated *object.Object) {
	for i := range c.Hooks {
		if f := c.Hooks[i].Changed; f != nil {
			f(c.revision.Load(), old, updated)
		}
	}
}

// callEnded calls the hooks for the end of a run.
func (r *run) callEnded(e events.RunEnded) {
	for i := range r.c.Hooks {
		if f := r.c.Hooks[i].Ended; f != nil {
			f(r.revision, EndedRun{RunEnded: e, Primary: r.primary, Started: r.start})
		}
	}
}
