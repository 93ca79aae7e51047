package fieldpath

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// whole are the members of an object that are named without a slash.
var whole = []string{"metadata", "spec", "status"}

// CheckPointer returns an error unless s is metadata, spec, status or a JSON pointer
// (RFC 6901) to a value within an object, such as /spec/replicas.
func CheckPointer(s string) error {
	_, err := parsePointer(s)
	return err
}

// pointer is a parsed pointer: the names of the members on the way, without escapes.
type pointer []string

func parsePointer(s string) (pointer, error) {
	if slices.Contains(whole, s) {
		return pointer{s}, nil
	}
	rest, ok := strings.CutPrefix(s, "/")
	if !ok {
		return nil, rawjson.NewError("", rawjson.Quote(s)+" is none of metadata, spec, status, and no JSON pointer, such as /spec/replicas"+
			rawjson.DidYouMean(s, whole))
	}
	p := pointer(strings.Split(rest, "/"))
	for i, step := range p {
		if !escaped(step) {
			return nil, rawjson.NewError("", rawjson.Quote(s)+" is no JSON pointer: after '~' comes 0 for '~', or 1 for '/'")
		}
		p[i] = unescape(step)
	}
	return p, nil
}

// escaped reports whether every '~' of a step begins an escape.
func escaped(step string) bool {
	for {
		_, after, found := strings.Cut(step, "~")
		if !found {
			return true
		}
		if after == "" || after[0] != '0' && after[0] != '1' {
			return false
		}
		step = after
	}
}

var (
	unescaper = strings.NewReplacer("~0", "~", "~1", "/")
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
)

func unescape(step string) string {
	if strings.IndexByte(step, '~') < 0 {
		return step
	}
	return unescaper.Replace(step)
}

func (p pointer) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteByte('/')
		_, _ = escaper.WriteString(&b, step)
	}
	return b.String()
}

// covers reports whether q is p or leads to a value within that of p.
func (p pointer) covers(q pointer) bool { return len(p) <= len(q) && slices.Equal(p, q[:len(p)]) }

// elementIndex returns the index of the array element that a step names, or -1 if it
// names none: an index has no leading zeros.
func elementIndex(step string) int {
	const most = 9 // digits, which fit into an int on every platform
	if step == "" || len(step) > most || step[0] == '0' && step != "0" {
		return -1
	}
	n := 0
	for i := range len(step) {
		if step[i] < '0' || step[i] > '9' {
			return -1
		}
		n = n*10 + int(step[i]-'0')
	}
	return n
}
