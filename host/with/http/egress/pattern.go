package egress

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// pattern stands for hosts, of an entry or a manifest. The zero value matches none.
type pattern struct {
	every bool       // all names and addresses
	below string     // names that end with it, which begins with a dot
	name  string     // one name
	addr  netip.Addr // one address
	port  uint16     // 0: that of the scheme
}

var errPattern = errors.New("must be a host in lower case with a port unless that is the default of the scheme, such as api.example.com or 192.0.2.1:8443, or '*.example.com', or '*' for all")

// parsePattern parses the host of an entry or a manifest. The error states what is wrong.
func parsePattern(text string) (p pattern, err error) {
	host := text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		host = text[:i]
		if p.port, err = parsePort(text[i+1:]); err != nil {
			return pattern{}, err
		}
	}
	if host == "*" {
		p.every = true
		return p, nil
	}
	below, wildcard := strings.CutPrefix(host, "*.")
	name, addr, err := parseHost(below)
	switch {
	case err != nil:
		return pattern{}, errors.Join(errPattern, err)
	case name != "" && name != below, wildcard && name == "":
		return pattern{}, errPattern // another spelling would be another host to the reader
	case wildcard:
		p.below = "." + name
	default:
		p.name, p.addr = name, addr
	}
	return p, nil
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || text[0] == '0' || text[0] == '+' {
		return 0, errors.New("the port must be a number between 1 and 65535, without zeros before it")
	}
	return uint16(port), nil
}

// of returns the pattern with the port of a scheme, unless it has one.
func (p pattern) of(scheme string) pattern {
	if p.port == 0 {
		p.port = defaultPort(scheme)
	}
	return p
}

func defaultPort(scheme string) uint16 {
	if scheme == http1 {
		return 80
	}
	return 443
}

func (p pattern) hasWildcard() bool { return p.every || p.below != "" }

// matches reports whether a target is one of the pattern. Without a port the pattern is about
// the port of the target's scheme.
func (p pattern) matches(t target) bool {
	return p.of(t.scheme).port == t.port && p.matchesHost(t)
}

// matchesHost is [pattern.matches] for all ports.
func (p pattern) matchesHost(t target) bool {
	switch {
	case p.every:
		return true
	case t.name == "":
		return p.addr.IsValid() && p.addr == t.addr
	case p.below != "":
		return strings.HasSuffix(t.name, p.below)
	}
	return p.name == t.name
}

// covers reports whether every host of the other pattern is one of p. Ports must be the same.
func (p pattern) covers(other pattern) bool {
	switch {
	case p.port != other.port:
		return false
	case p.every:
		return true
	case p.below != "" && other.below != "":
		return strings.HasSuffix(other.below, p.below)
	case p.below != "":
		return other.name != "" && strings.HasSuffix(other.name, p.below)
	}
	return !other.hasWildcard() && p.name == other.name && p.addr == other.addr
}

// overlaps reports whether both have a host in common.
func (p pattern) overlaps(other pattern) bool { return p.covers(other) || other.covers(p) }

// specificity orders patterns that match the same host: the highest is about the fewest
// hosts.
func (p pattern) specificity() int {
	switch {
	case p.every:
		return 0
	case p.below != "":
		return len(p.below)
	}
	return 1 << 16
}
