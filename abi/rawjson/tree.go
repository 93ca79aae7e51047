package rawjson

import "math"

// tree is a text that was read once, so that its values can be visited and
// compared without reading them again at each level.
type tree struct {
	text  []byte
	nodes []node // in document order: a value's children follow it
}

// node is one value. 32 bytes, so that the array of a text of ones takes no
// more than 16 times its length.
type node struct {
	name       string // of a member
	start, end int32  // where the value is
	next       int32  // the node behind its last descendant
}

// parse reads a text. A name that an object holds twice is an error: what it
// means depends on who reads it.
func parse(text []byte) (*tree, error) {
	t := &tree{text: text, nodes: make([]node, 0, len(text)/8+1)}
	r := &Reader{data: text, Strict: true}
	if len(text) > math.MaxInt32 {
		r.Fail("longer than 2 GiB")
	}
	t.read(r, "")
	return t, r.End()
}

func (t *tree) read(r *Reader, name string) {
	kind := r.Kind()
	at := len(t.nodes)
	t.nodes = append(t.nodes, node{name: name, start: int32(r.pos)})
	switch kind {
	case '{':
		r.Object(func(member string) { t.read(r, member) })
	case '[':
		r.Array(func(int) { t.read(r, "") })
	default:
		r.Skip()
	}
	t.nodes[at].end, t.nodes[at].next = int32(r.pos), int32(len(t.nodes))
}

func (t *tree) raw(i int) []byte { n := &t.nodes[i]; return t.text[n.start:n.end:n.end] }

// kind is what the value starts with; see [Reader.Kind].
func (t *tree) kind(i int) byte {
	c := t.text[t.nodes[i].start]
	if c == '-' || isDigit(c) {
		return '0'
	}
	return c
}

func (t *tree) isNull(i int) bool { return t.kind(i) == 'n' }

// children calls visit for each child until it returns false, and says
// whether it never did.
func (t *tree) children(parent int, visit func(child int) bool) bool {
	for i := int32(parent + 1); i < t.nodes[parent].next; i = t.nodes[i].next {
		if !visit(int(i)) {
			return false
		}
	}
	return true
}

func (t *tree) countChildren(parent int) int {
	n := 0
	t.children(parent, func(int) bool { n++; return true })
	return n
}

// index finds the members of one object by name: one by one in a small
// object, by a map in a large one.
type index struct {
	t      *tree
	object int
	byName map[string]int
}

func (t *tree) index(object int) index {
	x := index{t: t, object: object}
	n := t.countChildren(object)
	if n <= smallObject {
		return x
	}
	x.byName = make(map[string]int, n)
	t.children(object, func(i int) bool { x.byName[t.nodes[i].name] = i; return true })
	return x
}

// find returns the member of that name, -1 if there is none.
func (x index) find(name string) int {
	if x.byName != nil {
		if i, ok := x.byName[name]; ok {
			return i
		}
		return -1
	}
	found := -1
	x.t.children(x.object, func(i int) bool {
		if x.t.nodes[i].name == name {
			found = i
		}
		return found < 0
	})
	return found
}
