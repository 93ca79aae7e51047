package scope

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// Scope is which objects of a kind are followed. It is not changed once it is made.
type Scope struct {
	Kind       abi.Kind
	Namespaces []string        // sorted; nil for all. Those of a cluster-scoped kind do not count
	Labels     labels.Selector // nil for everything
	Fields     fieldpath.Selector
	// MetadataOnly is set if nothing but apiVersion, kind and metadata is followed.
	MetadataOnly bool
	// Managed is set if Labels selects what a plugin owns. A list need not name it.
	Managed bool
}

// All returns the scope with all of every object of a kind.
func All(kind abi.Kind) Scope { return Scope{Kind: kind} }

// Of returns the scope of an entry of a manifest. The error says which selector cannot be
// parsed.
func Of(w abi.Followed) (s Scope, err error) {
	s = Scope{Kind: w.Kind, MetadataOnly: w.MetadataOnly, Namespaces: sorted(w.Namespaces)}
	if w.LabelSelector != "" {
		if s.Labels, err = labels.Parse(w.LabelSelector); err != nil {
			return s, fmt.Errorf("%s: labelSelector %q: %w", w.Kind, w.LabelSelector, err)
		}
		if s.Labels.Empty() {
			s.Labels = nil
		}
	}
	if s.Fields, err = fieldpath.ParseSelector(w.FieldSelector); err != nil {
		return s, fmt.Errorf("%s: fieldSelector %q: %w", w.Kind, w.FieldSelector, err)
	}
	return s, nil
}

// LabelSelector returns the label selector as text, the same one for selectors that are
// equal.
func (s Scope) LabelSelector() string {
	if s.Labels == nil {
		return ""
	}
	return s.Labels.String()
}

