package handlers

import (
	"bytes"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/codec"
	"github.com/thole-dev/thole/sdk/internal/content"
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

// Diff returns the differences between two JSON values, sorted by path. It goes into objects
// at any depth up to 64. Anything else, such as an array, is compared as a whole. A member
// that is null counts as absent, and so does an empty text. Values alias the texts.
func Diff(before, after []byte) []DiffItem {
	d := differ{}
	d.value(content.NonNull(before), content.NonNull(after), 0)
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
	case depth < content.MaxDepth && isObject(before) && isObject(after):
		d.members(before, after, depth)
	case !content.Equal(before, after, depth):
		d.add(Change, before, after)
	}
}

func (d *differ) members(before, after []byte, depth int) {
	was, okBefore := content.Members(before)
	is, okAfter := content.Members(after)
	if !okBefore || !okAfter {
		d.add(Change, before, after)
		return
	}
	for _, name := range sortedNames(was, is) {
		d.path = append(d.path, name)
		d.value(content.NonNull(was[name]), content.NonNull(is[name]), depth+1)
		d.path = d.path[:len(d.path)-1]
	}
}

func (d *differ) add(op Op, before, after []byte) {
	d.items = append(d.items, DiffItem{Op: op, Path: append([]string(nil), d.path...), Old: before, New: after})
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

func isObject(value []byte) bool { return rawjson.NewReader(value).Kind() == '{' }
