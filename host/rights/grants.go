package rights

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// This file is the one list of the verbs that the host uses for a plugin, and of those that the
// API server or the host asks for in its name: host/cache, host/effect, host/access
// and the recorder of Events do no more.

// target is what a right of RBAC is about; "" as in [Rule].
type target struct{ namespace, group, resource, subresource, name string }

// grant is the right to one verb.
type grant struct {
	target
	verb   string
	use    string
	reason reason
}

// reason is who needs a right.
type reason int

const (
	// followed is needed by the host, to fill its cache and to emit Events.
	followed reason = iota
	// checked is asked for by the host, before the account gets something of the cache.
	checked
	// sent is needed for a request of a plugin, by whom it acts as.
	sent
	// implied is asked for by the API server beside what is sent.
	implied
	// lost is needed by the host for the plugin's own writes, unless it sends them itself: it
	// may read them then.
	lost
)

const (
	finalizers = "finalizers" // the subresource that must be writable for owner references
	update     = "update"     // the verb for it. The host sends none

	readAfterLoss    = "read an object of which it is not known whether it was written"
	ownerEnforcement = "the API server runs the admission plugin OwnerReferencesPermissionEnforcement"
)

// grants returns what is needed for a plugin, in the order of its manifest.
func (all Entries) grants(m *abi.Manifest, namespaces []string, resources Resources) (grants []grant) {
	narrowed := all.Narrow(m)
	for i := range narrowed.Controllers {
		n := needer{Entries: all, controller: &narrowed.Controllers[i], namespaces: namespaces, resources: resources}
		n.managed = m.Managed
		n.addAll()
		grants = append(grants, n.grants...)
	}
	return grants
}

// needer collects what one controller needs.
type needer struct {
	Entries
	controller *abi.Controller // restricted to what the entries allow it to follow
	managed    bool
	namespaces []string // of the plugin; nil for all
	resources  Resources

	namespaced bool     // the primaries
	primaries  []string // their namespaces, nil for all
	grants     []grant
}

func (n *needer) addAll() {
	c := n.controller
	primary, served := n.resources(c.For.Kind)
	n.namespaced = primary.Namespaced || !served
	n.primaries = n.within(object.Resource{Namespaced: n.namespaced}, c.For)
	if served {
		n.addPrimary(primary)
	}
	for _, w := range c.Owns {
		if r, ok := n.resources(w.Kind); ok {
			n.addOwned(r, w)
		}
	}
	for _, w := range c.Reads {
		if r, ok := n.resources(w.Kind); ok {
			n.addFollowed(r, w, Get, List)
		}
	}
	for _, w := range c.Watches {
		if r, ok := n.resources(w.Kind); ok {
			n.addFollowed(r, w.Followed, reading...)
		}
	}
	for _, kind := range c.Writes {
		if r, ok := n.resources(kind); ok {
			n.addWritten(r)
		}
	}
	if len(c.Owns) > 0 && served {
		n.add(implied, primary, finalizers, "owner references that block the owner's deletion", n.primaries, update)
	}
	n.addEvents()
}

// addPrimary adds what is needed for the objects that the controller reconciles.
func (n *needer) addPrimary(r object.Resource) {
	c := n.controller
	n.addFollowed(r, c.For, Get, List)
	n.add(checked, r, "", "run the plugin for an object", n.primaries, Get)
	n.add(sent, r, "", "read an object that has changed during a run", n.primaries, Get)
	n.add(lost, r, "", readAfterLoss, n.primaries, Get)
	patched := func(sub string) []string { return n.beside(r, n.Primary(r.Kind, sub, Patch)) }
	if c.Finalizer {
		n.add(sent, r, "", "add and remove the finalizer", patched(""), Patch)
	}
	n.add(sent, r, "", "the patch of a result", patched(""), Patch)
	if c.For.MetadataOnly {
		return
	}
	sub := ""
	if r.Status {
		sub = Status
	}
	n.add(sent, r, sub, "status and conditions", patched(sub), Patch)
}

// addFollowed adds what is needed to follow a kind, and for the plugin to use verbs on what is
// followed.
func (n *needer) addFollowed(r object.Resource, w abi.Followed, verbs ...string) {
	n.add(followed, r, "", "keep the cache", n.within(r, w), follow(r)...)
	for _, verb := range verbs {
		text := "what the plugin reads"
		if verb == Watch {
			text = "run the plugin when it changes"
		}
		n.add(checked, r, "", text, both(n.reached(r, n.Followed(r.Kind, verb)), n.within(r, w)), verb)
	}
}

// follow returns the verbs with which an informer follows a kind.
func follow(r object.Resource) []string {
	if r.Polled {
		return []string{List}
	}
	return []string{List, Watch}
}

