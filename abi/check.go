package abi

import (
	"strings"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// ValidName reports whether s is a DNS label (RFC 1123), as the names of
// plugins and controllers must be.
func ValidName(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !lower(c) && !digit(c) && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return true
}

// CheckName returns an error unless s is a valid name of a plugin or controller.
func CheckName(path, s string) error {
	if ValidName(s) {
		return nil
	}
	return rawjson.NewError(path, rawjson.Quote(s)+" is not a DNS label (lower case letters, digits and '-', at most 63)")
}

// check returns an error unless k has the form of a group, version and kind: they become
// part of the path of a request. Whether the API server has that kind is not known here.
func (k Kind) check() error {
	group, version, grouped := strings.Cut(k.APIVersion, "/")
	if !grouped {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		return rawjson.NewError("apiVersion", "is required: a group and version, such as apps/v1")
	case grouped && !dnsSubdomain(group), !ValidName(version):
		return rawjson.NewError("apiVersion", rawjson.Quote(k.APIVersion)+" is not a group and version, such as apps/v1")
	case k.Kind == "":
		return rawjson.NewError("kind", "is required, such as Deployment")
	case !message.ConsistsOf(k.Kind, "-"):
		return rawjson.NewError("kind", rawjson.Quote(k.Kind)+" is not a kind, such as Deployment")
	}
	return nil
}

// CheckReason checks a reason against the pattern of metav1.Condition:
// ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
func CheckReason(s string, limit int) error {
	switch {
	case s == "":
		return rawjson.NewError("reason", "is required: a CamelCase word, such as Succeeded")
	case len(s) > limit:
		return message.CheckLength("reason", len(s), limit)
	case !message.ConsistsOf(s, "_,:") || !letter(s[0]) || strings.ContainsRune(",:", rune(s[len(s)-1])):
		return rawjson.NewError("reason", rawjson.Quote(s)+" is not a CamelCase word, such as Succeeded")
	}
	return nil
}

// checkConditionType checks a type against metav1.Condition: a qualified name,
// such as Ready or example.com/Ready.
func checkConditionType(s string) error {
	name := s
	prefix, rest, prefixed := strings.Cut(s, "/")
	if prefixed {
		name = rest
	}
	switch {
	case s == "":
		return rawjson.NewError("", "is required")
	case len(s) > MaxConditionType:
		return message.CheckLength("", len(s), MaxConditionType)
	case !LabelName(name) || prefixed && !dnsSubdomain(prefix):
		return rawjson.NewError("", rawjson.Quote(s)+" is not a condition type, such as Ready or example.com/Ready")
	}
	return nil
}

// LabelName reports whether s has the form of the name in a label key.
func LabelName(s string) bool {
	return message.ConsistsOf(s, "-_.") && message.ConsistsOf(s[:1], "") && message.ConsistsOf(s[len(s)-1:], "")
}

// dnsSubdomain reports whether s is a DNS subdomain (RFC 1123), as the prefix of a label
// key must be.
func dnsSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !ValidName(label) {
			return false
		}
	}
	return true
}

func letter(c byte) bool { return lower(c) || 'A' <= c && c <= 'Z' }
func lower(c byte) bool  { return 'a' <= c && c <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
