package sdktest

import (
	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/host/with/changes/handled"
	"github.com/thole-dev/thole/sdk"
)

// This file has the handled states of objects, and the runs of objects that are gone:
// abi/changes/SPEC.md, and abi/spec/deletion.md, "Objects that are gone".

// changes is what a [key] has of the changes of a primary.
type changes struct {
	handled handled.State // with [contract.Memory], and when it is gone
	ended   bool          // a run has ended well since the start of the host
	cleaned bool          // a cleanup has succeeded
	held    bool          // it is gone by [World.Vanish], and the cleanup has not succeeded
	gone    bool          // of the present run: it does not exist any more, or is not followed

	// With [contract.Annotation], for one that somebody edits or removes:
	digest    string // of the content that the last run was given that ended well
	unhandled bool   // it has shown that no run has ended well
	begun     bool   // a run has ended since the start of the host
	progress  []byte // of that run
}

// Restart makes the host start anew: what it has kept of the objects in memory is lost,
// and the next run of each is resumed. Daemons end without a last step, and their signals are
// lost.
func (w *World) Restart() {
	clear(w.keys)
	clear(w.daemons)
	w.gone, w.started = nil, w.now
	for _, o := range w.list(w.isPrimary) {
		w.key(o).handled.Known = true
	}
}

// Vanish deletes a primary at once, whatever finalizers it has, as the API server may do just
// after one was added. If it had that of the controller, [World.ReconcileGone] runs the cleanup.
func (w *World) Vanish(ref sdk.Ref) {
	w.tb.Helper()
	o := w.mustExist("delete", ref)
	w.key(o).held = w.isPrimary(o) && w.controller.Finalizer && w.holds(o) && !o.meta.Deleting()
	w.remove(o)
}

// ReconcileGone runs the controller once for an object with that name that is gone: one that
// was deleted, or is no longer followed, and for which no cleanup has succeeded. The controller
// must have Gone, or a Cleanup and the object be gone by [World.Vanish]. It can be
// repeated until such a run has ended well or is stalled. See [World.Reconcile] for the name.
func (w *World) ReconcileGone(name string) *Run {
	w.tb.Helper()
	at := idOf(w.primaryRef(name))
	for i, o := range w.gone {
		if o.id != at {
			continue
		}
		w.labelChildren()
		r := w.reconcile(o, true)
		if r.endedWell() || r.Class == abi.ClassStalled {
			w.gone = append(w.gone[:i:i], w.gone[i+1:]...)
		}
		return r
	}
	w.tb.Fatalf("reconcile %s: no such object is gone for which the controller has a run", at)
	return nil
}

// isPrimary reports whether the host runs the controller for an object.
func (w *World) isPrimary(o *object) bool { return o.in(w.scopes[:1]) != nil }

// leave keeps the last known bytes of a primary that is followed no longer.
func (w *World) leave(o *object) {
	w.tb.Helper()
	k := w.key(o)
	if !w.controller.Gone && !k.held || !w.isPrimary(o) {
		return
	}
	if !k.cleaned {
		k.handled = w.handled(o, k)
		w.gone = append(w.gone, o)
	}
}

// change returns what the request has of changes.
func (w *World) change(o *object, k *key) []abi.Section {
	w.tb.Helper()
	if w.changes() == "" {
		return nil
	}
	state := w.handled(o, k)
	old, err := state.Old(o.raw)
	if err != nil {
		w.tb.Fatalf("read the handled state of %s: %v", o.id, err)
	}
	deleting := k.gone || o.meta.Deleting()
	change := contract.Change{Type: state.Change(o.raw, deleting, !k.ended), Old: old, Progress: state.Progress}
	return []abi.Section{{Name: contract.Name, Value: change.Encode()}}
}

// changes returns where the host keeps handled states, "" for nowhere.
func (w *World) changes() contract.Mode { return contract.Of(&w.controller) }

func (w *World) annotation() string { return handled.Annotation(w.plugin, w.controller.Name) }

// handled returns the handled state of an object.
func (w *World) handled(o *object, k *key) handled.State {
	if w.changes() != contract.Annotation || k.gone {
		return k.handled
	}
	state := k.believed(w.annotated(o))
	if k.begun {
		state.Progress = k.progress
	}
	return state
}

// believed returns the handled state by what the annotation has, and what is known of it if
// that was removed or edited.
func (k *changes) believed(state handled.State, valid bool) handled.State {
	switch {
	case valid && state.Known:
		k.unhandled = false
	case k.digest != "":
		return handled.State{Known: true, Digest: k.digest}
	case valid:
		k.unhandled = true
	case k.unhandled:
		return handled.State{}
	}
	return state
}

