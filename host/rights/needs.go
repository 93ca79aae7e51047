package rights

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// need is what a controller needs of a kind.
type need struct {
	kind       abi.Kind
	sub        string
	reads      bool     // get, list and watch
	writes     []string // one of these at least
	patches    bool     // the primary
	namespaces []string // to which the manifest restricts itself
	reach      Reach    // what it has without an entry
	primary    bool     // the kind is that of for
	anyPrimary bool     // it is for calls that are for no primary

	namespaced        bool // the kind
	primaryNamespaced bool
}

// Resources returns how the API server serves a kind. It reports false if that is not
// known.
type Resources func(abi.Kind) (object.Resource, bool)

// Asked is what a plugin asks for.
type Asked struct {
	Manifest  *abi.Manifest
	Resources Resources
	// Uses returns what capabilities do with the primaries of a controller. nil stands for nothing.
	Uses func(c *abi.Controller) Use
}

// Use is what a capability does with the primaries of a controller.
type Use struct {
	// ForNoObject is set if the guest is called for none of them: such calls read them in all namespaces that the
	// controller follows, none of which is their own.
	ForNoObject bool
	Patches     string // what the host patches them for, such as "Cleanup" of a controller of the SDK; "" for nothing
}

// CompletedFor returns the entries, and those that a plugin needs beside them and what needs
// no entry. Those of a write have every verb: which of them a plugin uses is not in its
// manifest.
func (all Entries) CompletedFor(asked Asked) Entries {
	var t tally
	asked.eachNeed(func(n need) {
		if !n.isMet(all) {
			t.add(n)
		}
	})
	return slices.Concat(all, t.entries())
}

// Suffice reports whether a plugin needs no more than the entries, and what needs none.
func (all Entries) Suffice(asked Asked) bool {
	met := true
	asked.eachNeed(func(n need) { met = met && n.isMet(all) })
	return met
}

// eachNeed calls do for what the controllers need. A kind of which it is not known how it is
// served is taken for a namespaced one.
func (a Asked) eachNeed(do func(need)) {
	namespaced := func(kind abi.Kind) bool {
		r, known := a.Resources(kind)
		return r.Namespaced || !known
	}
	for i := range a.Manifest.Controllers {
		c := &a.Manifest.Controllers[i]
		var use Use
		if a.Uses != nil {
			use = a.Uses(c)
		}
		all := needs(c, use, a.Resources)
		if use.ForNoObject {
			all = append(all, need{kind: c.For.Kind, reads: true, namespaces: c.For.Namespaces, anyPrimary: true})
		}
		for _, n := range all {
			n.namespaced, n.primaryNamespaced = namespaced(n.kind), namespaced(c.For.Kind) && !n.anyPrimary
			do(n)
		}
	}
}

// needs returns what a controller needs.
func needs(c *abi.Controller, use Use, resources Resources) (out []need) {
	out = primaryNeeds(c, use, resources)
	for _, w := range c.Owns {
		out = append(out, need{kind: w.Kind, reads: true, writes: writing, reach: followedWithoutEntry(w.Kind)})
	}
	for _, w := range c.Reads {
		out = append(out, need{kind: w.Kind, reads: true, namespaces: w.Namespaces, reach: followedWithoutEntry(w.Kind)})
	}
	for _, w := range c.Watches {
		out = append(out, need{kind: w.Kind, reads: true, namespaces: w.Namespaces, reach: followedWithoutEntry(w.Kind)})
	}
	for _, kind := range c.Writes {
		out = append(out, need{kind: kind, writes: writing})
	}
	return out
}

// primaryNeeds returns what a controller needs of its primary: to follow it, and to write
// what it certainly writes.
func primaryNeeds(c *abi.Controller, use Use, resources Resources) []need {
	r, known := resources(c.For.Kind)
	n := need{
		kind: c.For.Kind, reads: true, patches: c.Finalizer || use.Patches != "", namespaces: c.For.Namespaces, primary: true,
		reach: primaryWithoutEntry(c.For.Kind),
	}
	status := need{kind: n.kind, sub: Status, patches: true, namespaces: n.namespaces, primary: true, reach: n.reach}
	switch {
	case !object.WritesStatus(c):
		return []need{n}
	case known && !r.Status:
		n.patches = true
		return []need{n}
	}
	return []need{n, status}
}

// isMet reports whether the entries, and what needs none, are enough.
func (n need) isMet(all Entries) bool {
	of := func(verb string) Reach { return all.Reach(n.kind, n.sub, verb).Or(n.reach) }
	reached := func(r Reach) bool { return r.isReached(n.namespaced, n.primaryNamespaced, n.namespaces) }
	followed := Reach{Own: true, Cluster: true, All: true}
	if n.reads {
		followed = of(Get).And(of(List)).And(of(Watch))
	}
	if n.patches {
		followed = followed.And(of(Patch))
	}
	return reached(followed) &&
		(n.writes == nil || slices.ContainsFunc(n.writes, func(verb string) bool { return reached(of(verb)) }))
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

// verbs returns all verbs of a need.
func (n need) verbs() (verbs []string) {
	if n.reads {
		verbs = append(verbs, reading...)
	}
	if n.patches {
		verbs = append(verbs, Patch)
	}
	return append(verbs, n.writes...)
}

// Narrow returns the manifest with the namespaces to which the entries restrict what it
// follows, so that no more is followed than may be read.
func (all Entries) Narrow(m *abi.Manifest) *abi.Manifest {
	narrowed := *m
	narrowed.Controllers = slices.Clone(m.Controllers)
	for i := range narrowed.Controllers {
		c := &narrowed.Controllers[i]
		c.For = all.narrow(c.For, primaryWithoutEntry(c.For.Kind))
		c.Owns, c.Reads, c.Watches = slices.Clone(c.Owns), slices.Clone(c.Reads), slices.Clone(c.Watches)
		for _, list := range [][]abi.Followed{c.Owns, c.Reads} {
			for j := range list {
				list[j] = all.narrow(list[j], followedWithoutEntry(list[j].Kind))
			}
		}
		for j := range c.Watches {
			c.Watches[j].Followed = all.narrow(c.Watches[j].Followed, followedWithoutEntry(c.Watches[j].Kind))
		}
	}
	return &narrowed
}

// narrow restricts what is followed of a kind to the namespaces that the entries name,
// unless they, or what needs no entry, allow more.
func (all Entries) narrow(w abi.Followed, without Reach) abi.Followed {
	of := func(verb string) Reach { return all.Reach(w.Kind, "", verb).Or(without) }
	r := of(Get).And(of(List)).And(of(Watch))
	if r.All || r.Own || len(r.Named) == 0 {
		return w
	}
	if len(w.Namespaces) == 0 {
		w.Namespaces = r.Named
		return w
	}
	selected := slices.DeleteFunc(slices.Clone(w.Namespaces), func(name string) bool { return !slices.Contains(r.Named, name) })
	if len(selected) == 0 { // which would stand for all
		selected = r.Named
	}
	w.Namespaces = selected
	return w
}
