package rights

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// This file decides where the policy of a plugin lets it use a verb. These may say no when a plugin reads or writes an
// object, in this order:
//
//  1. The manifest, which declares kinds. Reads: dispatch/mayread.go. Writes: effect/scope.go, declaredKind.
//  2. The namespaces of the policy. Writes: effect/scope.go, mayChangeIn. Reads: they are part of what is followed.
//  3. The entries of the policy, and what needs none: the functions below. Reads: dispatch/mayread.go, of what ReadsOf
//     has returned at the start. Writes: effect/scope.go, allow and mayPatchPrimary, and effect/label.go. What a change
//     of a watched object makes due: dispatch/watches.go, mayConcern. What is given up: effect/release.go.
//  4. What is followed: namespaces, selectors, metadata alone. Reads: dispatch/mayread.go, by cache/scope.
//  5. Whose the object is. Writes: effect/scope.go, mayApply and mayDelete.
//  6. RBAC of the service account, unless the plugin acts as the host. Reads: dispatch/mayread.go, and changes:
//     dispatch/unanswered.go, by access/mayuse.go. Writes: the API server, to which they are sent as the account.
//
// Before that config/ceiling.go refuses a policy with more than the configuration allows, by Cover, and
// runner/policycheck.go a plugin whose manifest needs more than its policy has, by config/needs.go and Suffice.

// Followed returns where a controller may use a verb on a kind that it follows: one of reading on all objects, one of
// writing on those that belong to the primary, or come to.
func (all Entries) Followed(kind abi.Kind, verb string) Reach {
	return all.Reach(kind, "", verb).Or(followedWithoutEntry(kind))
}

// Primary returns where a controller may use a verb on its primaries or, unless sub is "", a subresource of them.
func (all Entries) Primary(kind abi.Kind, sub, verb string) Reach {
	return all.Reach(kind, sub, verb).Or(primaryWithoutEntry(kind))
}

// PatchesPrimary reports whether a controller may patch its primary or, unless sub is "",
// a subresource of it. namespace is that of the primary, "" if it is cluster-scoped.
func (all Entries) PatchesPrimary(kind abi.Kind, sub, namespace string) bool {
	return all.Primary(kind, sub, Patch).Has(namespace != "", namespace, namespace)
}

// own is the namespace of the primary.
var own = Reach{Own: true}

// followedWithoutEntry is what a controller reaches of a kind that it follows or owns.
func followedWithoutEntry(kind abi.Kind) Reach {
	if kind.Sensitive() {
		return Reach{}
	}
	return own
}

// primaryWithoutEntry is what a controller reaches of the kind of its primaries, to follow and to patch it.
func primaryWithoutEntry(kind abi.Kind) Reach {
	if Custom(kind) {
		return own
	}
	return Reach{}
}

// Custom reports whether a kind is neither Kubernetes' own nor of one of its projects: the
// groups of those have no dot, or end in k8s.io or kubernetes.io.
func Custom(kind abi.Kind) bool {
	group := "." + kind.Group()
	return strings.Contains(kind.Group(), ".") && !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".kubernetes.io")
}

// Reads is where a controller may read objects of a kind.
type Reads struct{ Get, List, Watch Reach }

// ReadsOf returns where a controller may read the kinds that it follows.
func (all Entries) ReadsOf(c *abi.Controller) map[abi.Kind]Reads {
	reads := map[abi.Kind]Reads{}
	for w := range c.Follows() {
		reads[w.Kind] = Reads{all.Followed(w.Kind, Get), all.Followed(w.Kind, List), all.Followed(w.Kind, Watch)}
	}
	return reads
}

// Reach returns where the entries alone allow a verb on a kind or, unless that is "", its subresource: what needs an
// entry, such as a kind in writes.
func (all Entries) Reach(kind abi.Kind, sub, verb string) (r Reach) {
	for _, e := range all {
		if has(e.Groups, kind.Group()) && has(e.Kinds, name(kind, sub)) && has(e.Verbs, verb) {
			r = r.Or(e.reach())
		}
	}
	return r
}

// reach returns the objects that an entry is about.
func (e Entry) reach() Reach {
	switch {
	case len(e.Namespaces) == 0:
		return Reach{Own: true, Cluster: true}
	case slices.Contains(e.Namespaces, Any):
		return Reach{All: true, Cluster: true}
	}
	return Reach{Named: e.Namespaces}
}

func has(all []string, one string) bool {
	return slices.Contains(all, one) || slices.Contains(all, Any)
}

// Reach is the set of objects of a kind on which a verb may be used.
type Reach struct {
	Own     bool     // those in the namespace of the primary
	Cluster bool     // all, if the kind is cluster-scoped
	All     bool     // those in every namespace
	Named   []string // those in these namespaces
}

// Has reports whether an object is among them. own is the namespace of the primary, "" for
// a cluster-scoped one.
func (r Reach) Has(namespaced bool, namespace, own string) bool {
	if !namespaced {
		return r.Cluster
	}
	return r.All || r.Own && own != "" && namespace == own || slices.Contains(r.Named, namespace)
}

// Namespaces returns the namespaces of a namespaced kind that a primary of the namespace
// own reaches, nil for all. If there are none the list is empty, and not nil.
func (r Reach) Namespaces(own string) []string {
	if r.All {
		return nil
	}
	all := slices.Clone(r.Named)
	if r.Own && own != "" {
		all = append(all, own)
	}
	slices.Sort(all)
	return slices.Compact(append([]string{}, all...))
}

// Or returns what is in one of both.
func (r Reach) Or(other Reach) Reach {
	return Reach{
		Own: r.Own || other.Own, Cluster: r.Cluster || other.Cluster, All: r.All || other.All,
		Named: slices.Concat(r.Named, other.Named),
	}
}

// And returns what is in both, whatever the namespace of the primary is: that this is also
// one of the named ones does not count.
func (r Reach) And(other Reach) Reach {
	both := Reach{
		Own: (r.Own || r.All) && (other.Own || other.All), Cluster: r.Cluster && other.Cluster, All: r.All && other.All,
	}
	for _, pair := range [][2]Reach{{r, other}, {other, r}} {
		for _, name := range pair[0].Named {
			if (pair[1].All || slices.Contains(pair[1].Named, name)) && !slices.Contains(both.Named, name) {
				both.Named = append(both.Named, name)
			}
		}
	}
	return both
}

// Cover reports whether the entries allow everything that another one allows.
func (all Entries) Cover(other Entry) bool {
	namespaces := other.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, group := range other.Groups {
		for _, kind := range other.Kinds {
			for _, namespace := range namespaces {
				if !all.coverVerbs(group, kind, namespace, other.Verbs) {
					return false
				}
			}
		}
	}
	return true
}

// coverVerbs reports whether the entries allow verbs on a kind in a namespace, "" for that
// of the primary. Any of these is only allowed by Any.
func (all Entries) coverVerbs(group, kind, namespace string, verbs []string) bool {
	missing := slices.Clone(verbs)
	if slices.Contains(verbs, Any) {
		missing = Verbs()
	}
	for _, e := range all {
		if has(e.Groups, group) && has(e.Kinds, kind) && e.hasNamespace(namespace) {
			missing = slices.DeleteFunc(missing, func(verb string) bool { return has(e.Verbs, verb) })
		}
	}
	return len(missing) == 0
}

func (e Entry) hasNamespace(namespace string) bool {
	return namespace == "" && len(e.Namespaces) == 0 || has(e.Namespaces, namespace)
}
