package rights

import (
	"strings"

	"github.com/thole-dev/thole/abi"
)

// Custom reports whether a kind is neither Kubernetes' own nor of one of its projects: the
// groups of those have no dot, or end in k8s.io or kubernetes.io.
func Custom(kind abi.Kind) bool {
	group := "." + kind.Group()
	return strings.Contains(kind.Group(), ".") && !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".kubernetes.io")
}

// own is the namespace of the primary.
var own = Reach{Own: true}

// withoutEntry is what a controller reaches of a kind that it follows or owns.
func withoutEntry(kind abi.Kind) Reach {
	if kind.Sensitive() {
		return Reach{}
	}
	return own
}

// Read returns where a controller may use a verb of reading on a kind that it follows.
func (all Entries) Read(kind abi.Kind, verb string) Reach {
	return all.Reach(kind, "", verb).Or(withoutEntry(kind))
}

// Reads is where a controller may read objects of a kind.
type Reads struct{ Get, List, Watch Reach }

// ReadsOf returns where a controller may read the kinds that it follows.
func (all Entries) ReadsOf(c *abi.Controller) map[abi.Kind]Reads {
	reads := map[abi.Kind]Reads{}
	for w := range c.Follows() {
		reads[w.Kind] = Reads{all.Read(w.Kind, Get), all.Read(w.Kind, List), all.Read(w.Kind, Watch)}
	}
	return reads
}

// Owned returns where a controller may use a verb of writing on objects of a kind in owns
// that belong to the primary, or come to.
func (all Entries) Owned(kind abi.Kind, verb string) Reach {
	return all.Reach(kind, "", verb).Or(withoutEntry(kind))
}

// PatchesPrimary reports whether a controller may patch its primary or, unless sub is "",
// a subresource of it. namespace is that of the primary, "" if it is cluster-scoped.
func (all Entries) PatchesPrimary(kind abi.Kind, sub, namespace string) bool {
	return namespace != "" && Custom(kind) || all.Reach(kind, sub, Patch).Has(namespace != "", namespace, namespace)
}
