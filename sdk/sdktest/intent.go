package sdktest

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
)

// intent is an apply or a delete that the manifest allows.
type intent struct {
	id
	verb    string
	owned   bool // the primary controls the object or shall
	written bool // the manifest lets it be touched without that
	object  []byte
	adopt   bool
	uid     string // that a delete is limited to; "" for any
}

// plan holds every intent against the manifest, the namespace and the others,
// before the first is performed.
func (r *Run) plan() (all []intent, failure *abi.EffectFailure) {
	for _, a := range r.Result.Apply {
		at, err := identify(a.Object)
		if err != nil {
			return nil, r.invalid("apply", at, err.Error())
		}
		all = append(all, intent{verb: "apply", id: at, object: a.Object, adopt: a.Adopt})
	}
	for _, ref := range r.Result.Delete {
		all = append(all, intent{verb: "delete", id: idOf(sdk.Ref(ref)), uid: ref.UID})
	}
	named := map[id]bool{}
	for i := range all {
		if failure := r.place(&all[i]); failure != nil {
			return nil, failure
		}
		if named[all[i].id] {
			return nil, r.invalid(all[i].verb, all[i].id, "two intents of one result name the object: return one per object")
		}
		named[all[i].id] = true
	}
	return all, nil
}

// place fills in the namespace, and finds by what right the object is touched.
func (r *Run) place(i *intent) *abi.EffectFailure {
	c, own, cluster := &r.world.controller, r.primary.namespace, r.world.cluster[i.kind]
	i.owned, i.written = slices.Contains(c.Owns, abi.Kind(i.kind)), slices.Contains(c.Writes, abi.Kind(i.kind))
	if i.namespace == "" && !cluster {
		i.namespace = own
	}
	switch {
	case !i.owned && !i.written:
		return r.denied(i, "NotDeclared", "the manifest does not name the kind in owns or writes")
	case cluster && i.namespace != "":
		return r.invalid(i.verb, i.id, "the kind is cluster-scoped, it has no namespace")
	case !cluster && i.namespace == "":
		return r.invalid(i.verb, i.id, "metadata.namespace is required: the kind is namespaced and the primary is not")
	case own == "" || i.namespace == own:
	case !cluster && !r.world.crosses:
		return r.denied(i, "OutOfScope", "another namespace than the object's")
	case !i.written:
		return r.denied(i, "OutOfScope", "the object cannot be owned from namespace "+own+": name the kind in writes")
	default:
		i.owned = false
	}
	i.owned = i.owned && (i.id != r.primary.id || !i.written)
	return nil
}

// touches holds an apply or a delete against whose object it would touch, as
// the host does.
func (r *Run) touches(i *intent, o *object) *abi.EffectFailure {
	itself := o.meta.UID == r.primary.meta.UID
	switch {
	case itself && i.verb == "apply" && i.owned:
		return r.denied(i, "OutOfScope", "the object is the primary: it cannot own itself, name the kind in writes")
	case itself && i.written, o.meta.ControlledBy(r.primary.meta.UID):
		return nil
	case controlled(o):
		return r.denied(i, "ControlledByAnother", "the object has another controller and is never touched")
	case i.verb == "apply" && i.owned && !i.adopt:
		return r.denied(i, "NotAdopted", "the object exists and has no controller: set adopt to take it over")
	case i.verb == "delete" && !i.written:
		return r.denied(i, "NotControlled", "the object is not controlled by "+r.primary.String()+": name the kind in writes to delete it")
	}
	return nil
}

func controlled(o *object) bool {
	return slices.ContainsFunc(o.meta.OwnerReferences, func(r sdk.OwnerReference) bool { return r.Controller })
}

func (r *Run) denied(i *intent, reason, message string) *abi.EffectFailure {
	return r.failure(i.verb, i.kind.Ref(i.namespace, i.name), abi.ClassDenied, reason, message)
}

func (r *Run) invalid(verb string, at id, message string) *abi.EffectFailure {
	return r.failure(verb, at.kind.Ref(at.namespace, at.name), abi.ClassABI, "InvalidIntent", message)
}
