package dispatch

import (
	"context"
	"slices"
	"sync/atomic"
	"weak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome/handled"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file keeps the handled state in an annotation of the object. It is written at the end
// of a run, so that nothing counts as handled that was not done.

// annotated returns the handled state that the annotation of an object has.
func (r *run) annotated(o *object.Object) (state handled.State, valid bool) {
	return handled.Parse(o.Annotations[r.handledAnnotation()], string(o.UID))
}

// believed returns the handled state by what the annotation has, and what is known of it if
// that was removed or edited. Controller.mu is held.
func (ch *changes) believed(state handled.State, valid bool) handled.State {
	switch {
	case valid && state.Known:
		ch.unhandled = false
	case ch.digest != "":
		return handled.State{Known: true, Digest: ch.digest}
	case valid:
		ch.unhandled = true
	case ch.unhandled:
		return handled.State{}
	}
	return state
}

func (r *run) handledAnnotation() string { return handled.Annotation(r.c.Plugin, r.c.Name) }

// annotatedState is handledState for a controller with the annotation.
func (r *run) annotatedState() (state handled.State, resumed bool) {
	state, valid := r.annotated(r.given) // without the lock: it may be long
	digest := state.WithoutObject().Digest
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	ch := r.state.changes
	known := valid && state.Known
	if state = ch.believed(state, valid); !known {
		digest = state.Digest
	}
	if ch.begun && !(known && digest != ch.digest) {
		state.Progress = ch.progress
	}
	r.since = digest
	return state, !ch.endedWell
}

// recordHandled writes the annotation, unless it has the right value already.
func (r *run) recordHandled(ctx context.Context) {
	next, ok := r.nextHandled()
	if !ok {
		return
	}
	well := r.endedWell()
	refused := func(f *effect.Failure) bool { return f != nil && slices.Contains(refusedForContent, f.Reason) }
	failure := r.annotate(ctx, next)
	if refused(failure) && next.Object != nil {
		r.tooLarge = true
		failure = r.annotate(ctx, next.WithoutObject())
	}
	if refused(failure) {
		r.notKept, failure = failure.Message, nil // what was done is done: see changes.digest
	}
	if well && r.settle(failure) {
		r.writeStatus(ctx)
	} else if failure != nil && !well {
		r.warn("the progress of the run is not kept on the object", "error", failure)
	}
}

// nextHandled returns the state that the annotation is to have after the run. ok is false if
// it is to stay as it is. An object about to disappear needs none.
func (r *run) nextHandled() (next handled.State, ok bool) {
	if r.revision.Controller.Changes != abi.ChangesAnnotation || r.gone != nil || r.decision.RemoveFinalizer {
		return next, false
	}
	before, valid := r.annotated(r.primary)
	switch {
	case r.endedWell():
		if next = r.handledNow(); before.Object == nil && before.Digest == next.WithoutObject().Digest {
			r.tooLarge, next = true, next.WithoutObject() // it was refused before
		}
	case r.decision.Intents && valid: // the intents were performed: what the guest notes as done is done
		next = before
		next.Progress = r.result.Progress
	default:
		return next, false
	}
	return next, !valid || !next.Equal(before)
}

// handledNow returns the state of the object that the guest was given.
func (r *run) handledNow() handled.State {
	state, tooLarge, err := handled.Of(r.given.Raw)
	if err != nil { // cannot happen for an object that was parsed
		return handled.State{}
	}
	r.tooLarge = r.tooLarge || tooLarge
	return state
}

func (r *run) annotate(ctx context.Context, state handled.State) *effect.Failure {
	report, failure := r.revision.Effects.Annotate(ctx, r.target(), r.handledAnnotation(), state.Value(string(r.primary.UID)))
	r.wrote(report, report.Before)
	return failure
}

// withHandled returns the result that is performed: with the annotation in its patch, if
// nothing of what follows the patch can fail that the guest has asked for.
func (r *run) withHandled() *abi.Result {
	out := r.result
	if len(out.Patch) == 0 || len(out.Release)+len(out.Apply)+len(out.Delete)+len(out.Status)+len(r.revision.Controller.Writes) > 0 || !r.endedWell() {
		return out
	}
	next, ok := r.nextHandled()
	if !ok {
		return out
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			w.Name("annotations").Object(func() { w.Name(r.handledAnnotation()).String(next.Value(string(r.primary.UID))) })
		})
	})
	patch, err := rawjson.ComposePatches(out.Patch, w.Bytes())
	if err != nil { // cannot happen for a result that was decoded
		return out
	}
	with := *out
	with.Patch = patch
	return &with
}

