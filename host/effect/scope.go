package effect

import (
	"context"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file decides which objects a controller may change. Before any request these say no, in this order: the manifest
// (declaredKind), the namespaces of the policy (mayChangeIn), and the rest of the policy (allow, mayPatchPrimary), by
// what package rights returns. When the object was read its controller does (mayApply, mayDelete). What is sent is
// sent as the service account: in the end the API server says no, by RBAC and admission.

// location is where the object of an intent is, and by which list of the
// manifest it may be changed.
type location struct {
	object.Resource
	key    object.Key
	uid    string // only the object with this UID is meant; "" for any, as of an apply
	owned  bool   // the primary is or becomes its controller
	writes bool   // the kind is in writes: the object may be changed without being owned

	group     string   // of the intent, "" for none
	refused   *Failure // why the intent of a group must not be performed; nil if it may be
	performed bool
}

// id identifies the object by its name.
func (at location) id() objectID { return objectIDOf(at.Kind, at.key) }

// ref names the object, with the UID if the intent has one.
func (at location) ref() abi.Ref {
	ref := at.Kind.Ref(at.key.Namespace, at.key.Name)
	ref.UID = at.uid
	return ref
}

// locate finds the object of an intent, and checks it against the manifest, the policy
// and the namespace of the primary. verb is that of the write.
func (p *plan) locate(ctx context.Context, ref abi.Ref, verb string) (at location, err error) {
	kind, err := p.declaredKind(abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind})
	if err != nil {
		return at, err
	}
	at.key, at.uid = object.Key{Namespace: ref.Namespace, Name: ref.Name}, ref.UID
	if err := at.key.Validate(); err != nil {
		return at, invalid("%v", err)
	}
	if at.Resource, err = p.Store.Resource(ctx, kind); err != nil {
		return at, err
	}
	declared := p.target.Controller
	at.owned, at.writes = declared.IsOwned(kind), slices.Contains(declared.Writes, kind)
	if err := p.checkNamespace(&at); err != nil {
		return at, err
	}
	if err := p.allow(&at, verb); err != nil {
		return at, err
	}
	if primary := p.target.Object; at.writes && at.id() == objectIDOf(primary.Kind, primary.Key()) {
		if p.target.Gone {
			return at, p.impossibleForGone("the object is the primary, which is gone: it cannot be written to, and another one of its name has a run of its own")
		}
		at.owned = false // an object cannot own itself
	}
	return at, p.addOnce(at.id())
}

// impossibleForGone is the error of an intent that only a primary that exists could have.
func (p *plan) impossibleForGone(message string) error {
	class := abi.ClassDenied
	if p.target.Cleanup {
		class = abi.ClassStalled
	}
	return newFailure(class, reasonOutOfScope, message)
}

// addOnce refuses two intents for one object: each would undo the other in
// every run.
func (p *plan) addOnce(id objectID) error {
	if p.named[id] {
		return invalid("the object is named by two intents of one result: return one intent for each object, and to have it deleted and made anew an Apply with children.Replace()")
	}
	p.named[id] = true
	return nil
}

// declaredKind returns the manifest's own copy of a kind. The strings of an
// intent must not get into anything that is kept, such as a cache of the store:
// they would keep the whole result in memory.
func (p *plan) declaredKind(kind abi.Kind) (abi.Kind, error) {
	c := p.target.Controller
	hint := ""
	for _, kinds := range [...][]abi.Kind{abi.Kinds(c.Owns), c.Writes} {
		if i := slices.Index(kinds, kind); i >= 0 {
			return kinds[i], nil
		}
		for _, k := range kinds {
			if k.Kind == kind.Kind {
				hint = " (it lists " + k.String() + ")"
			}
		}
	}
	return kind, denied(reasonNotDeclared, "the kind is not declared by controller %q: list it in Owns or Writes of the controller%s", c.Name, hint)
}

// checkNamespace fills in the namespace, and checks whether the primary may
// change objects there.
func (p *plan) checkNamespace(at *location) error {
	own := p.target.Object.Namespace
	switch {
	case !at.Namespaced && at.key.Namespace != "":
		return invalid("metadata.namespace must be empty: the kind is cluster-scoped")
	case at.Namespaced && at.key.Namespace == "" && own == "":
		return invalid("metadata.namespace is required: the kind is namespaced and the primary is not")
	case at.Namespaced && at.key.Namespace == "":
		at.key.Namespace = own
	}
	if err := p.mayChangeIn(at.key.Namespace); err != nil {
		return err
	}
	if own == "" || at.key.Namespace == own {
		return nil
	}
	// An owner reference to another namespace would make the garbage collector
	// delete the object.
	at.owned = false
	if !at.writes {
		return denied(reasonOutOfScope, "the object cannot be owned by an object in namespace %q: list the kind in Writes of the controller instead of Owns", own)
	}
	return nil
}

