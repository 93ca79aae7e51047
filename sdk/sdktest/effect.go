package sdktest

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
)

// perform decides, and carries the decision out in the host's order:
// finalizer, patch, apply, delete, events (which have no effect here), status.
// A failure leads to another decision, of which only the status is written.
func (r *Run) perform() {
	r.decide()
	if r.decision.Intents {
		if r.effect = r.intents(); r.effect != nil {
			r.decide()
		}
	}
	r.status()
	if r.decision.RemoveFinalizer {
		r.release()
	}
}

func (r *Run) intents() *abi.EffectFailure {
	if f := r.hold(); f != nil {
		return f
	}
	all, f := r.plan()
	if f != nil {
		return f
	}
	if f := r.patch(); f != nil {
		return f
	}
	for _, i := range all {
		if f := r.intent(&i); f != nil {
			return f
		}
	}
	return nil
}

func (r *Run) intent(i *intent) *abi.EffectFailure {
	if f := r.refused(i.verb, i.kind.Ref(i.namespace, i.name)); f != nil {
		return f
	}
	if i.verb == "delete" {
		return r.delete(i)
	}
	return r.apply(i)
}

func (r *Run) current() *object { return r.world.objects[r.primary.id] }

// hold sets the finalizer, unless the result asks for nothing that a cleanup
// may have to undo.
func (r *Run) hold() *abi.EffectFailure {
	o, name := r.current(), r.world.finalizer()
	changes := len(r.Result.Patch)+len(r.Result.Apply)+len(r.Result.Delete)+len(r.Result.Status) > 0
	if !changes || !r.world.controller.Finalizer || o.meta.Deleting() || slices.Contains(o.meta.Finalizers, name) {
		return nil
	}
	if f := r.refused("finalizer", o.ref()); f != nil {
		return f
	}
	r.finalizers("finalizer", append(slices.Clone(o.meta.Finalizers), name))
	return nil
}

func (r *Run) release() {
	name := r.world.finalizer()
	rest := slices.DeleteFunc(slices.Clone(r.current().meta.Finalizers), func(f string) bool { return f == name })
	r.finalizers("release", rest)
}

func (r *Run) finalizers(verb string, names []string) {
	patch := map[string]any{"metadata": map[string]any{"finalizers": names}}
	if len(names) == 0 {
		patch = map[string]any{"metadata": map[string]any{"finalizers": nil}}
	}
	r.update(verb, r.current(), r.world.encode(patch))
}

// update merges a patch into an object and notes the write, if it is one.
func (r *Run) update(verb string, o *object, patch []byte) {
	if r.world.update(o, r.world.merge(o.raw, patch)) {
		r.Writes = append(r.Writes, verb)
	}
}

func (r *Run) patch() *abi.EffectFailure {
	if r.Result.Patch == nil {
		return nil
	}
	if f := r.refused("patch", r.primary.ref()); f != nil {
		return f
	}
	r.update("patch", r.current(), r.Result.Patch)
	return nil
}

func (r *Run) apply(i *intent) *abi.EffectFailure {
	w, o := r.world, r.world.objects[i.id]
	if o != nil {
		if f := r.touches(i, o); f != nil {
			return f
		}
	}
	metadata := map[string]any{"namespace": omitEmpty(i.namespace)}
	if i.owned {
		metadata["ownerReferences"] = []sdk.OwnerReference{r.owner()}
	}
	wanted := w.merge(w.merge(i.object, notApplied), w.encode(map[string]any{"metadata": metadata}))
	if o == nil {
		w.create(i.id, wanted)
		r.Writes = append(r.Writes, "apply "+i.String())
	} else {
		r.update("apply "+i.String(), o, w.applyPatch(i.id, wanted))
	}
	w.applied[i.id] = wanted
	return nil
}

// notApplied removes what the host leaves out of an apply.
var notApplied = []byte(`{"status":null,"metadata":{"uid":null,"resourceVersion":null,"generation":null,"managedFields":null,
	"creationTimestamp":null,"deletionTimestamp":null,"deletionGracePeriodSeconds":null,"selfLink":null}}`)

// applyPatch is the merge patch of an apply: what is wanted, and null for what
// the last apply had beyond it.
func (w *World) applyPatch(at id, wanted []byte) []byte {
	if w.applied[at] == nil {
		return wanted
	}
	return overlay(wanted, dropped(w.applied[at], wanted))
}

// dropped is the merge patch that removes those fields of last that are not in
// now, one by one: others may have put some of their own beside them.
func dropped(last, now []byte) []byte {
	before, _ := rawjson.Members(last)
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for _, m := range before {
			value, kept := rawjson.Lookup(now, m.Name)
			if isObject(m.Value) && (!kept || isObject(value)) {
				w.Name(m.Name).Raw(dropped(m.Value, value))
			} else if !kept {
				w.Name(m.Name).Raw([]byte("null"))
			}
		}
	})
	return w.Bytes()
}

func isObject(value []byte) bool { return rawjson.NewReader(value).Kind() == '{' }

// overlay adds the members of second to first, member by member, nulls
// included.
func overlay(first, second []byte) []byte {
	if !isObject(first) || !isObject(second) {
		return second
	}
	members, _ := rawjson.Members(first)
	changes, _ := rawjson.Members(second)
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for _, m := range members {
			if i := slices.IndexFunc(changes, func(c rawjson.Member) bool { return c.Name == m.Name }); i >= 0 {
				m.Value = overlay(m.Value, changes[i].Value)
				changes = slices.Delete(changes, i, i+1)
			}
			w.Name(m.Name).Raw(m.Value)
		}
		for _, c := range changes {
			w.Name(c.Name).Raw(c.Value)
		}
	})
	return w.Bytes()
}

func (r *Run) delete(i *intent) *abi.EffectFailure {
	o := r.world.objects[i.id]
	if o == nil || i.uid != "" && i.uid != o.meta.UID {
		return nil
	}
	if f := r.touches(i, o); f != nil {
		return f
	}
	if r.world.end(o) {
		r.Writes = append(r.Writes, "delete "+i.String())
	}
	return nil
}

// refused is the failure that [World.FailWrites] or [World.FailWrite] asked
// for.
func (r *Run) refused(verb string, ref sdk.Ref) *abi.EffectFailure {
	reason := r.world.writes[sdk.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}]
	if single := r.world.refused[verb+" "+idOf(ref).String()]; single != "" {
		reason = single
	}
	if reason == "" {
		return nil
	}
	return r.failure(verb, ref, abi.ClassRetry, reason, "refused by the test")
}

func (r *Run) failure(verb string, ref sdk.Ref, class abi.Class, reason, message string) *abi.EffectFailure {
	return &abi.EffectFailure{Verb: verb, Ref: abi.Ref(ref), Class: class, Reason: reason, Message: message}
}

// owner is the reference that makes an object a child of the primary.
func (r *Run) owner() sdk.OwnerReference {
	return sdk.OwnerReference{
		APIVersion: r.primary.kind.APIVersion, Kind: r.primary.kind.Kind,
		Name: r.primary.name, UID: r.primary.meta.UID, Controller: true, BlockOwnerDeletion: true,
	}
}

// omitEmpty is null in a merge patch for nothing.
func omitEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}
