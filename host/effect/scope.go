package effect

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// place is where an intent's object is, and by what right it is touched.
type place struct {
	object.Resource
	key     object.Key
	owned   bool // the primary controls it or shall
	written bool // the manifest lets it be touched without that
}

func (at place) child() child { return childOf(at.Kind, at.key) }

func (at place) String() string { return describe(at.Kind, at.key) }

// place finds the object of an intent and checks it against the manifest and
// the namespace of the primary. No answer of the API server is needed for
// what is refused.
func (s *session) place(ctx context.Context, verb string, ref abi.Ref) (place, error) {
	at := place{key: object.Key{Namespace: ref.Namespace, Name: ref.Name}}
	kind := abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}
	at.owned = slices.Contains(s.target.Controller.Owns, kind)
	at.written = slices.Contains(s.target.Controller.Writes, kind)
	if !at.owned && !at.written {
		return at, s.undeclared(verb, kind)
	}
	if err := checkSegments(ref); err != nil {
		return at, err
	}
	var err error
	if at.Resource, err = s.Store.Resource(ctx, kind); err != nil {
		return at, notServed(err)
	}
	at.Kind = kind
	if err := s.namespace(&at); err != nil {
		return at, err
	}
	if primary := s.target.Object; at.written && at.child() == childOf(primary.Kind, primary.Key()) {
		at.owned = false // nothing owns itself
	}
	return at, nil
}

func (s *session) undeclared(verb string, kind abi.Kind) error {
	c := s.target.Controller
	hint := ""
	for _, k := range slices.Concat(c.Owns, c.Writes) {
		if k.Kind == kind.Kind {
			hint = fmt.Sprintf(" (it names %s)", k)
		}
	}
	return denied(reasonUndeclared, "controller %q may not %s %s: name the kind in owns or writes of the manifest%s", c.Name, verb, kind, hint)
}

// checkSegments keeps names out of the URL that would lead somewhere else.
func checkSegments(ref abi.Ref) error {
	if ref.Name == "" {
		return invalid("metadata.name is required")
	}
	for _, segment := range []string{ref.Name, ref.Namespace} {
		if wrong := content.IsPathSegmentName(segment); len(wrong) > 0 {
			return invalid("name %q %s", segment, wrong[0])
		}
	}
	return nil
}

// namespace fills in the namespace and decides whether the primary may reach
// into it.
func (s *session) namespace(at *place) error {
	own := s.target.Object.Namespace
	switch {
	case !at.Namespaced && at.key.Namespace != "":
		return invalid("%s is cluster-scoped, it has no namespace", at.Kind)
	case at.Namespaced && at.key.Namespace == "" && own == "":
		return invalid("metadata.namespace is required: %s is namespaced and the primary is not", at.Kind)
	case at.Namespaced && at.key.Namespace == "":
		at.key.Namespace = own
	}
	if own == "" || at.key.Namespace == own {
		return nil
	}
	// Out of the primary's namespace: an owner reference from there would
	// make the garbage collector delete the object.
	at.owned = false
	if at.Namespaced && !s.CrossNamespace {
		return denied(reasonScope, "%s is outside of the primary's namespace %q: a policy with crossNamespace allows it", at, own)
	}
	if !at.written {
		return denied(reasonScope, "%s cannot be owned by an object in namespace %q: name the kind in writes of the manifest instead of owns", at, own)
	}
	return nil
}

// mayApply decides whose object an apply would touch. have is nil if there is
// none. force is for children that the primary controls: nobody else has a
// say in their fields.
func (s *session) mayApply(at place, have *object.Object, adopt bool) (force bool, err error) {
	primary := s.target.Object
	if have == nil {
		return false, nil // force would only take what appeared meanwhile
	}
	owner := have.Controller()
	switch {
	case have.UID == primary.UID && at.owned:
		return false, denied(reasonScope, "%s is the primary: it cannot own itself, name the kind in writes of the manifest", at)
	case have.UID == primary.UID:
		return false, nil
	case owner != nil && owner.UID == primary.UID:
		return true, nil
	case owner != nil:
		return false, s.controlled(at, have)
	case at.owned && !adopt:
		return false, denied(reasonNotAdopted, "%s exists and has no controller: set adopt on the intent to take it over, or delete it", at)
	}
	return false, nil
}

// mayDelete decides whose object a deletion would touch.
func (s *session) mayDelete(at place, have *object.Object) error {
	primary, owner := s.target.Object, have.Controller()
	switch {
	case have.UID == primary.UID && at.written:
		return nil
	case owner != nil && owner.UID == primary.UID:
		return nil
	case owner != nil:
		return s.controlled(at, have)
	case !at.written:
		return denied(reasonUncontrols, "%s is not controlled by the primary: name the kind in writes of the manifest to delete it", at)
	}
	return nil
}

func (s *session) controlled(at place, have *object.Object) error {
	owner := have.Controller()
	return denied(reasonControlled, "%s is controlled by %s %s %s and is never touched: choose another name",
		at, owner.APIVersion, owner.Kind, owner.Name)
}
