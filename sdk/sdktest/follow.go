package sdktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/sdk"
)

// This file has what a controller follows of the world: abi/spec/reads.md, "Followed kind" and
// "Managed children".

// following is what a [World] knows of its manifest.
type following struct {
	scopes   []scope // what the controller follows; the first one is for
	followed []scope // what the controllers of the plugin follow
	managed  bool    // [abi.Manifest.Managed]
	labelled bool    // what had been applied before the first run has its label
}

func (w *World) follow(controllers []abi.Controller) {
	w.tb.Helper()
	w.scopes = w.scopesOf(&w.controller)
	for i := range controllers {
		w.followed = append(w.followed, w.scopesOf(&controllers[i])...)
	}
}

// scope is an entry of a manifest: a kind, and what is followed of it.
type scope struct {
	abi.Followed
	labels selector
	fields fieldpath.Selector
	owner  string // the plugin, if only what it has applied is followed; "" otherwise
}

// scopesOf returns what a controller follows.
func (w *World) scopesOf(c *abi.Controller) (all []scope) {
	w.tb.Helper()
	for f := range c.Follows() {
		all = append(all, w.scopeOf(f))
	}
	if w.managed {
		for i := range c.Owns { // they follow for
			all[1+i].owner = w.plugin
		}
	}
	return all
}

func (w *World) scopeOf(f abi.Followed) scope {
	w.tb.Helper()
	labels, err := parseSelector(f.LabelSelector)
	if err != nil {
		w.tb.Fatalf("controller follows %s: %v", f.Kind, err)
	}
	fields, _ := fieldpath.ParseSelector(f.FieldSelector) // was checked with the manifest
	return scope{Followed: f, labels: labels, fields: fields}
}

// selects reports whether the manifest selects more than namespaces.
func (s *scope) selects() bool { return len(s.labels)+len(s.fields) > 0 }

// has reports whether an object is in the scope.
func (s *scope) has(o *object) bool {
	return s.Kind == o.kind && s.hasNamespace(o.namespace) && s.labels.matches(o.meta.Labels) && s.fields.Matches(o.raw) &&
		(s.owner == "" || s.owner == o.meta.Labels[abi.LabelManagedBy])
}

// hasNamespace reports whether the scope has objects of a namespace. "" stands for a
// cluster-scoped object, or for all namespaces.
func (s *scope) hasNamespace(namespace string) bool {
	return namespace == "" || len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)
}

// checkGet returns an error if an object of the namespace cannot be in the scope, or
// these fields are not.
func (s *scope) checkGet(namespace string, fields []string) error {
	if !s.hasNamespace(namespace) {
		return fmt.Errorf("namespace %q is not among those followed: %s", namespace, strings.Join(s.Namespaces, ", "))
	}
	for _, field := range fields {
		if s.MetadataOnly && !isMetadata(field) {
			return fmt.Errorf("the field %q is not followed: metadataOnly keeps nothing but metadata", field)
		}
	}
	return nil
}

func isMetadata(field string) bool {
	return slices.Contains([]string{"metadata", "/metadata", "/apiVersion", "/kind"}, field) || strings.HasPrefix(field, "/metadata/")
}

// checkList returns an error if a list asks for objects that are not in the scope.
func (s *scope) checkList(namespace string, fields []string, labels selector, selected fieldpath.Selector) error {
	err := s.checkGet(namespace, fields)
	switch {
	case err != nil:
		return err
	case !labels.implies(s.labels):
		return fmt.Errorf("the list must have the labelSelector of what is followed: %s", s.LabelSelector)
	case slices.ContainsFunc(s.fields, func(wanted fieldpath.Requirement) bool { return !slices.ContainsFunc(selected, wanted.Equal) }):
		return fmt.Errorf("the list must have the fieldSelector of what is followed: %s", s.FieldSelector)
	}
	return nil
}

// allowed returns the scopes of a kind in which a controller may read. The error says why
// there are none.
func (r *Run) allowed(kind sdk.Kind, check func(*scope) error) (all []scope, err error) {
	var reasons []error
	for _, s := range r.world.scopes {
		if s.Kind != kind {
			continue
		}
		if err := check(&s); err != nil {
			reasons = append(reasons, err)
		} else {
			all = append(all, s)
		}
	}
	if all == nil {
		return nil, errors.Join(reasons...)
	}
	return all, nil
}

