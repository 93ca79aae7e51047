package rawjson

import (
	"bytes"
	"math"
)

// Equal reports whether two texts are the same value: white space, the order of
// members and the notation of strings and numbers are ignored. A text that is
// not valid JSON, or has a name twice in one object, equals only itself.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ta, err := parse(a)
	if err != nil {
		return false
	}
	tb, err := parse(b)
	return err == nil && equal(ta, 0, tb, 0)
}

// tree is a text that was parsed once, so that its values can be visited and
// compared without reading them again at each level. A value is identified by
// the index of its node; the text as a whole is node 0. The loop over the
// children of node i is
//
//	for child := i + 1; child < t.end(i); child = t.end(child)
type tree struct {
	text  []byte
	nodes []node // in document order: a value is followed by its children
}

// node is one value. Its 32 bytes bound the memory of a tree: the nodes of a
// text with the shortest possible values take 16 times its length.
type node struct {
	name       string // of the member; "" for an element
	start, end int32  // the offsets of the value in the text
	next       int32  // the node behind the last descendant of this one
}

// parse reads a text. A name that occurs twice in an object is an error,
// because readers disagree about which one counts.
func parse(text []byte) (*tree, error) {
	t := &tree{text: text, nodes: make([]node, 0, len(text)/8+1)}
	r := &Reader{data: text, Strict: true}
	if len(text) > math.MaxInt32 {
		r.Fail("longer than 2 GiB")
	}
	t.read(r, "")
	return t, r.End()
}

// read appends the next value with its descendants. It recurses up to the depth of the
// reader.
func (t *tree) read(r *Reader, name string) {
	kind := r.Kind()
	i := len(t.nodes)
	t.nodes = append(t.nodes, node{name: name, start: int32(r.pos)})
	switch kind {
	case '{':
		r.Object(func(member string) { t.read(r, member) })
	case '[':
		r.Array(func(int) { t.read(r, "") })
	default:
		r.Skip()
	}
	t.nodes[i].end, t.nodes[i].next = int32(r.pos), int32(len(t.nodes))
}

// end returns the index of the node behind the last descendant of node i.
func (t *tree) end(i int) int { return int(t.nodes[i].next) }

// raw returns the bytes of the value.
func (t *tree) raw(i int) []byte { n := &t.nodes[i]; return t.text[n.start:n.end:n.end] }

// kind returns what the value starts with; see [Reader.Kind].
func (t *tree) kind(i int) byte { return kindOf(t.text[t.nodes[i].start]) }

func (t *tree) isNull(i int) bool { return t.kind(i) == 'n' }

func (t *tree) countChildren(i int) (n int) {
	for child := i + 1; child < t.end(i); child = t.end(child) {
		n++
	}
	return n
}

// index finds the members of one object by name: by a linear search in a small
// object, by a map in a large one.
type index struct {
	t      *tree
	object int
	byName map[string]int
}

// index returns the index of an object's members.
func (t *tree) index(object int) index {
	x := index{t: t, object: object}
	n := t.countChildren(object)
	if n <= smallObject {
		return x
	}
	x.byName = make(map[string]int, n)
	for child := object + 1; child < t.end(object); child = t.end(child) {
		x.byName[t.nodes[child].name] = child
	}
	return x
}

// find returns the member of that name, or -1 if there is none.
func (x index) find(name string) int {
	if x.byName != nil {
		if i, ok := x.byName[name]; ok {
			return i
		}
		return -1
	}
	for child := x.object + 1; child < x.t.end(x.object); child = x.t.end(child) {
		if x.t.nodes[child].name == name {
			return child
		}
	}
	return -1
}

// equal compares value i of a with value j of b.
func equal(a *tree, i int, b *tree, j int) bool {
	kind := a.kind(i)
	if kind != b.kind(j) {
		return false
	}
	switch kind {
	case '{':
		return equalObjects(a, i, b, j)
	case '[':
		return equalArrays(a, i, b, j)
	case '"':
		return equalStrings(a.raw(i), b.raw(j))
	case '0':
		return equalNumbers(a.raw(i), b.raw(j))
	default: // true, false, null
		return true
	}
}

// equalObjects looks for each member first at the same place, because most
// texts have their members in the same order.
func equalObjects(a *tree, i int, b *tree, j int) bool {
	if a.countChildren(i) != b.countChildren(j) {
		return false
	}
	var byName index
	next := j + 1
	for child := i + 1; child < a.end(i); child = a.end(child) {
		name, other := a.nodes[child].name, next
		if b.nodes[other].name != name {
			if byName.t == nil {
				byName = b.index(j)
			}
			other = byName.find(name)
		}
		if other < 0 || !equal(a, child, b, other) {
			return false
		}
		if next = b.end(next); next >= b.end(j) {
			next = j + 1 // there is always one to compare names with
		}
	}
	return true
}

// equalArrays compares the elements in order.
func equalArrays(a *tree, i int, b *tree, j int) bool {
	other := j + 1
	for child := i + 1; child < a.end(i); child = a.end(child) {
		if other >= b.end(j) || !equal(a, child, b, other) {
			return false
		}
		other = b.end(other)
	}
	return other == b.end(j)
}

// equalStrings compares the texts first, because most have the same notation.
func equalStrings(a, b []byte) bool {
	return bytes.Equal(a, b) || NewReader(a).String() == NewReader(b).String()
}

// equalNumbers compares by value, because the API server writes 1.0 back as 1.
func equalNumbers(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, ok := parseDecimal(a)
	if !ok {
		return false
	}
	y, ok := parseDecimal(b)
	return ok && x == y
}

// decimal is the number 0.digits * 10^exponent, where digits neither begins nor
// ends with a zero, so that each number has exactly one form.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

// parseDecimal parses a number in JSON's grammar. ok is false if its exponent
// has more than 32 bits.
func parseDecimal(text []byte) (d decimal, ok bool) {
	mantissa, exponent := text, []byte(nil)
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i+1:]
	}
	if d.negative = mantissa[0] == '-'; d.negative {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(append(make([]byte, 0, len(mantissa)), whole...), fraction...)
	d.exponent = int64(len(whole))
	if len(exponent) > 0 {
		e, ok := parseInt(alias(bytes.TrimPrefix(exponent, []byte("+"))))
		if !ok || e > math.MaxInt32 || e < math.MinInt32 {
			return d, false
		}
		d.exponent += e
	}
	trimmed := bytes.TrimLeft(digits, "0")
	d.exponent -= int64(len(digits) - len(trimmed))
	if d.digits = alias(bytes.TrimRight(trimmed, "0")); d.digits == "" {
		return decimal{}, true // 0, -0 and 0e5 are the same number
	}
	return d, true
}
