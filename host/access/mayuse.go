package access

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// DeniedError is why an account may not read something.
type DeniedError struct{ right explain.Right }

// Error states the rule that is missing.
func (e *DeniedError) Error() string { return e.right.Advice() }

// Denied reports whether an error is a [DeniedError] or a [MissingAccountError], and not one of
// asking.
func Denied(err error) bool {
	_, gone := errors.AsType[*MissingAccountError](err)
	_, denied := errors.AsType[*DeniedError](err)
	return gone || denied
}

// including returns the actions of which each includes the use of a verb on an object, the
// one that is in most roles first: on all objects that there are, on those of the
// namespace, on this one. The last is what resourceNames of a rule allow:
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources.
func including(verb string, r object.Resource, key object.Key) []Action {
	all := Action{Verb: verb, Group: r.GVR.Group, Resource: r.GVR.Resource}
	actions := append(make([]Action, 0, 3), all)
	if r.Namespaced && key.Namespace != "" {
		all.Namespace = key.Namespace
		actions = append(actions, all)
	}
	if key.Name != "" && (verb == rights.Get || verb == Reconcile) { // a list or a watch by name is one that selects by it
		all.Name = key.Name
		actions = append(actions, all)
	}
	return actions
}

// widest returns the first of the actions that is asked for: not the right to all objects that there are, if
// the question is one about a namespace. A function that returned the rest of them would allocate.
func (r *Reviewer) widest(on object.Resource, key object.Key) int {
	if r.Local && on.Namespaced && key.Namespace != "" {
		return 1
	}
	return 0
}

// MayUse returns nil if an account may use a verb on an object, on all of a namespace if the
// key has no name, or on all that there are if it has no namespace either. The error is a
// [*DeniedError], a [*MissingAccountError], or that of asking.
func (r *Reviewer) MayUse(ctx context.Context, account rights.Account, verb string, on object.Resource, key object.Key) error {
	s := r.subject(account)
	if s.gone.Load() {
		return &MissingAccountError{account}
	}
	actions := including(verb, on, key)[r.widest(on, key):]
	if allowed, _ := s.knownOneOf(actions); allowed {
		return nil
	}
	missing := Action{}
	for _, a := range actions {
		switch allowed, err := s.may(ctx, a); {
		case err != nil:
			return err
		case allowed:
			return nil
		case a.Name == "":
			missing = a
		}
	}
	return &DeniedError{missing.right(account)}
}

// KnownToUse is MayUse without asking.
func (r *Reviewer) KnownToUse(account rights.Account, verb string, on object.Resource, key object.Key) (allowed, known bool) {
	s := r.subject(account)
	if s.gone.Load() {
		return false, true
	}
	return s.knownOneOf(including(verb, on, key)[r.widest(on, key):])
}
