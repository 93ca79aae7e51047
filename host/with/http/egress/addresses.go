package egress

import (
	"errors"
	"net/netip"
	"slices"
)

// addresses are the ones that an entry allows.
type addresses struct {
	prefixes     []netip.Prefix
	loopbackOnly bool // public ones are not allowed
}

// words are what [Entry].Addresses may have beside CIDRs.
var words = map[string][]netip.Prefix{
	string(classLoopback):  prefixesOf(classLoopback),
	string(classPrivate):   prefixesOf(classPrivate),
	string(classLinkLocal): prefixesOf(classLinkLocal),
}

func prefixesOf(c class) (all []netip.Prefix) {
	for _, s := range special {
		if s.class == c {
			all = append(all, s.prefix)
		}
	}
	return all
}

// parseAddresses returns the prefixes of an element of [Entry].Addresses.
func parseAddresses(text string) ([]netip.Prefix, error) {
	if prefixes, ok := words[text]; ok {
		return prefixes, nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return nil, errors.New("must be loopback, private, link-local or a CIDR such as 10.1.0.0/16 or 10.1.2.3/32")
	case prefix != prefix.Masked():
		return nil, errors.New("must be a CIDR without bits behind its prefix, such as " + prefix.Masked().String())
	case prefix.Addr().Is4In6():
		return nil, errors.New("must be a CIDR of IPv4, such as 10.1.0.0/16")
	}
	return []netip.Prefix{prefix}, nil
}

// addresses returns what an entry allows.
func (e Entry) addresses() (a addresses) {
	for _, text := range e.Addresses {
		prefixes, _ := parseAddresses(text) // the entry was checked
		a.prefixes = append(a.prefixes, prefixes...)
	}
	a.loopbackOnly = e.SecretRef != nil && e.scheme() == http1
	return a
}

// allow reports whether an address may be dialled, else the class of what is not allowed in
// it.
func (a addresses) allow(addr netip.Addr) (denied class, ok bool) {
	for _, form := range forms(addr) {
		if c := classify(form); !a.allowForm(form, c) {
			return c, false
		}
	}
	return "", true
}

func (a addresses) allowForm(addr netip.Addr, c class) bool {
	switch {
	case c == classPublic && !a.loopbackOnly:
		return true
	case c == classMetadata:
		return slices.Contains(a.prefixes, single(addr))
	}
	return slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// single returns the prefix of one address.
func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// coverPrefix reports whether all addresses of a prefix are allowed. A prefix of a metadata
// address alone is only covered by itself.
func (a addresses) coverPrefix(other netip.Prefix) bool {
	if other.IsSingleIP() && classify(other.Addr()) == classMetadata {
		return slices.Contains(a.prefixes, other)
	}
	return slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool {
		return p.Bits() <= other.Bits() && p.Contains(other.Addr())
	})
}

// allLoopback reports whether there are addresses, and all are loopback ones.
func (a addresses) allLoopback() bool {
	loopback := addresses{prefixes: words[string(classLoopback)]}
	return len(a.prefixes) > 0 && !slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool { return !loopback.coverPrefix(p) })
}
