package handlers

import (
	"bytes"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/codec"
)

// Op is how a value differs.
type Op string

// The values of [Op].
const (
	Add    Op = "add"    // there was no value
	Change Op = "change" // there was another value
	Remove Op = "remove" // there is no value any more
)

// DiffItem is one value that differs. The old value of Add and the new value of Remove are nil.
type DiffItem struct {
	Op       Op
	Path     []string // names of members, outermost first; empty for the whole value
	Old, New sdk.Raw
}

// maxDepth is the depth from which on objects and arrays are compared as texts. It bounds the
// recursion, for the stack of a guest is small.
const maxDepth = 64

// Diff returns the differences between two JSON values, sorted by path. It goes into objects
// at any depth up to 64. Anything else, such as an array, is compared as a whole. A member
// that is null counts as absent, and so does an empty text. Values alias the texts.
func Diff(before, after []byte) []DiffItem {
	d := differ{}
	d.value(nonNull(before), nonNull(after), 0)
	return d.items
}

// differ collects the differences at a path.
type differ struct {
	path  []string
	items []DiffItem
}

func (d *differ) value(before, after []byte, depth int) {
	switch {
	case before == nil && after == nil:
	case before == nil:
		d.add(Add, before, after)
	case after == nil:
		d.add(Remove, before, after)
	case bytes.Equal(before, after):
	case depth < maxDepth && isObject(before) && isObject(after):
		d.members(before, after, depth)
	case !equal(before, after, depth):
		d.add(Change, before, after)
	}
}

func (d *differ) members(before, after []byte, depth int) {
	was, okBefore := membersOf(before)
	is, okAfter := membersOf(after)
	if !okBefore || !okAfter {
		d.add(Change, before, after)
		return
	}
	for _, name := range sortedNames(was, is) {
		d.path = append(d.path, name)
		d.value(nonNull(was[name]), nonNull(is[name]), depth+1)
		d.path = d.path[:len(d.path)-1]
	}
}

func (d *differ) add(op Op, before, after []byte) {
	d.items = append(d.items, DiffItem{Op: op, Path: append([]string(nil), d.path...), Old: before, New: after})
}

// membersOf returns the members of an object.
func membersOf(object []byte) (members map[string][]byte, ok bool) {
	list, err := rawjson.Members(object)
	members = make(map[string][]byte, len(list))
	for _, m := range list {
		members[m.Name] = m.Value // the last one of a name counts
	}
	return members, err == nil
}

// sortedNames returns the names of both objects, each once.
func sortedNames(a, b map[string][]byte) []string {
	all := make(map[string]bool, len(a)+len(b))
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return codec.Keys(all, make([]string, 0, len(all)))
}

// equal reports whether two values are the same, in whatever order members are.
func equal(a, b []byte, depth int) bool {
	return bytes.Equal(a, b) || bytes.Equal(appendSorted(nil, a, depth), appendSorted(nil, b, depth))
}

// appendSorted appends a value with the members of all objects sorted, and without those
// that are null.
func appendSorted(dst, value []byte, depth int) []byte {
	switch kind := rawjson.NewReader(value).Kind(); {
	case depth >= maxDepth:
	case kind == '{':
		if members, ok := membersOf(value); ok {
			return appendMembers(dst, members, depth)
		}
	case kind == '[':
		if elements, err := rawjson.Elements(value); err == nil {
			dst = append(dst, '[')
			for _, e := range elements {
				dst = append(appendSorted(dst, e, depth+1), ',')
			}
			return append(dst, ']')
		}
	}
	return append(dst, value...)
}

func appendMembers(dst []byte, members map[string][]byte, depth int) []byte {
	dst = append(dst, '{')
	for _, name := range codec.Keys(members, make([]string, 0, len(members))) {
		if value := nonNull(members[name]); value != nil {
			dst = append(rawjson.AppendString(dst, name), ':')
			dst = append(appendSorted(dst, value, depth+1), ',')
		}
	}
	return append(dst, '}')
}

// nonNull returns nil for a value that is null or empty.
func nonNull(value []byte) []byte {
	if len(value) == 0 || rawjson.NewReader(value).Kind() == 'n' {
		return nil
	}
	return value
}

func isObject(value []byte) bool { return rawjson.NewReader(value).Kind() == '{' }

// absent is the digest of no value.
const absent = "-"

// digestOf returns a digest of a value that does not depend on the order of members.
func digestOf(value []byte) string {
	if value == nil {
		return absent
	}
	sum := uint64(14695981039346656037) // FNV-1a
	for _, c := range appendSorted(nil, value, 0) {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return strconv.FormatUint(sum, 36)
}
