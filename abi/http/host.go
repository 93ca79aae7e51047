package http

import (
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file checks the hosts of a manifest. It has no parser of addresses of the standard library, which
// guests would contain.

const (
	maxHostName  = 253 // bytes (RFC 1123)
	maxHostLabel = 63
)

// checkHost refuses what no entry of a policy could have as its host, except for names of which only the
// encoding of international characters is wrong.
func checkHost(host string) error {
	if host == "" {
		return rawjson.NewError("host", "is required: a name or an address, with a port unless that is the default of the scheme, such as api.example.com; or *")
	}
	if err := message.CheckLength("host", len(host), MaxHost); err != nil {
		return err
	}
	if host != "*" && !isHost(host) {
		return rawjson.NewError("host", rawjson.Quote(host)+" is not a host in lower case, such as api.example.com or api.example.com:8443")
	}
	return nil
}

// isHost reports whether a text is a name, an address, or *. with a name, and maybe a port.
func isHost(text string) bool {
	host := text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		if host = text[:i]; !isNumber(text[i+1:], 1, 65535) {
			return false
		}
	}
	if addr, bracketed := strings.CutPrefix(host, "["); bracketed {
		addr, closed := strings.CutSuffix(addr, "]")
		return closed && isIPv6(addr)
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	if looksLikeIPv4(name) {
		return !wildcard && isIPv4(name)
	}
	return isHostName(name)
}

// isHostName reports whether a text consists of labels in lower case.
func isHostName(text string) bool {
	for label := range strings.SplitSeq(text, ".") {
		if !message.ConsistsOf(label, "-") || len(label) > maxHostLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return len(text) <= maxHostName && strings.ToLower(text) == text
}

// looksLikeIPv4 reports whether the last label is a number, as of no name (WHATWG URL, "ends in a
// number checker").
func looksLikeIPv4(text string) bool {
	last := text[strings.LastIndexByte(text, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func isIPv4(text string) bool {
	parts := strings.Split(text, ".")
	for _, part := range parts {
		if !isNumber(part, 0, 255) {
			return false
		}
	}
	return len(parts) == 4
}

// isIPv6 reports whether a text is an address of RFC 4291, section 2.2, in lower case.
func isIPv6(text string) bool {
	before, behind, short := strings.Cut(text, "::")
	if !short {
		return countGroups(text, true) == 8
	}
	first, last := countGroups(before, false), countGroups(behind, true)
	return first >= 0 && last >= 0 && first+last < 8
}

// countGroups returns how many groups of 16 bits a part of an IPv6 address has, negative if it is not
// one. At its end there may be an IPv4 address, which is two.
func countGroups(text string, end bool) (n int) {
	if text == "" {
		return 0
	}
	groups := strings.Split(text, ":")
	for i, group := range groups {
		switch {
		case end && i == len(groups)-1 && isIPv4(group):
			n += 2
		case group == "" || len(group) > 4 || strings.Trim(group, "0123456789abcdef") != "":
			return -8
		default:
			n++
		}
	}
	return n
}

// isNumber reports whether a text is a decimal number of a range, without zeros before it.
func isNumber(text string, least, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= most && strconv.Itoa(n) == text
}
