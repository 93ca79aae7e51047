package fieldpath

import (
	"slices"

	"github.com/thole-dev/thole/abi/rawjson"
)

// value is where an object has the value of a node.
type value struct {
	start, end int // the offsets in the text; end is 0 if there is none
	within     int // the offset of the value of the parent that it was found in
}

func (v value) present() bool { return v.end > 0 }

// usualNodes is the number of nodes of a set for which nothing is allocated.
const usualNodes = 24

// find returns the value of each node in an object, in the memory of buf if that is
// large enough. Of a name that occurs twice the last one counts.
func (s Set) find(raw []byte, buf []value) ([]value, error) {
	f := finder{set: s, r: rawjson.NewReader(raw), found: slices.Grow(buf, len(s.nodes))[:len(s.nodes)]}
	if f.r.Kind() != '{' {
		f.r.Expected("an object")
	}
	f.value(0, 0)
	if err := f.r.End(); err != nil {
		return nil, err
	}
	for i := 1; i < len(f.found); i++ {
		// The value of the parent that this one was found in may have been replaced by
		// that of a later member of the same name, or be in one that was.
		parent := f.found[s.nodes[i].parent]
		if !parent.present() || f.found[i].within != parent.start {
			f.found[i] = value{}
		}
	}
	return f.found, nil
}

// finder reads an object once, from front to back.
type finder struct {
	set   Set
	r     *rawjson.Reader
	found []value // by node
}

// value reads the next value, which is that of node i.
func (f *finder) value(i, within int) {
	kind := f.r.Kind() // moves to the first byte of the value
	start := f.r.Pos()
	switch {
	case f.set.leaf(i):
		f.r.Skip()
	case kind == '{':
		for more := f.r.FirstMember(); more; more = f.r.NextMember() {
			if c := f.set.child(i, f.r.Name()); c >= 0 {
				f.value(c, start)
			}
		}
	case kind == '[':
		index := 0
		for more := f.r.FirstElement(); more; more = f.r.NextElement() {
			if index <= f.set.nodes[i].maximum {
				if c := f.set.element(i, index); c >= 0 {
					f.value(c, start)
				}
			}
			index++
		}
	default:
		f.r.Skip()
	}
	f.found[i] = value{start: start, end: f.r.Pos(), within: within}
}

// projection writes the fields of a set.
type projection struct {
	set   Set
	raw   []byte
	found []value // by node
}

// leaves returns the leaves that the object has, in the order of the text, and at
// least how many bytes their projection has.
func (p *projection) leaves() (leaves []int, size int) {
	leaves = make([]int, 0, len(p.found))
	for i, v := range p.found {
		n := &p.set.nodes[i]
		if v.present() {
			size += len(n.key) + len("{},")
		}
		if p.set.leaf(i) && v.present() {
			leaves = append(leaves, i)
			size += v.end - v.start
		}
	}
	slices.SortFunc(leaves, func(i, j int) int { return p.found[i].start - p.found[j].start })
	return leaves, size
}

// append appends the value of node i, which has these leaves.
func (p *projection) append(dst []byte, i int, leaves []int) []byte {
	v := p.found[i]
	if p.set.leaf(i) {
		return append(dst, p.raw[v.start:v.end]...)
	}
	opening := p.raw[v.start]
	dst = append(dst, opening)
	for next := 0; len(leaves) > 0; next++ {
		child, n := p.run(i, leaves)
		if opening == '[' {
			for ; next < p.set.nodes[child].index; next++ {
				dst = append(dst, "null,"...)
			}
		} else {
			dst = append(dst, p.set.nodes[child].key...)
		}
		dst = p.append(dst, child, leaves[:n])
		if leaves = leaves[n:]; len(leaves) > 0 {
			dst = append(dst, ',')
		}
	}
	return append(dst, opening+2) // '{'+2 is '}', '['+2 is ']'
}

// run returns the child of node i that has the first of the leaves, and how many of
// them it has: the leaves of a child are next to each other.
func (p *projection) run(i int, leaves []int) (child, n int) {
	for child = i + 1; p.set.nodes[child].end <= leaves[0]; {
		child = p.set.nodes[child].end
	}
	for n < len(leaves) && leaves[n] >= child && leaves[n] < p.set.nodes[child].end {
		n++
	}
	return child, n
}