// annotated returns the handled state that the annotation of an object has.
func (w *World) annotated(o *object) (state handled.State, valid bool) {
	return handled.Parse(o.meta.Annotations[w.annotation()], o.meta.UID)
}

// withoutHandled returns an object with the bytes that guests are given. Its metadata still
// has the annotations.
func (w *World) withoutHandled(o *object) *object {
	given := *o
	given.raw = abi.WithoutStates(o.raw, o.meta.Annotations)
	return &given
}

// sectionCheck returns how a section of the result is checked, nil if no capability has it.
func (r *Run) sectionCheck(name string) func(section []byte) error {
	if name != contract.Name {
		return nil
	}
	return func(section []byte) error { return contract.CheckResult(&r.world.controller, section) }
}

// progress returns what the result has of it.
func (r *Run) progress() []byte {
	section, _ := contract.DecodeResult(r.Result.Section(contract.Name)) // was checked
	if section == nil {
		return nil
	}
	return section.Progress
}

// endedWell reports whether what the run was given is the handled state from now on.
func (r *Run) endedWell() bool {
	return r.Class == abi.ClassNone && (r.Result.Result == abi.OutcomeSuccess || r.Result.Result == abi.OutcomeEmpty)
}

// next returns the handled state at the end of the run, which begins with another. What a run
// without a result, or with an effect that failed, has returned as progress is not kept.
func (r *Run) next(before handled.State) handled.State {
	switch {
	case !r.endedWell():
		if r.decision.Intents {
			before.Progress = r.progress()
		}
		return before
	case r.world.changes() == contract.Annotation:
		return r.content()
	}
	return handled.State{Known: true, Object: r.primary.raw, Whole: true}
}

// content returns the state of the object that the guest was given, without its status.
func (r *Run) content() handled.State {
	r.tb.Helper()
	state, _, err := handled.Of(r.primary.raw)
	if err != nil {
		r.tb.Fatalf("read the content of %s: %v", r.primary.id, err)
	}
	return state
}

// addHandled adds the annotation to the patch of a result if nothing else can fail that the
// guest has asked for.
func (r *Run) addHandled(patch []byte) []byte {
	if len(r.Result.Release)+len(r.Result.Apply)+len(r.Result.Delete)+len(r.Result.Status)+len(r.world.controller.Writes) > 0 || !r.endedWell() {
		return patch
	}
	if own := r.handledPatch(); own != nil {
		return r.world.compose(patch, own)
	}
	return patch
}

// writeHandled writes the annotation, unless the object has it.
func (r *Run) writeHandled() {
	o := r.current()
	if own := r.handledPatch(); own != nil && o != nil {
		r.update("handled", o, own)
	}
}

// handledPatch returns the patch that writes the annotation, nil if it stays as it is. Only a
// run that has ended well replaces one that was edited.
func (r *Run) handledPatch() []byte {
	w := r.world
	if w.changes() != contract.Annotation || r.gone || r.decision.RemoveFinalizer {
		return nil
	}
	before, valid := w.annotated(r.primary)
	next := r.next(before)
	if valid && next.Equal(before) || !valid && !r.endedWell() {
		return nil
	}
	var value any // null removes the annotation
	if text := next.Value(r.primary.meta.UID); text != "" {
		value = text
	}
	return w.encode(map[string]any{"metadata": map[string]any{"annotations": map[string]any{w.annotation(): value}}})
}

// keepChanges stores what the host keeps in memory.
func (r *Run) keepChanges(k *key) {
	if r.world.changes() != contract.Annotation || r.gone {
		k.handled = r.next(k.handled)
	}
	switch {
	case r.endedWell():
		k.ended, k.digest = true, r.content().WithoutObject().Digest
		k.begun, k.progress = true, nil
	case r.decision.Intents:
		k.begun, k.progress = true, r.progress()
	}
}

// checkGone returns how a result violates the contract for an object that is gone. What a
// cleanup asks for that cannot be done has no effect.
func (r *Run) checkGone() string {
	switch {
	case !r.gone || r.Result == nil:
		return ""
	case r.lateCleanup():
		r.Result.Status, r.Result.Conditions, r.Result.Patch = nil, nil, nil
		return ""
	case r.Result.Status != nil:
		return "status: the object is gone"
	case len(r.Result.Conditions) > 0:
		return "conditions: the object is gone"
	case r.Result.Patch != nil:
		return "patch: the object is gone"
	}
	return ""
}

// lateCleanup reports whether the run is the cleanup of an object that is gone.
func (r *Run) lateCleanup() bool { return r.gone && r.world.key(r.primary).held }
