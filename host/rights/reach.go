package rights

import "slices"

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

// isReached reports whether any object of a kind may be reached by primaries that are
// namespaced or not. selected are the namespaces of the kind to which the manifest
// restricts itself, none for all.
func (r Reach) isReached(namespaced, primaryNamespaced bool, selected []string) bool {
	switch {
	case !namespaced:
		return r.Cluster
	case r.All, r.Own && primaryNamespaced:
		return true
	case len(selected) == 0:
		return len(r.Named) > 0
	}
	return slices.ContainsFunc(r.Named, func(name string) bool { return slices.Contains(selected, name) })
}
