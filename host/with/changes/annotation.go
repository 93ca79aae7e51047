package changes

import (
	"context"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sanitize"
	"github.com/thole-dev/thole/host/with/changes/handled"
)

// This file keeps handled states in an annotation of the object. It is written at the end
// of a run, so that nothing counts as handled that was not done.

// Reasons of Events about the object.
const (
	lastHandledTooLarge = "LastHandledTooLarge" // the object is too large for a copy in its annotation
	lastHandledNotKept  = "LastHandledNotKept"  // the API server refuses the annotation
	lastHandledInvalid  = "LastHandledInvalid"  // somebody has edited the annotation
)

func (c *controller) annotationOf(rev *dispatch.Revision) string {
	return handled.Annotation(c.plugin, rev.Controller.Name)
}

// annotated returns the handled state that the annotation of an object has.
func (c *controller) annotated(rev *dispatch.Revision, o *object.Object) (state handled.State, valid bool) {
	return handled.Parse(o.Annotations[c.annotationOf(rev)], string(o.UID))
}

// readAnnotation reads the handled state that the run begins with.
func (c *controller) readAnnotation(run *dispatch.BeginningRun, r *runState) {
	written, valid := c.annotated(run.Revision, run.Object)
	known := valid && written.Known
	digest := written.WithoutObject().Digest
	r.handled, r.since = written, digest
	run.State(func(has any) {
		s := has.(*state)
		if r.handled = s.believed(written, valid); !known {
			r.since = r.handled.Digest
		}
		if s.ended && !(known && digest != s.content) {
			r.handled.Progress = s.progress
		}
	})
}

// believed returns the handled state by what the annotation has, and what is known of it if
// that was removed or edited.
func (s *state) believed(has handled.State, valid bool) handled.State {
	switch {
	case valid && has.Known:
		s.unhandled = false
	case s.content != "":
		return handled.State{Known: true, Digest: s.content}
	case valid:
		s.unhandled = true
	case s.unhandled:
		return handled.State{}
	}
	return has
}

// performed writes the annotation, unless it has the right value already.
func (c *controller) performed(ctx context.Context, run *dispatch.PerformedRun) (failure *effect.Failure) {
	r := run.Kept.(*runState)
	if r.mode != contract.Annotation {
		return nil
	}
	if next, ok := c.next(run, r); ok {
		failure = c.write(ctx, run, r, next)
	}
	run.Event = c.event(run, r)
	return failure
}

// write writes the annotation: without a copy of the object, if the API server refuses that.
func (c *controller) write(ctx context.Context, run *dispatch.PerformedRun, r *runState, next handled.State) *effect.Failure {
	refused := func(f *effect.Failure) bool { return f != nil && effect.RefusesContent(f.EffectFailure) }
	annotate := func(next handled.State) *effect.Failure {
		return run.Annotate(ctx, c.annotationOf(run.Revision), next.Value(string(run.Primary.UID)))
	}
	failure := annotate(next)
	if refused(failure) && next.Object != nil {
		r.tooLarge = true
		failure = annotate(next.WithoutObject())
	}
	if refused(failure) {
		r.notKept, failure = failure.Message, nil // what was done is done: see content of [state]
	}
	return failure
}

// next returns the state that the annotation is to have after the run. ok is false if
// it is to stay as it is. An object about to disappear needs none.
func (c *controller) next(run *dispatch.PerformedRun, r *runState) (next handled.State, ok bool) {
	if run.Released {
		return next, false
	}
	before, valid := c.annotated(run.Revision, run.Primary)
	switch {
	case run.EndedWell:
		if next = r.contentOf(run.Given); before.Object == nil && before.Digest == next.WithoutObject().Digest {
			r.tooLarge, next = true, next.WithoutObject() // it was refused before
		}
	case run.Performed && valid: // what the guest notes as done is done
		next = before
		next.Progress = progressOf(run.Returned)
	default:
		return next, false
	}
	return next, !next.Equal(before)
}

// contentOf returns the handled state that an object is.
func (r *runState) contentOf(o *object.Object) handled.State {
	state, tooLarge, err := handled.Of(o.Raw)
	if err != nil { // cannot happen for an object that was parsed
		return handled.State{}
	}
	r.tooLarge = r.tooLarge || tooLarge
	return state
}

// patch returns a patch with the annotation.
func (c *controller) patch(run *dispatch.PerformedRun) []byte {
	r := run.Kept.(*runState)
	if r.mode != contract.Annotation {
		return nil
	}
	next, ok := c.next(run, r)
	if !ok {
		return nil
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			w.Name("annotations").Object(func() { w.Name(c.annotationOf(run.Revision)).String(next.Value(string(run.Primary.UID))) })
		})
	})
	return w.Bytes()
}

// event returns the Kubernetes Event about the annotation, nil for none.
func (c *controller) event(run *dispatch.PerformedRun, r *runState) *abi.Event {
	name := c.annotationOf(run.Revision)
	if r.notKept != "" {
		return warning(lastHandledNotKept, sanitize.TruncateMiddle("the API server refuses the annotation "+name+
			", so that only this host knows until it ends that the object was handled; make room for the annotation, or correct the object: "+r.notKept, abi.MaxEventMessage))
	}
	if _, valid := c.annotated(run.Revision, run.Given); !valid {
		return warning(lastHandledInvalid, "the annotation "+name+
			" was edited: every part of the object counts as changed, and the annotation is written anew when a run has ended well; do not edit it")
	}
	if r.tooLarge {
		return warning(lastHandledTooLarge, "the object is too large for a copy in the annotation "+name+
			": its next change is noticed, and not what has changed; make the object smaller, or let the plugin use changes: memory")
	}
	return nil
}

func warning(reason, message string) *abi.Event {
	return &abi.Event{Type: abi.EventWarning, Reason: reason, Message: message}
}
