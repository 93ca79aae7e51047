package rights

import (
	"reflect"
	"slices"

	"github.com/thole-dev/thole/abi"
)

// Entry allows verbs on the objects of some kinds: every verb of the list on every kind
// of the list in every group of the list.
type Entry struct {
	// Groups are API groups; '' is the core group, and '*' stands for all.
	Groups []string `json:"groups"`
	// Kinds are such as Deployment, or Deployment/status for the status of Deployments;
	// '*' stands for all, and their status.
	Kinds []string `json:"kinds"`
	// Verbs are some of get, list, watch, create, patch and delete; '*' stands for all.
	Verbs []string `json:"verbs"`
	// Namespaces are those of the objects; '*' stands for all. Without the field the entry
	// is for the namespace of the primary object. Cluster-scoped objects are reached
	// without the field, or by '*'.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Entries are what a policy allows beyond what needs no entry.
type Entries []Entry

// Equal reports whether both are the same, in the same order.
func (all Entries) Equal(other Entries) bool { return reflect.DeepEqual(all, other) }

// Any stands for all groups, kinds, verbs or namespaces in an [Entry].
const Any = "*"

// Everything allows every verb on everything.
func Everything() Entries {
	any := []string{Any}
	return Entries{{Groups: any, Kinds: any, Verbs: any, Namespaces: any}}
}

// The verbs that the host uses, named as in RBAC. A server-side apply is a patch, which
// needs create, too, for an object that does not exist; one that only creates is no patch. update is
// never used.
const (
	Get    = "get"
	List   = "list"
	Watch  = "watch"
	Create = "create"
	Patch  = "patch"
	Delete = "delete"
)

// Verbs returns all verbs, in the order in which they are printed.
func Verbs() []string { return []string{Get, List, Watch, Create, Patch, Delete} }

var (
	reading = []string{Get, List, Watch}
	writing = []string{Create, Patch, Delete}
)

// Status is the subresource of an object's status.
const Status = "status"

// name returns a kind as it is written in an entry, with the subresource unless that
// is "".
func name(kind abi.Kind, sub string) string {
	if sub == "" {
		return kind.Kind
	}
	return kind.Kind + "/" + sub
}

// Reach returns where the entries allow a verb on a kind or, unless that is "", its
// subresource.
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

// Combinations returns how many combinations of group, kind, verb and namespace the entries
// name, which is what it costs to compare them.
func (all Entries) Combinations() (n int) {
	for _, e := range all {
		n += len(e.Groups) * len(e.Kinds) * len(e.Verbs) * max(1, len(e.Namespaces))
	}
	return n
}

// EntryExample returns an entry as people write it.
func (Entries) EntryExample() string {
	return "such as {groups: [''], kinds: [ConfigMap], verbs: [get, list, watch], namespaces: [a]}"
}
