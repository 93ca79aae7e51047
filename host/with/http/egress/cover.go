package egress

import (
	"net/netip"
	"slices"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
)

// Cover reports whether the entries allow everything that another one allows. Its methods may
// be spread over several of them.
func (all Entries) Cover(other Entry) bool {
	return !slices.ContainsFunc(other.methods(), func(method string) bool {
		return !slices.ContainsFunc(all, func(e Entry) bool { return slices.Contains(e.methods(), method) && e.covers(other) })
	})
}

// covers reports whether an entry allows what another one allows, for the methods that both
// have. A proxy is also what keeps requests from going out directly, and so must be the same.
// So must be the header of a credential, which a server may log, and whom a server that
// gets a credential is verified by.
func (e Entry) covers(other Entry) bool {
	return e.scheme() == other.scheme() && e.pattern().covers(other.pattern()) &&
		e.Proxy == other.Proxy && e.coversAddresses(other) && e.coversCredential(other) && e.coversCA(other)
}

func (e Entry) coversAddresses(other Entry) bool {
	return e.coversPublic(other) && !slices.ContainsFunc(other.addresses().prefixes, func(p netip.Prefix) bool { return !e.addresses().coverPrefix(p) })
}

// coversPublic reports whether an entry allows the public addresses that another one does. One with a
// credential by http allows none; an address as the host is what is dialled.
func (e Entry) coversPublic(other Entry) bool {
	own := e.addresses()
	if !own.loopbackOnly || other.addresses().loopbackOnly {
		return true
	}
	addr := other.pattern().addr
	_, allowed := own.allow(addr)
	return addr.IsValid() && allowed
}

func (e Entry) coversCredential(other Entry) bool {
	return other.SecretRef == nil || e.SecretRef != nil && *e.SecretRef == *other.SecretRef && e.Header == other.Header
}

func (e Entry) coversCA(other Entry) bool {
	return e.CA == other.CA || e.CA == "" && other.SecretRef == nil
}

// Missing returns the entries that a manifest needs beside these, one for each host that they
// do not allow with all its methods. Of a host with a wildcard it is enough that an entry
// is about some of it.
func (all Entries) Missing(m *abi.Manifest) (missing Entries) {
	for _, c := range m.Controllers {
		for _, h := range contract.HostsOf(&c) {
			if e, needed := all.missing(h); needed && !missing.Cover(e) {
				missing = append(missing, e)
			}
		}
	}
	return missing
}

// missing returns the entry that a host of a manifest needs beside these.
func (all Entries) missing(h contract.Host) (Entry, bool) {
	declared, err := parsePattern(h.Host)
	lacking := slices.DeleteFunc(slices.Clone(methodsOr(h.Methods)), func(method string) bool {
		return slices.ContainsFunc(all, func(e Entry) bool {
			return err == nil && slices.Contains(e.methods(), method) && meets(declared, e)
		})
	})
	some := declared.hasWildcard() && len(lacking) < len(methodsOr(h.Methods))
	return Entry{Host: h.Host, Methods: lacking}, len(lacking) > 0 && !some
}

// meets reports whether an entry is about the host that a manifest declares.
func meets(declared pattern, e Entry) bool {
	of := e.pattern()
	if declared.every && declared.port == 0 {
		return true
	}
	declared = declared.of(e.scheme())
	if declared.hasWildcard() {
		return of.overlaps(declared)
	}
	return of.covers(declared)
}

// WithoutWildcards returns the entries whose hosts have no wildcard, and whether these are all.
func (all Entries) WithoutWildcards() (some Entries, complete bool) {
	some = slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return e.pattern().hasWildcard() })
	return some, len(some) == len(all)
}

// Secrets returns the Secrets that the entries name, each once.
func (all Entries) Secrets() (refs []SecretRef) {
	for _, e := range all {
		if e.SecretRef != nil && !slices.Contains(refs, *e.SecretRef) {
			refs = append(refs, *e.SecretRef)
		}
	}
	return refs
}