// addOwned adds what is needed for a kind in owns.
func (n *needer) addOwned(r object.Resource, w abi.Followed) {
	n.addFollowed(r, w, reading...)
	n.addWrites(r, func(verb string) []string { return n.beside(r, n.Followed(r.Kind, verb)) })
	if !n.managed {
		return
	}
	everywhere := n.namespaces
	if !r.Namespaced {
		everywhere = nil
	}
	const label = "label what was applied before the plugin had managed children"
	n.add(sent, r, "", label, everywhere, List)
	n.add(sent, r, "", label, n.beside(r, n.Followed(r.Kind, Patch)), Patch)
	n.add(sent, r, "", "read an object that the plugin has not applied", both(n.reached(r, n.Followed(r.Kind, Get)), n.within(r, w)), Get)
}

// addWritten adds what is needed for a kind in writes.
func (n *needer) addWritten(r object.Resource) {
	everywhere := n.within(r, abi.Followed{})
	covered := false
	for w := range n.controller.Follows() {
		covered = covered || w.Kind == r.Kind && len(w.Namespaces) == 0
	}
	if !covered {
		n.add(followed, r, "", "follow what was written (optional)", everywhere, follow(r)...)
	}
	n.addWrites(r, func(verb string) []string { return n.reached(r, n.Reach(r.Kind, "", verb)) })
}

// addWrites adds what is needed for applies and deletes. Server-side apply of an object that
// does not exist is a patch that also needs create, which an apply that only creates is itself.
func (n *needer) addWrites(r object.Resource, in func(verb string) []string) {
	for _, verb := range writing {
		n.add(sent, r, "", "check the owner of an object before a write", in(verb), Get)
		n.add(lost, r, "", readAfterLoss, in(verb), Get)
	}
	const apply = "the apply of a result"
	n.add(sent, r, "", apply, in(Create), Create)
	n.add(sent, r, "", apply, in(Patch), Patch)
	n.add(sent, r, "", "the delete of a result", in(Delete), Delete)
}

// addEvents adds what is needed to emit Events, which are in the namespace of the primary.
func (n *needer) addEvents() {
	events := object.Resource{Namespaced: true}
	events.GVR.Resource = "events"
	in := n.primaries
	if !n.namespaced {
		in = []string{"default"} // where client-go puts them
	}
	n.add(followed, events, "", "create Kubernetes Events", in, Create, Patch)
}

// add adds the right to verbs in some namespaces, nil for all.
func (n *needer) add(why reason, r object.Resource, sub, use string, in []string, verbs ...string) {
	if in == nil {
		in = []string{""}
	}
	for _, namespace := range in {
		for _, verb := range verbs {
			if verb == Patch && sub == "" && r.ReadOnly {
				continue
			}
			at := target{namespace: namespace, group: r.GVR.Group, resource: r.GVR.Resource, subresource: sub}
			n.grants = append(n.grants, grant{at, verb, use, why})
		}
	}
}

// within returns the namespaces in which a kind is followed, nil for all.
func (n *needer) within(r object.Resource, w abi.Followed) []string {
	if !r.Namespaced {
		return nil
	}
	if len(w.Namespaces) == 0 {
		return n.namespaces
	}
	return both(w.Namespaces, n.namespaces)
}

// reached returns the namespaces in which objects are reached, nil for all.
func (n *needer) reached(r object.Resource, reach Reach) []string {
	switch {
	case !r.Namespaced && reach.Cluster:
		return nil
	case !r.Namespaced:
		return []string{}
	case reach.All, reach.Own && n.namespaced && n.primaries == nil:
		return n.namespaces
	}
	in := append([]string{}, reach.Named...)
	if reach.Own && n.namespaced {
		in = append(in, n.primaries...)
	}
	return both(in, n.namespaces)
}

// beside returns the namespaces in which objects in the namespace of their primary are reached,
// nil for all: those that belong to it, and the primary itself.
func (n *needer) beside(r object.Resource, reach Reach) []string {
	if n.namespaced && !r.Namespaced {
		return []string{} // it cannot belong to a namespaced primary
	}
	return both(n.reached(r, reach), n.primaries)
}

// both returns the namespaces that are in both lists, of which nil stands for all, sorted. If
// there are none it is an empty list, and not nil.
func both(a, b []string) []string {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		a = b
	case b != nil:
		a = slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
	}
	in := append([]string{}, a...)
	slices.Sort(in)
	return slices.Compact(in)
}

// SecretRef names a Secret, in a policy.
type SecretRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// secretGrants returns what is needed to read Secrets with the credentials of other systems.
func secretGrants(refs []SecretRef) (grants []grant) {
	for _, ref := range refs {
		at := target{namespace: ref.Namespace, resource: "secrets", name: ref.Name}
		grants = append(grants, grant{target: at, verb: Get, use: "send the credential of another system", reason: sent})
	}
	return grants
}