// FieldSelector returns the field selector as text, the same one for selectors that are
// equal.
func (s Scope) FieldSelector() string {
	var all []string
	for _, r := range s.Fields {
		all = append(all, textOf(r))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func textOf(r fieldpath.Requirement) string {
	operator := "="
	if r.Not {
		operator = "!="
	}
	return r.Path.String() + operator + fields.EscapeValue(r.Value)
}

// String describes the scope, such as "v1 Pod (labelSelector app=x)".
func (s Scope) String() string {
	return Describe(abi.Followed{Kind: s.Kind, Selector: abi.Selector{
		Namespaces: s.Namespaces, LabelSelector: s.LabelSelector(), FieldSelector: s.FieldSelector(), MetadataOnly: s.MetadataOnly,
	}})
}

// Describe describes an entry of a manifest, as [Scope.String] does, and what more is known
// of it.
func Describe(w abi.Followed, more ...string) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("namespaces", strings.Join(w.Namespaces, ", "))
	add("labelSelector", w.LabelSelector)
	add("fieldSelector", w.FieldSelector)
	if w.MetadataOnly {
		parts = append(parts, "metadata only")
	}
	if w.PollInterval > 0 {
		add("pollInterval", (time.Duration(max(w.PollInterval, 1000)) * time.Millisecond).String())
	}
	if parts = append(parts, more...); parts == nil {
		return w.Kind.String()
	}
	return w.Kind.String() + " (" + strings.Join(parts, "; ") + ")"
}

// Selects reports whether the scope depends on more than the namespace and name of
// an object: of one that is not among those followed it is not known whether it exists.
func (s Scope) Selects() bool { return s.Labels != nil || len(s.Fields) > 0 }

// HasNamespace reports whether objects of a namespace can be in the scope. "" stands for
// a cluster-scoped object.
func (s Scope) HasNamespace(namespace string) bool {
	return s.Namespaces == nil || namespace == "" || slices.Contains(s.Namespaces, namespace)
}

// Has reports whether an object is in the scope, as far as the object shows it: see
// coversFields.
func (s Scope) Has(o *object.Object) bool { return s.has(o, s.Fields) }

// HasSelected reports whether an object of an informer is in the scope. What the API server
// has selected by fields is not compared again.
func (s Scope) HasSelected(o *object.Object) bool {
	return s.has(o, slices.DeleteFunc(slices.Clone(s.Fields), func(r fieldpath.Requirement) bool { return !isIdentity(r) }))
}

// HasWritten reports whether an object is in the scope that was written. before is that of
// the informer, nil if it had none: as long as the values of the fields by which the API
// server selects stay the same, so does whether it selects the object.
func (s Scope) HasWritten(o, before *object.Object) bool {
	return s.HasSelected(o) && !slices.ContainsFunc(s.Fields, func(r fieldpath.Requirement) bool {
		values := r.Path.Values(o.Raw)
		return !r.Matches(values) && (before == nil || !slices.Equal(values, r.Path.Values(before.Raw)))
	})
}

func (s Scope) has(o *object.Object, fields fieldpath.Selector) bool {
	return s.HasNamespace(o.Namespace) && (s.Labels == nil || s.Labels.Matches(labels.Set(o.Labels))) &&
		(len(fields) == 0 || fields.Matches(o.Raw))
}

// Covers reports whether everything of the other scope of the kind is in this one, and can
// be found in it.
func (s Scope) Covers(other Scope) bool {
	return s.Kind == other.Kind &&
		HasNamespaces(s.Namespaces, other.Namespaces) &&
		implies(other.Labels, s.Labels) &&
		coversFields(s, other) &&
		(!s.MetadataOnly || other.MetadataOnly)
}

// HasNamespaces reports whether all of the wanted namespaces are among others. nil stands for
// all.
func HasNamespaces(all, wanted []string) bool {
	return all == nil ||
		wanted != nil && !slices.ContainsFunc(wanted, func(n string) bool { return !slices.Contains(all, n) })
}

// coversFields compares field selectors. What the API server means by a field is known
// of name and namespace alone: others may have defaults, or be no fields of the object at
// all. A scope with them is only covered by one that has them too.
func coversFields(s, other Scope) bool {
	for _, r := range s.Fields {
		if !hasField(other.Fields, r) {
			return false
		}
	}
	for _, r := range other.Fields {
		if !isIdentity(r) && !hasField(s.Fields, r) {
			return false
		}
	}
	return true
}

func hasField(all fieldpath.Selector, r fieldpath.Requirement) bool {
	text := textOf(r)
	return slices.ContainsFunc(all, func(other fieldpath.Requirement) bool { return textOf(other) == text })
}

func isIdentity(r fieldpath.Requirement) bool {
	path := r.Path.String()
	return path == "metadata.name" || path == "metadata.namespace"
}

// Within returns the scope with those of its namespaces that are also in the list, of which
// nil stands for all. If there are none the list is empty, and not nil.
func (s Scope) Within(namespaces []string) Scope {
	switch {
	case s.Namespaces == nil:
		s.Namespaces = namespaces
	case namespaces != nil:
		s.Namespaces = slices.DeleteFunc(slices.Clone(s.Namespaces), func(n string) bool { return !slices.Contains(namespaces, n) })
	}
	return s
}

// Without returns the scope without what is certain of every object of another scope that
// covers it.
func (s Scope) Without(other Scope) Scope {
	rest := Scope{Kind: s.Kind, MetadataOnly: s.MetadataOnly && !other.MetadataOnly}
	if !slices.Equal(s.Namespaces, other.Namespaces) {
		rest.Namespaces = s.Namespaces
	}
	if !implies(other.Labels, s.Labels) {
		rest.Labels = s.Labels
	}
	for _, r := range s.Fields {
		if !hasField(other.Fields, r) {
			rest.Fields = append(rest.Fields, r)
		}
	}
	return rest
}

// Join returns a scope that covers two of a kind: the narrowest of the scopes that have
// either the selectors of both or none.
func Join(a, b Scope) Scope {
	switch {
	case a.Covers(b):
		return a
	case b.Covers(a):
		return b
	}
	both := Scope{Kind: a.Kind, Namespaces: union(a.Namespaces, b.Namespaces), MetadataOnly: a.MetadataOnly && b.MetadataOnly}
	if a.LabelSelector() == b.LabelSelector() {
		both.Labels, both.Managed = a.Labels, a.Managed && b.Managed
	}
	for _, r := range a.Fields {
		if hasField(b.Fields, r) {
			both.Fields = append(both.Fields, r)
		}
	}
	return both
}

func union(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