// checkComplete returns an error if a list of all namespaces, which is answered from the
// scopes, would lack what the controller follows in other namespaces.
func (r *Run) checkComplete(kind sdk.Kind, labels selector, scopes []scope) error {
	own, _ := parseSelector(abi.LabelManagedBy + "=" + r.world.plugin) // a name is a value of a label
	named := slices.DeleteFunc(slices.Clone(scopes), func(s scope) bool { return s.owner != "" && !labels.implies(own) })
	if len(named) == 0 { // it is one of what the plugin owns
		named = scopes
	}
	for _, s := range r.world.scopes {
		if s.Kind == kind && !hasNamespacesOf(named, &s) {
			return fmt.Errorf("a list of all namespaces would lack objects that are followed as %+v: name a namespace, or select the same", s.Selector)
		}
	}
	return nil
}

// hasNamespacesOf reports whether scopes have all namespaces of another one.
func hasNamespacesOf(scopes []scope, other *scope) bool {
	missing := slices.Clone(other.Namespaces)
	for _, s := range scopes {
		if len(s.Namespaces) == 0 {
			return true
		}
		missing = slices.DeleteFunc(missing, s.hasNamespace)
	}
	return len(other.Namespaces) > 0 && len(missing) == 0
}

// in returns what is followed of the object: the object itself, its metadata, or nil if it
// is in none of the scopes.
func (o *object) in(scopes []scope) (followed *object) {
	for i := range scopes {
		if s := &scopes[i]; s.has(o) && (followed == nil || !s.MetadataOnly) {
			followed = o.of(s)
		}
	}
	return followed
}

// of returns what a scope has of the object.
func (o *object) of(s *scope) *object {
	if !s.MetadataOnly {
		return o
	}
	only := *o
	if set, err := fieldpath.Parse([]string{"metadata"}); err == nil {
		only.raw, _ = set.Project(o.raw) // what the world stores is valid
	}
	return &only
}

// follows reports whether the object is among what the plugin follows, by any of its
// controllers.
func (w *World) follows(o *object) bool { return o.in(w.followed) != nil }

// labelChildren labels what the controller seems to have applied before the first run, as
// the host does: objects of kinds in owns that a primary controls.
func (w *World) labelChildren() {
	if !w.managed || w.labelled {
		return
	}
	w.labelled = true
	primaries := map[string]bool{}
	for _, o := range w.list(func(o *object) bool { return o.kind == w.controller.For.Kind }) {
		primaries[o.meta.UID] = true
	}
	for _, o := range w.list(func(o *object) bool { return w.controller.IsOwned(o.kind) }) {
		if slices.ContainsFunc(o.meta.OwnerReferences, func(r sdk.OwnerReference) bool { return r.Controller && primaries[r.UID] }) {
			w.update(o, w.withMetadata(o.raw, w.managedLabel()))
		}
	}
}

// managedLabel returns the metadata with the label of what the plugin owns.
func (w *World) managedLabel() map[string]any {
	return map[string]any{"labels": map[string]string{abi.LabelManagedBy: w.plugin}}
}

// hostPart reports whether the host writes conditions and observedGeneration. On the
// kinds of Kubernetes itself (here those whose group has no dot) it writes no conditions but
// those that the manifest names, and observedGeneration where they have it, once the plugin has
// written the status: the policy of such a plugin lets it. It writes neither if it follows only
// the metadata, or the guest owns the status.
func (w *World) hostPart() (conditions, observed bool) {
	if w.controller.For.MetadataOnly || w.controller.StatusOwner == abi.StatusOwnerGuest {
		return false, false
	}
	if strings.Contains(w.controller.For.Group(), ".") {
		return true, true
	}
	return !w.controller.Conditions.IsZero(), w.wroteStatus && hasObservedGeneration(w.controller.For.Kind)
}

// hasObservedGeneration reports whether a kind of Kubernetes itself has status.observedGeneration.
func hasObservedGeneration(kind sdk.Kind) bool {
	switch kind.Group() {
	case "":
		return kind.Kind == "Pod" || kind.Kind == "ReplicationController"
	case "apps":
		return kind.Kind != "ControllerRevision"
	}
	return kind.Kind == "PodDisruptionBudget" || kind.Kind == "HorizontalPodAutoscaler"
}
