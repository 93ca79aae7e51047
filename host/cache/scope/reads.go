package scope

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// Read is a get, or a list.
type Read struct {
	Namespace string // "" for a cluster-scoped kind, and of a list for all namespaces
	Labels    labels.Selector
	Fields    fieldpath.Selector
	Part      []string // the fields that are read, as a guest names them; none for all
}

// CheckGet returns an error if an object of that namespace cannot be in the scope, or what
// is read of it is not followed.
func (s Scope) CheckGet(r Read) error {
	if !s.HasNamespace(r.Namespace) {
		return fmt.Errorf("namespace %q is not among those followed: %s", r.Namespace, strings.Join(s.Namespaces, ", "))
	}
	if i := slices.IndexFunc(r.Part, func(field string) bool { return !isMetadata(field) }); i >= 0 && s.MetadataOnly {
		return fmt.Errorf("the field %q is not followed: metadataOnly keeps nothing but metadata", r.Part[i])
	}
	return nil
}

func isMetadata(field string) bool {
	return field == "metadata" || field == "/metadata" || strings.HasPrefix(field, "/metadata/") || field == "/apiVersion" || field == "/kind"
}

// CheckList returns an error if a list asks for objects that are not followed.
func (s Scope) CheckList(r Read) error {
	if err := s.CheckGet(r); err != nil {
		return err
	}
	if !s.Managed && !implies(r.Labels, s.Labels) {
		return fmt.Errorf("the list must have the labelSelector of what is followed: %s", s.LabelSelector())
	}
	for _, wanted := range s.Fields {
		if !hasField(r.Fields, wanted) {
			return fmt.Errorf("the list must have the fieldSelector of what is followed: %s", s.FieldSelector())
		}
	}
	return nil
}

// Narrow returns a list that [Scope.CheckList] allows as it is to be answered: with the
// labels that it need not name, and without the fields of which the API server has
// selected the objects.
func (s Scope) Narrow(r Read) Read {
	if s.Managed {
		own, _ := s.Labels.Requirements()
		if r.Labels == nil {
			r.Labels = labels.Everything()
		}
		r.Labels = r.Labels.Add(own...)
	}
	r.Fields = slices.DeleteFunc(slices.Clone(r.Fields), func(q fieldpath.Requirement) bool {
		return !isIdentity(q) && hasField(s.Fields, q)
	})
	if s.MetadataOnly && len(r.Part) == 0 {
		r.Part = []string{"metadata"}
	}
	return r
}

// Has reports whether an object of an informer is in one of the scopes.
func (all Reads) Has(o *object.Object) bool {
	return slices.ContainsFunc(all, func(s Scope) bool { return s.HasSelected(o) })
}

// Selects reports whether of an object that is in none of the scopes it is not known
// whether it exists.
func (all Reads) Selects() bool {
	return !slices.ContainsFunc(all, func(s Scope) bool { return !s.Selects() })
}

// HasManaged reports whether one of the scopes has what the plugin owns.
func (all Reads) HasManaged() bool {
	return slices.ContainsFunc(all, func(s Scope) bool { return s.Managed })
}

// IsMetadataOnly reports whether nothing but metadata may be read of an object.
func (all Reads) IsMetadataOnly(o *object.Object) bool {
	return !slices.ContainsFunc(all, func(s Scope) bool { return !s.MetadataOnly && (s.Managed || s.HasSelected(o)) })
}

// Reads are the scopes of one kind in which a controller may read.
type Reads []Scope

// Get returns those in which an object may be found. The error says why there are none.
func (all Reads) Get(r Read) (Reads, error) { return all.allowed(r, Scope.CheckGet) }

// AreIn reports whether an informer of that scope has all that may be read.
func (all Reads) AreIn(s Scope) bool {
	return !slices.ContainsFunc(all, func(one Scope) bool { return !s.Covers(one) })
}

// List returns the scope in which a list is answered, with the namespaces of all that
// allow it. If some of these have metadata alone, so has the list. Of what a plugin owns
// it is only if the guest has named that, or if nothing else allows it. A list of all
// namespaces must be allowed in each in which something is followed, or it would lack
// objects. The error says why there is none.
func (all Reads) List(r Read) (Scope, error) {
	allowed, err := all.allowed(r, Scope.CheckList)
	if err != nil {
		return Scope{}, err
	}
	named := slices.DeleteFunc(slices.Clone(allowed), func(s Scope) bool { return s.Managed && !implies(r.Labels, s.Labels) })
	if len(named) == 0 {
		named = allowed[:1]
	}
	joined := named.join()
	if err := all.checkComplete(r, joined); err != nil {
		return Scope{}, err
	}
	whole := slices.DeleteFunc(named, func(s Scope) bool { return s.MetadataOnly })
	if len(whole) == 0 {
		return joined, nil
	}
	if w := whole.join(); HasNamespaces(w.Namespaces, joined.Namespaces) {
		return w, nil
	}
	joined.MetadataOnly = true
	return joined, nil
}

// checkComplete returns an error if a list of all namespaces, which is answered in a scope,
// has nothing of a namespace in which another scope has something.
func (all Reads) checkComplete(r Read, answered Scope) error {
	i := slices.IndexFunc(all, func(s Scope) bool { return !HasNamespaces(answered.Namespaces, s.Namespaces) })
	if r.Namespace != "" || i < 0 {
		return nil
	}
	return fmt.Errorf("a list of all namespaces would be one of %s only, and lack objects of %s: name a namespace, or select the same as the latter",
		strings.Join(answered.Namespaces, ", "), all[i])
}

// Namespaces returns those of a list that any of the scopes have, nil for all. allowed are
// those that the list may be of, nil for all. If there are none it is empty, and not nil.
func (all Reads) Namespaces(allowed []string) []string {
	return all.join().Within(allowed).Namespaces
}

// join returns a scope that covers all of them.
func (all Reads) join() Scope {
	joined := all[0]
	for _, s := range all[1:] {
		joined = Join(joined, s)
	}
	return joined
}

func (all Reads) allowed(r Read, check func(Scope, Read) error) (allowed Reads, err error) {
	var reasons []error
	for _, s := range all {
		if err := check(s, r); err != nil {
			reasons = append(reasons, err)
			continue
		}
		allowed = append(allowed, s)
	}
	if allowed == nil {
		return nil, errors.Join(reasons...)
	}
	return allowed, nil
}
