package rights

import (
	"reflect"

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
