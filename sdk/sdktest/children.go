package sdktest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
)

// This file is what intents have with the feature children.

// alreadyExists is the reason of a creation whose name is taken.
const alreadyExists = "AlreadyExists"

// Immutable makes the API server refuse an apply that changes one of the fields of an existing
// object of the kind, such as "spec.template", with the reason Invalid. An apply with
// [github.com/thole-dev/thole/sdk/children.Replace] replaces the object then.
func (w *World) Immutable(kind sdk.Kind, fields ...string) {
	w.immutable[kind] = append(w.immutable[kind], fields...)
}

// isRace reports whether a failed effect is a conflict, as the host sees it: a taken name is
// one until the next run of the primary names the object in vain again.
func (r *Run) isRace() bool {
	switch r.effect.Reason {
	case conflict:
		return true
	case alreadyExists:
		last := r.world.key(r.primary).previous
		return last == nil || !slices.ContainsFunc(last.Failures, func(f abi.EffectFailure) bool {
			return f.Reason == alreadyExists && f.Ref == r.effect.Ref
		})
	}
	return false
}

// lastIntent returns what was applied last, or created, nil for nothing.
func (w *World) lastIntent(of id) json.RawMessage {
	if last := w.applied[of]; last != nil {
		return last
	}
	return w.createdWith[of]
}

// create performs an apply that never changes an object. What it sets stays when a later apply does
// not name it.
func (r *Run) create(i *intent, o *object) *abi.EffectFailure {
	w := r.world
	switch {
	case o == nil:
		r.apply(i, nil)
		w.createdWith[i.id] = w.applied[i.id]
		delete(w.applied, i.id)
		return nil
	case w.created[i.id] == r.primary.id && !o.meta.Deleting() && rawjson.Equal(w.lastIntent(i.id), r.wanted(i, nil)) &&
		(!i.owned || o.meta.ControlledBy(r.primary.meta.UID)):
		return nil // the same intent has created it
	}
	return newFailure("apply", i.id, abi.ClassRetry, alreadyExists,
		"the name is taken by an object which children.Create() does not change: choose another name, or leave children.Create() out to change what the primary owns")
}

// change performs an apply to an object that exists.
func (r *Run) change(i *intent, o *object) *abi.EffectFailure {
	patch := r.patchOf(i, o)
	if i.replace && o.meta.Deleting() && !rawjson.Equal(o.raw, r.world.merge(o.raw, patch)) {
		return i.replacing()
	}
	field := r.world.changedImmutable(o, patch)
	if field == "" {
		r.apply(i, o)
		return nil
	}
	refused := newFailure("apply", i.id, abi.ClassRetry, "Invalid", field+": field is immutable")
	switch {
	case !i.replace:
		return refused
	case !o.meta.ControlledBy(r.primary.meta.UID):
		refused.Message += "; the object is not replaced, because the primary does not control it"
		return refused
	case rawjson.Equal(r.world.lastIntent(i.id), r.wanted(i, nil)):
		refused.Message += "; the object is not replaced, because it was made by the same intent, and others have changed it since"
		return refused
	}
	r.world.delete(o)
	r.Writes = append(r.Writes, "delete "+i.String())
	if r.world.objects[i.id] != nil {
		return i.replacing()
	}
	r.apply(i, nil)
	return nil
}

func (i *intent) replacing() *abi.EffectFailure {
	return newFailure("apply", i.id, abi.ClassWaiting, "Replacing", "the object is being deleted, and is created anew once it is gone")
}

// changedImmutable returns the first immutable field that a merge patch of an object changes,
// "" if there is none.
func (w *World) changedImmutable(o *object, patch []byte) string {
	merged := w.merge(o.raw, patch)
	for _, field := range w.immutable[o.kind] {
		path := strings.Split(field, ".")
		before, existed := rawjson.Lookup(o.raw, path...)
		after, exists := rawjson.Lookup(merged, path...)
		if existed != exists || exists && !rawjson.Equal(before, after) {
			return field
		}
	}
	return ""
}

// remove performs a delete of an object that exists.
func (r *Run) remove(i *intent, o *object) *abi.EffectFailure {
	if i.version != "" && i.version != o.meta.ResourceVersion && !o.meta.Deleting() {
		return newFailure("delete", i.id, abi.ClassRetry, conflict, "the object has changed since the resourceVersion of the intent: decide with the object as it is now")
	}
	if i.orphans && !o.meta.Deleting() {
		r.world.orphan(o)
	}
	if r.world.delete(o) {
		r.Writes = append(r.Writes, "delete "+i.String())
	}
	return nil
}

// orphan takes an object out of the owners of its dependents.
func (w *World) orphan(o *object) {
	isOwner := func(ref sdk.OwnerReference) bool { return ref.UID == o.meta.UID }
	for _, dependent := range w.list(func(c *object) bool { return slices.ContainsFunc(c.meta.OwnerReferences, isOwner) }) {
		owners := slices.DeleteFunc(slices.Clone(dependent.meta.OwnerReferences), isOwner)
		w.update(dependent, w.withMetadata(dependent.raw, map[string]any{"ownerReferences": append([]sdk.OwnerReference(nil), owners...)}))
	}
}