// allow checks a write against the entries of the policy, and what needs none. A kind may be in
// owns and in writes: that it may be written as one of them does not let it be written as the other.
func (p *plan) allow(at *location, verb string) error {
	at.owned = at.owned && p.mayOwn(at, verb)
	at.writes = at.writes && p.Allow.Reach(at.Kind, "", verb).Has(at.Namespaced, at.key.Namespace, p.target.Object.Namespace)
	if at.owned || at.writes {
		return nil
	}
	return notAllowed(at.Kind, "", verb, at.key.Namespace, p.target.Object.Namespace)
}

// mayOwn reports whether the policy, and what needs no entry, allow a write of an object that the primary owns.
func (p *plan) mayOwn(at *location, verb string) bool {
	return p.Allow.Followed(at.Kind, verb).Has(at.Namespaced, at.key.Namespace, p.target.Object.Namespace)
}

// mayCreate checks the creation of an object.
func (p *plan) mayCreate(at *location) error {
	if at.owned && p.unheldWhileDeleting() {
		return denied(reasonOutOfScope, "the primary is being deleted, and nothing new can belong to it: apply only what exists if the request has deleting")
	}
	created := *at
	return p.allow(&created, rights.Create)
}

// mayPatchPrimary checks a patch of the primary or, unless that is "", its subresource.
func (p *Planner) mayPatchPrimary(primary *object.Object, sub string) error {
	if p.Allow.PatchesPrimary(primary.Kind, sub, primary.Namespace) {
		return nil
	}
	return notAllowed(primary.Kind, sub, rights.Patch, primary.Namespace, primary.Namespace)
}

func notAllowed(kind abi.Kind, sub, verb, namespace, own string) error {
	return denied(reasonNotAllowed, "the policy of the plugin does not allow to %s it: add to its allow: %s", verb, rights.EntryFor(kind, sub, verb, namespace, own))
}

// mayChangeIn checks a namespace, "" for a cluster-scoped object, against the policy.
func (p *Planner) mayChangeIn(namespace string) error {
	if namespace == "" || p.Namespaces == nil || slices.Contains(p.Namespaces, namespace) {
		return nil
	}
	return denied(reasonOutOfScope, "namespace %q is not one of the policy namespaces (%s): add it to namespaces of the policy, and to allow.namespaces in the file of --config",
		namespace, strings.Join(p.Namespaces, ", "))
}

// mayApply checks whose object an apply would change; have is nil if there is
// none. force is for children that the primary controls: it takes fields away
// from other managers.
func (p *plan) mayApply(a plannedApply, have *object.Object) (force bool, err error) {
	primary := p.target.Object
	if have == nil {
		return false, nil // force could only take fields of an object that was created meanwhile
	}
	owner := have.Controller()
	switch {
	case have.UID == primary.UID && a.owned:
		return false, denied(reasonOutOfScope, "the object is the primary, which cannot own itself: list the kind in Writes of the controller")
	case have.UID == primary.UID:
		return false, nil
	case owner != nil:
		return owner.UID == primary.UID, p.checkController(have)
	case a.owned && a.unselected:
		return false, denied(reasonNotAdopted, "the object exists, has no controller and is not among those that the plugin follows: "+
			"to take it over the kind must be followed as a whole: name it in Reads of the controller, and apply the object with sdk.Adopt()")
	case a.owned && !a.adopt:
		return false, denied(reasonNotAdopted, "the object exists and has no controller: apply it with sdk.Adopt() to take it over, or delete it")
	}
	return false, nil
}

// mayDelete checks whose object a delete would remove.
func (p *plan) mayDelete(at location, have *object.Object) error {
	switch {
	case have.UID == p.target.Object.UID && at.writes:
		return nil
	case have.Controller() != nil:
		return p.checkController(have)
	case !at.writes:
		return denied(reasonNotControlled, "the object is not controlled by the primary: list the kind in Writes of the controller to delete it")
	}
	return nil
}

// checkController refuses an object that has another controller than the
// primary.
func (p *plan) checkController(have *object.Object) error {
	owner := have.Controller()
	if owner.UID == p.target.Object.UID {
		return nil
	}
	return denied(reasonControlled, "the object is controlled by %s %s %s and is never changed: choose another name",
		owner.APIVersion, owner.Kind, owner.Name)
}
