package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// target is where a request goes: what is checked, dialled, and named in the header Host and
// in the TLS handshake.
type target struct {
	scheme string     // https or http
	name   string     // lower case ASCII, without a dot at the end; "" for an address
	addr   netip.Addr // neither with a zone nor an IPv4 address in IPv6 form
	port   uint16
}

// host returns the name or the address, without brackets.
func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

// authority returns the target as in a URL: with a port unless that is the default of the scheme.
func (t target) authority() string {
	host := t.host()
	if t.name == "" && t.addr.Is6() {
		host = "[" + host + "]"
	}
	if t.port == defaultPort(t.scheme) {
		return host
	}
	return host + ":" + strconv.Itoa(int(t.port))
}

// parseURL parses an absolute URL. In the result everything is written in one way, and the
// part of the host is made of the target, so that what is requested is what was checked.
// Fragments are removed.
func parseURL(text string) (*url.URL, target, error) {
	if err := checkCharacters(text); err != nil {
		return nil, target{}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, target{}, errors.New("is not a URL") // without the text, which the cause would repeat
	}
	t := target{scheme: u.Scheme}
	switch {
	case u.Scheme != https && u.Scheme != http1:
		return nil, t, errors.New("must begin with https:// or http://")
	case u.User != nil:
		return nil, t, errors.New("must have no user or password before the host: credentials belong in the Secret of the policy's entry")
	case u.Host == "":
		return nil, t, errors.New("has no host: write https://HOST/PATH")
	}
	if t.name, t.addr, t.port, err = parseAuthority(u.Host, u.Scheme); err != nil {
		return nil, t, err
	}
	return &url.URL{
		Scheme: u.Scheme, Host: t.authority(), Path: u.Path, RawPath: u.RawPath,
		RawQuery: u.RawQuery, ForceQuery: u.ForceQuery,
	}, t, nil
}

// checkCharacters refuses what parsers of URLs read in different ways: controls, spaces, and the
// backslash, which browsers read as a slash.
func checkCharacters(text string) error {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return fmt.Errorf("has the character %q at position %d: write it as %%%02X", c, i, c)
		}
	}
	return nil
}

// parseAuthority parses the host and port of a URL. An empty port is that of the scheme.
func parseAuthority(text, scheme string) (name string, addr netip.Addr, port uint16, err error) {
	host, port := text, defaultPort(scheme)
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		host = text[:i]
		if text[i+1:] != "" {
			if port, err = parsePort(text[i+1:]); err != nil {
				return "", addr, 0, err
			}
		}
	}
	name, addr, err = parseHost(host)
	return name, addr, port, err
}

// parseHost parses a name, or an address, which is in brackets if it is of IPv6.
func parseHost(text string) (name string, addr netip.Addr, err error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		addr, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		switch {
		case err != nil || !addr.Is6() || !strings.HasSuffix(inner, "]"):
			return "", netip.Addr{}, errors.New("the host in brackets is not an IPv6 address")
		case addr.Zone() != "":
			return "", netip.Addr{}, errors.New("the host has an IPv6 zone, which is not supported")
		}
		return "", addr.Unmap(), nil // the system dials an IPv4 address in IPv6 form as the IPv4 address
	}
	name, err = asciiName(text)
	if err != nil || !endsInNumber(name) {
		return name, addr, err
	}
	// Some resolvers read 127.1, 2130706433, 0177.0.0.1 and 0x7f.0.0.1 as addresses. None of
	// them is a name either.
	addr, err = netip.ParseAddr(name)
	if err != nil {
		return "", addr, errors.New("the host is neither a name nor an IPv4 address of four decimal numbers")
	}
	return "", addr, nil
}

const (
	maxName  = 253
	maxLabel = 63
)

// asciiName returns a name in lower case ASCII, without the dot at its end.
func asciiName(text string) (string, error) {
	name := strings.ToLower(text)
	if !utf8.ValidString(text) { // of which idna makes a valid name
		return "", errors.New("the host is not UTF-8")
	}
	if !isASCII(text) || hasPunycode(name) {
		mapped, err := idna.Lookup.ToASCII(text)
		if err != nil {
			return "", errors.New("the host is not a valid international domain name")
		}
		name = mapped
	}
	name = strings.TrimSuffix(name, ".")
	if len(name) > maxName {
		return "", errors.New("the name of the host is too long")
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return "", errors.New("the host is not a name of letters, digits, '-' and '.'")
		}
	}
	return name, nil
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// hasPunycode reports whether a label of the name is an encoded one, which has to decode to
// a valid one.
func hasPunycode(name string) bool {
	return strings.HasPrefix(name, "xn--") || strings.Contains(name, ".xn--")
}

// isLabel reports whether the text is a label of a name in lower case. Underscores are not in
// the names of hosts, but in use.
func isLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// endsInNumber reports whether the last label of a name is a number, as in an IPv4 address
// (WHATWG URL, "ends in a number checker").
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		last, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(last, digits) == ""
}
