package abi

import (
	"errors"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// broken is a rule that a message breaks, in the same form as what the reader
// reports: every error of a decoder is a [*rawjson.Error].
func broken(path, message string) error {
	return &rawjson.Error{Path: path, Offset: -1, Message: message}
}

// tooLong is broken if a text is longer than limit bytes.
func tooLong(path string, length, limit int) error {
	if length <= limit {
		return nil
	}
	return broken(path, strconv.Itoa(length)+" bytes, the limit is "+strconv.Itoa(limit))
}

// at puts the path of a message's part before what is wrong with it.
func at(path string, err error) error {
	var e *rawjson.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Path == "":
		return broken(path, e.Message)
	case e.Path[0] == '[':
		return broken(path+e.Path, e.Message)
	}
	return broken(path+"."+e.Path, e.Message)
}

// each checks every entry of a list and names the first one that is wrong.
func each[T any](field string, list []T, check func(T) error) error {
	for i, v := range list {
		if err := check(v); err != nil {
			return at(field+"["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ValidName says whether s is a DNS label (RFC 1123): what a plugin or a
// controller may be called.
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

// check holds a kind against what names one: "v1", "apps/v1" and "Pod".
func (k Kind) check() error {
	switch group, version, grouped := strings.Cut(k.APIVersion, "/"); {
	case k.APIVersion == "":
		return broken("apiVersion", "is required: a group and version, such as apps/v1")
	case grouped && (group == "" || version == "" || strings.Contains(version, "/")), !words(k.APIVersion, "./-"):
		return broken("apiVersion", rawjson.Quote(k.APIVersion)+" is no group and version, such as apps/v1")
	case k.Kind == "":
		return broken("kind", "is required, such as Deployment")
	case !words(k.Kind, "-"):
		return broken("kind", rawjson.Quote(k.Kind)+" is no kind, such as Deployment")
	}
	return nil
}

func (ref Ref) check() error {
	if err := (Kind{ref.APIVersion, ref.Kind}).check(); err != nil {
		return err
	}
	return ref.checkName()
}

// checkName holds what names an object of the kind against what hosts keep of
// it. Whether there can be such an object is the API server's to say.
func (ref Ref) checkName() error {
	if ref.Name == "" {
		return broken("name", "is required")
	}
	return firstOf(
		tooLong("name", len(ref.Name), MaxName),
		tooLong("namespace", len(ref.Namespace), MaxName),
		tooLong("uid", len(ref.UID), MaxName),
	)
}

// checkReason holds a reason against the pattern of metav1.Condition:
// ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
func checkReason(s string, limit int) error {
	switch {
	case s == "":
		return broken("reason", "is required: a CamelCase word, such as Succeeded")
	case len(s) > limit:
		return tooLong("reason", len(s), limit)
	case !words(s, "_,:") || !letter(s[0]) || strings.ContainsRune(",:", rune(s[len(s)-1])):
		return broken("reason", rawjson.Quote(s)+" is no CamelCase word, such as Succeeded")
	}
	return nil
}

// checkConditionType holds a type against metav1.Condition: a label's name,
// such as Ready or example.com/Ready.
func checkConditionType(s string) error {
	name := s
	prefix, rest, prefixed := strings.Cut(s, "/")
	if prefixed {
		name = rest
	}
	switch {
	case s == "":
		return broken("", "is required")
	case len(s) > MaxConditionType:
		return tooLong("", len(s), MaxConditionType)
	case !labelName(name) || prefixed && !subdomain(prefix):
		return broken("", rawjson.Quote(s)+" is no condition type, such as Ready or example.com/Ready")
	}
	return nil
}

func labelName(s string) bool {
	return words(s, "-_.") && alphanumeric(s[0]) && alphanumeric(s[len(s)-1])
}

func subdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !ValidName(label) {
			return false
		}
	}
	return true
}

// words says whether s is made of letters, digits and the marks given, and is
// not empty.
func words(s, marks string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte(marks, s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool { return letter(c) || digit(c) }
func letter(c byte) bool       { return lower(c) || 'A' <= c && c <= 'Z' }
func lower(c byte) bool        { return 'a' <= c && c <= 'z' }
func digit(c byte) bool        { return '0' <= c && c <= '9' }