// Reasons of Events about the annotation.
const (
	reasonTooLarge = "LastHandledTooLarge"
	reasonNotKept  = "LastHandledNotKept"
	reasonInvalid  = "LastHandledInvalid"
)

// annotationEvent returns the Kubernetes Event about the annotation, nil for none.
func (r *run) annotationEvent() *abi.Event {
	if r.revision.Controller.Changes != abi.ChangesAnnotation || r.gone != nil {
		return nil
	}
	if r.notKept != "" {
		return &abi.Event{
			Type: abi.EventWarning, Reason: reasonNotKept,
			Message: sanitize.TruncateMiddle("the API server refuses the annotation "+r.handledAnnotation()+
				", so that only this host knows until it ends that the object was handled; make room for the annotation, or correct the object: "+r.notKept, abi.MaxEventMessage),
		}
	}
	if _, valid := r.annotated(r.given); !valid {
		return &abi.Event{
			Type: abi.EventWarning, Reason: reasonInvalid,
			Message: "the annotation " + r.handledAnnotation() + " was edited: every part of the object counts as changed, and the annotation is written anew when a run has ended well; do not edit it",
		}
	}
	if r.tooLarge {
		return &abi.Event{
			Type: abi.EventWarning, Reason: reasonTooLarge,
			Message: "the object is too large for a copy in the annotation " + r.handledAnnotation() + ": its next change is noticed, and not what has changed; make the object smaller, or let the plugin use changes: memory",
		}
	}
	return nil
}

// given returns an object as guests are given it, without the annotations of handled states.
func (rev *Revision) given(o *object.Object) []byte {
	if rev.Controller.Changes != abi.ChangesAnnotation {
		return o.Raw
	}
	text, err := handled.WithoutAnnotations(o.Raw, o.Annotations)
	if err != nil { // cannot happen for an object that was parsed
		return o.Raw
	}
	return text
}

// isHandling reports whether two versions of an object differ in nothing but the annotations
// of handled states, and in bookkeeping: such a change runs nothing.
func isHandling(old, updated *object.Object) bool {
	if old == nil || updated == nil || old.UID != updated.UID || !handledDiffers(old, updated) {
		return false
	}
	without := func(o *object.Object) []byte {
		text, err := handled.WithoutAnnotations(o.Raw, o.Annotations)
		if err == nil {
			text, err = rawjson.MergePatch(text, versionless)
		}
		if err != nil { // cannot happen for an object that was parsed
			return nil
		}
		return text
	}
	diff, err := rawjson.Diff(without(old), without(updated))
	return err == nil && diff == nil
}

// handlingMemo remembers isHandling of the last event of an object that many keys have read:
// the event is compared for each of them.
type handlingMemo struct {
	last atomic.Pointer[handlingResult]
}

type handlingResult struct {
	old, updated weak.Pointer[object.Object]
	handling     bool
}

// fewAnnotations are compared faster than the event is looked up.
const fewAnnotations = 32

// of is isHandling.
func (m *handlingMemo) of(old, updated *object.Object) bool {
	switch {
	case old == nil, updated == nil:
		return false
	case len(old.Annotations)+len(updated.Annotations) <= fewAnnotations && !handledDiffers(old, updated):
		return false
	}
	event := handlingResult{old: weak.Make(old), updated: weak.Make(updated)}
	if last := m.last.Load(); last != nil && last.old == event.old && last.updated == event.updated {
		return last.handling
	}
	event.handling = isHandling(old, updated)
	m.last.Store(&event)
	return event.handling
}

var versionless = []byte(`{"metadata":{"resourceVersion":null}}`)

// handledDiffers reports whether an annotation of a handled state differs.
func handledDiffers(old, updated *object.Object) bool {
	return !sameAnnotations(old.Annotations, updated.Annotations, abi.HandledAnnotation)
}

// sameAnnotations reports whether two objects have the same annotations of those that count.
func sameAnnotations(a, b map[string]string, counts func(string) bool) bool {
	return covers(a, b, counts) && covers(b, a, counts)
}

// covers reports whether a has every annotation of b that counts.
func covers(a, b map[string]string, counts func(string) bool) bool {
	for name, value := range b {
		if have, ok := a[name]; counts(name) && (!ok || have != value) {
			return false
		}
	}
	return true
}

func countsAsInput(name string) bool { return !abi.HandledAnnotation(name) }
