package cloudevents

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/cloudevents"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/runner"
)

// This file makes events of the changes of primaries and of the ends of runs.

// publishes reports whether a controller asks for its events to be published.
func publishes(c *abi.Controller) bool {
	section := c.Section(contract.Name)
	if section == nil {
		return false
	}
	publish, _ := contract.Decode(section) // was checked
	return publish
}

// publisher is a [Publisher].
type publisher interface {
	Publish(e Event)
	Announce(ctx context.Context, controller string, again bool, n int, event func(i int, put func(Event)))
}

// controller publishes the events of a controller.
type controller struct {
	plugin string
	handle runner.Handle
	to     publisher

	publishing sync.Mutex // held while the state of a primary is read for an event, and published
	announcer  *announcer // nil: the running revision publishes no events
}

// publishes reports whether the events of the controller are published by this replica.
//
// It is whether the term of the replica has not ended, not whether it may write: a Lease that is renewed
// late must not lose events, and if another replica publishes the same ones, they have the same ids.
func (c *controller) publishes(rev *dispatch.Revision) bool {
	return publishes(&rev.Controller) && c.handle.Leads()
}

// changed publishes an event of the primary kind, see [dispatch.Hooks].
func (c *controller) changed(rev *dispatch.Revision, old, updated *object.Object) {
	if !c.publishes(rev) {
		return
	}
	old, updated = followed(rev, old), followed(rev, updated)
	what, changed := changeType(old, updated)
	if !changed {
		return
	}
	c.publishing.Lock()
	defer c.publishing.Unlock()
	c.to.Publish(changeOf(rev, what, cmp.Or(updated, old)))
}

// followed returns what the controller follows of a primary: the informer has more of it than its metadata
// if another entry of the manifest follows that. o may be nil.
func followed(rev *dispatch.Revision, o *object.Object) *object.Object {
	if o == nil || !rev.Controller.For.MetadataOnly {
		return o
	}
	return o.Metadata()
}

// changeOf returns an event. An object can leave what selectors select, and come back.
func changeOf(rev *dispatch.Revision, what ChangeType, o *object.Object) Change {
	selects := rev.Controller.For.LabelSelector != "" || rev.Controller.For.FieldSelector != ""
	return Change{Type: what, Object: subjectOf(o), Again: what == Created && selects}
}

// changeType returns what an event of the primary kind is to receivers. A change of nothing but
// metadata is none, where the API server counts generations.
func changeType(old, updated *object.Object) (what ChangeType, changed bool) {
	switch {
	case old == nil:
		return Created, true
	case updated == nil:
		return Deleted, true
	case isUpdated(old, updated):
		return Updated, true
	case !dispatch.SameStatus(old.Raw, updated.Raw):
		return StatusUpdated, true
	}
	return "", false
}

// isUpdated reports whether the generation is another one or, where there is none, what counts as input.
func isUpdated(old, updated *object.Object) bool {
	if old.Generation != 0 || updated.Generation != 0 {
		return old.Generation != updated.Generation
	}
	return !dispatch.SameInput(old, updated)
}

func subjectOf(o *object.Object) Subject {
	return Subject{
		UID: string(o.UID), Kind: o.Kind, Key: o.Key(), ResourceVersion: o.ResourceVersion,
		Generation: o.Generation, ObservedGeneration: observedGeneration(o.Raw),
	}
}

// observedGeneration returns that of the status of an object, as JSON; 0 if there is none.
func observedGeneration(raw []byte) int64 {
	status, _ := rawjson.Lookup(raw, "status")
	text, ok := rawjson.Lookup(status, "observedGeneration")
	if !ok {
		return 0
	}
	r := rawjson.NewReader(text)
	n := r.Int()
	if r.End() != nil {
		return 0 // some kinds have something else there
	}
	return n
}

// ended publishes the end of a run, see [dispatch.Hooks].
func (c *controller) ended(rev *dispatch.Revision, run dispatch.EndedRun) {
	if run.Repeated || !c.publishes(rev) {
		return
	}
	c.to.Publish(RunEnd{
		Plugin: c.plugin, Controller: rev.Controller.Name, ID: fmt.Sprintf("%s-%x", run.ID, run.Started.UnixNano()),
		Object: subjectOf(followed(rev, run.Primary)), Result: resultOf(outcome.Metric(run.Result)), Attempt: run.Attempt,
		Class: run.Failure.Class, Reason: run.Failure.Reason,
	})
}

// resultOf returns the result of a run in the words of the events.
func resultOf(m outcome.Metric) string {
	switch m {
	case outcome.MetricSuccess:
		return ResultSuccess
	case outcome.MetricRequeue:
		return ResultRequeue
	case outcome.MetricRequeueAfter:
		return ResultRequeueAfter
	case outcome.MetricError:
	}
	return ResultFailed
}

// announce publishes the objects with these keys as created: who receives the events may not know them.
// Unless again is set, only sinks are told that were not told before. It blocks until all are published, or
// ctx is done.
func (c *controller) announce(ctx context.Context, keys []object.Key, again bool) {
	rev := c.handle.Revision()
	if !c.publishes(rev) {
		return
	}
	c.to.Announce(ctx, rev.Controller.Name, again, len(keys), func(i int, put func(Event)) {
		// No event of the informer comes in between, so that a deletion is published after this.
		c.publishing.Lock()
		defer c.publishing.Unlock()
		if o, exists := c.handle.Shown(keys[i]); exists {
			put(changeOf(rev, Created, followed(rev, o)))
		}
	})
}
