package dispatch

import (
	"cmp"
	"context"
	"fmt"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cloudevents"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// This file publishes the changes of primaries and the ends of runs as CloudEvents, for controllers
// that ask for it (abi/SPEC.md, "CloudEvents").

// Publisher publishes CloudEvents; [cloudevents.Publisher] implements it.
type Publisher interface {
	// Publish never blocks.
	Publish(cloudevents.Event)
	// Announce blocks until n events have been published, or ctx is done. It calls event for each, which
	// calls put unless there is nothing to publish any more.
	Announce(ctx context.Context, controller string, again bool, n int, event func(i int, put func(cloudevents.Event)))
}

// publishes reports whether the events of the controller are published by this replica.
//
// It is whether the term of the replica has not ended, not [Controller.leads]: a Lease that is renewed late
// must not lose events, and if another replica publishes the same ones, they have the same ids.
func (c *Controller) publishes(rev *Revision) bool {
	if c.Publisher == nil || !rev.Controller.CloudEvents {
		return false
	}
	if c.Lease == nil {
		return true
	}
	select {
	case <-c.Lease.Leading():
		return true
	default:
		return false
	}
}

// publishChange publishes an event of the primary kind. old is nil for an object that was created, and
// for one that existed when the informer started; updated is nil for one that was deleted.
func (c *Controller) publishChange(old, updated *object.Object) {
	rev := c.revision.Load()
	if !c.publishes(rev) {
		return
	}
	old, updated = rev.followed(old), rev.followed(updated)
	what, changed := changeType(old, updated)
	if !changed {
		return
	}
	c.publishing.Lock()
	defer c.publishing.Unlock()
	c.Publisher.Publish(rev.change(what, cmp.Or(updated, old)))
}

// followed returns what the controller follows of a primary: the informer has more of it than its metadata
// if another entry of the manifest follows that. o may be nil.
func (rev *Revision) followed(o *object.Object) *object.Object {
	if o == nil || !rev.Controller.For.MetadataOnly {
		return o
	}
	return o.Metadata()
}

// change returns an event. An object can leave what selectors select, and come back.
func (rev *Revision) change(what cloudevents.ChangeType, o *object.Object) cloudevents.Change {
	selects := rev.Controller.For.LabelSelector != "" || rev.Controller.For.FieldSelector != ""
	return cloudevents.Change{Type: what, Object: subjectOf(o), Again: what == cloudevents.Created && selects}
}

// changeType returns what an event of the primary kind is to receivers. A change of nothing but
// metadata is none, where the API server counts generations.
func changeType(old, updated *object.Object) (what cloudevents.ChangeType, changed bool) {
	switch {
	case old == nil:
		return cloudevents.Created, true
	case updated == nil:
		return cloudevents.Deleted, true
	case isUpdated(old, updated):
		return cloudevents.Updated, true
	case !sameStatus(old.Raw, updated.Raw):
		return cloudevents.StatusUpdated, true
	}
	return "", false
}

// isUpdated reports whether the generation is another one or, where there is none, what counts as input.
func isUpdated(old, updated *object.Object) bool {
	if old.Generation != 0 || updated.Generation != 0 {
		return old.Generation != updated.Generation
	}
	return !sameInput(old, updated)
}

func subjectOf(o *object.Object) cloudevents.Subject {
	return cloudevents.Subject{
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

// Announce publishes the objects with these keys as created: who receives the events may not know them.
// Unless again is set, only sinks are told that were not told before. It blocks until all are published, or
// ctx is done.
func (c *Controller) Announce(ctx context.Context, keys []object.Key, again bool) {
	rev := c.revision.Load()
	if !c.publishes(rev) {
		return
	}
	c.Publisher.Announce(ctx, c.Name, again, len(keys), func(i int, put func(cloudevents.Event)) {
		// No event of the informer comes in between, so that a deletion is published after this.
		c.publishing.Lock()
		defer c.publishing.Unlock()
		if o, exists := c.Cache.Shown(keys[i]); exists {
			put(rev.change(cloudevents.Created, rev.followed(o)))
		}
	})
}

// publishEnd publishes the end of a run.
func (r *run) publishEnd(ended *events.RunEnded) {
	if r.decision.Uncounted || !r.c.publishes(r.revision) {
		return
	}
	r.c.Publisher.Publish(cloudevents.RunEnd{
		Plugin: r.c.Plugin, Controller: r.c.Name, ID: fmt.Sprintf("%s-%x", r.id, r.start.UnixNano()),
		Object: subjectOf(r.revision.followed(r.primary)), Result: eventResult(r.decision.Metric), Attempt: ended.Attempt,
		Class: ended.Failure.Class, Reason: ended.Failure.Reason,
	})
}

// eventResult returns the result of a run in the words of the events.
func eventResult(m outcome.Metric) string {
	switch m {
	case outcome.MetricSuccess:
		return cloudevents.ResultSuccess
	case outcome.MetricRequeue:
		return cloudevents.ResultRequeue
	case outcome.MetricRequeueAfter:
		return cloudevents.ResultRequeueAfter
	case outcome.MetricError:
	}
	return cloudevents.ResultFailed
}
