package sdktest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
)

// This file has what the host does with whose an object is: abi/spec/writes.md, "Adoption and release".

// adoptsAlone reports whether an apply adopts an object and does nothing else.
func (w *World) adoptsAlone(a abi.Apply) bool {
	if !a.Adopt {
		return false
	}
	rest := w.merge(w.merge(a.Object, notApplied), notAdopted)
	return rawjson.Equal(rest, []byte(`{"metadata":{}}`))
}

// notAdopted removes what an intent may have, beside what an apply leaves out, that adopts an
// object and does nothing else.
var notAdopted = []byte(`{"apiVersion":null,"kind":null,"metadata":{"name":null,"namespace":null,"finalizers":null}}`)

// checkAdoption checks whether the primary can become the controller of an object that has
// none.
func (r *Run) checkAdoption(i *intent, o *object) *abi.EffectFailure {
	switch {
	case r.primary.meta.Deleting():
		return newFailure(i.verb, i.id, abi.ClassRetry, "BeingDeleted", "the primary is being deleted and adopts nothing: leave the intent out of a cleanup")
	case o.meta.Deleting():
		return newFailure(i.verb, i.id, abi.ClassRetry, "BeingDeleted", "the object is being deleted and cannot be adopted: wait until it is gone")
	case r.world.owns(o.meta.UID, r.primary, map[string]bool{}):
		return i.denied("OutOfScope", "the object owns the primary, or an owner of it: two objects that own each other are both deleted when one of them is; release one of them first, or leave the intent out")
	}
	return nil
}

// owns reports whether the object with a UID owns another one, directly or by others. seen are
// the owners that were looked at.
func (w *World) owns(uid string, of *object, seen map[string]bool) bool {
	return slices.ContainsFunc(of.meta.OwnerReferences, func(r sdk.OwnerReference) bool {
		if r.UID == uid || seen[r.UID] {
			return r.UID == uid
		}
		seen[r.UID] = true
		return slices.ContainsFunc(w.list(func(o *object) bool { return o.meta.UID == r.UID }), func(o *object) bool { return w.owns(uid, o, seen) })
	})
}

// owners returns the metadata of an object, nil for one that is created, that makes the primary
// its controller. References of others stay as they are.
func (r *Run) owners(o *object) map[string]any {
	own := r.world.encode(sdk.OwnerReference{
		APIVersion: r.primary.kind.APIVersion, Kind: r.primary.kind.Kind,
		Name: r.primary.name, UID: r.primary.meta.UID, Controller: true, BlockOwnerDeletion: true,
	})
	all, found := []json.RawMessage{}, false
	if o != nil {
		for i, reference := range references(o) {
			if o.meta.OwnerReferences[i].UID == r.primary.meta.UID {
				reference, found = r.world.merge(reference, own), true
			}
			all = append(all, reference)
		}
	}
	if !found {
		all = append(all, own)
	}
	metadata := map[string]any{"ownerReferences": all}
	if r.world.managed {
		maps.Copy(metadata, r.world.managedLabel())
	}
	return metadata
}

// references returns the owner references of an object as JSON.
func references(o *object) [][]byte {
	if len(o.meta.OwnerReferences) == 0 {
		return nil
	}
	list, _ := rawjson.Lookup(o.raw, "metadata", "ownerReferences")
	all, _ := rawjson.Elements(list) // what the world stores is valid
	return all
}

// adopt makes the primary the controller of an object, and changes nothing else of it.
func (r *Run) adopt(i *intent, o *object) {
	r.update("apply "+i.String(), o, r.world.encode(map[string]any{"metadata": r.owners(o)}))
}

// release takes the references to the primary off an object, with the label of the plugin.
func (r *Run) release(i *intent, o *object) {
	var others []json.RawMessage // null if there are none
	for at, reference := range references(o) {
		if o.meta.OwnerReferences[at].UID != r.primary.meta.UID {
			others = append(others, reference)
		}
	}
	if len(others) == len(o.meta.OwnerReferences) {
		return
	}
	metadata := map[string]any{"ownerReferences": others}
	labels := map[string]any{}
	if o.meta.Labels[abi.LabelManagedBy] == r.world.plugin {
		labels[abi.LabelManagedBy] = nil
	}
	if r.world.hasCreated(o) {
		labels[abi.LabelAppliedBy] = nil
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	r.update("release "+i.String(), o, r.world.encode(map[string]any{"metadata": metadata}))
}
