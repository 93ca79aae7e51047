package fieldpath

import (
	"bytes"
	"slices"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Set is a set of fields of an object. The zero value is all of them. Any other set
// has what identifies an object: apiVersion, kind, and the name, namespace and uid of
// its metadata.
type Set struct {
	nodes []node // the fields as a tree: the object first, each node followed by its children
	text  string
}

// node is a value of an object. If it has no children, the set has all of the value.
type node struct {
	name    string // of the member, or the index of the element
	key     string // the name as it is written in an object, with the colon
	index   int    // the name as the index of an element, -1 if it is none
	parent  int    // -1 for the object
	end     int    // the node behind the last descendant of this one
	maximum int    // the largest index of its children
}

// identity are the fields that every set has.
var identity = []pointer{
	{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"},
}

// Parse returns the set with these fields, each of the form that [CheckPointer]
// accepts. Without any it is the set of all fields.
func Parse(fields []string) (Set, error) {
	if len(fields) == 0 {
		return Set{}, nil
	}
	pointers := slices.Clone(identity)
	for _, field := range fields {
		p, err := parsePointer(field)
		if err != nil {
			return Set{}, err
		}
		pointers = append(pointers, p)
	}
	pointers = minimal(pointers)
	return Set{nodes: tree(pointers), text: canonical(pointers)}, nil
}

// minimal sorts pointers and removes those that others cover.
func minimal(pointers []pointer) []pointer {
	slices.SortFunc(pointers, func(p, q pointer) int { return slices.Compare(p, q) })
	kept := pointers[:0]
	for _, p := range pointers {
		// What covers p comes before it, and all that is between the two is covered too.
		if len(kept) == 0 || !kept[len(kept)-1].covers(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// tree returns the nodes of sorted pointers, none of which covers another.
func tree(pointers []pointer) []node {
	nodes := []node{{parent: -1, index: -1, maximum: -1}}
	path := []int{0} // the nodes on the way to the last one, from the object on
	var last pointer
	for _, p := range pointers {
		common := 0
		for common < len(last) && last[common] == p[common] {
			common++
		}
		path = path[:common+1]
		for _, name := range p[common:] {
			nodes = append(nodes, node{
				name: name, key: string(rawjson.AppendString(nil, name)) + ":",
				index: elementIndex(name), parent: path[len(path)-1], maximum: -1,
			})
			path = append(path, len(nodes)-1)
		}
		last = p
	}
	linkParents(nodes)
	return nodes
}

// linkParents sets what a node has of its descendants.
func linkParents(nodes []node) {
	for i, n := range slices.Backward(nodes) {
		n.end = max(n.end, i+1)
		nodes[i].end = n.end
		if n.parent >= 0 {
			parent := &nodes[n.parent]
			parent.end = max(parent.end, n.end)
			parent.maximum = max(parent.maximum, n.index)
		}
	}
}

// canonical returns the text of sorted pointers, without those of every set.
func canonical(pointers []pointer) string {
	w := rawjson.NewWriter(nil)
	w.Array(func() {
		for _, p := range pointers {
			if !slices.ContainsFunc(identity, func(q pointer) bool { return slices.Equal(p, q) }) {
				w.String(p.String())
			}
		}
	})
	return string(w.Bytes())
}

// All reports whether the set has all fields of an object.
func (s Set) All() bool { return s.nodes == nil }

// String returns the same text for sets with the same fields, and different texts for
// others: "" for all fields, otherwise a JSON array of pointers.
func (s Set) String() string { return s.text }

// Project returns the object with the fields of the set only, in the order in which it
// has them. A member that the object does not have is left out, and so is an object or
// array of which nothing is left. An element that the set does not have is a null if
// one behind it is in the set. The result may be raw itself.
func (s Set) Project(raw []byte) ([]byte, error) {
	if s.All() {
		return raw, nil
	}
	var buf [usualNodes]value
	found, err := s.find(raw, buf[:0])
	if err != nil {
		return nil, err
	}
	p := projection{set: s, raw: raw, found: found}
	leaves, size := p.leaves()
	return p.append(make([]byte, 0, size), 0, leaves), nil
}

// Same reports whether two objects have the same values of the fields of the set, in
// the sense of [rawjson.Equal]. A text that is not valid JSON is the same only as
// itself.
func (s Set) Same(a, b []byte) bool {
	switch {
	case bytes.Equal(a, b):
		return true
	case s.All():
		return rawjson.Equal(a, b)
	}
	var bufA, bufB [usualNodes]value
	inA, err := s.find(a, bufA[:0])
	if err != nil {
		return false
	}
	inB, err := s.find(b, bufB[:0])
	if err != nil {
		return false
	}
	for i := range s.nodes {
		if s.leaf(i) && !s.sameLeaf(i, a, inA, b, inB) {
			return false
		}
	}
	return true
}

// sameLeaf compares the value of one leaf, and whether what is around it are objects
// or arrays.
func (s Set) sameLeaf(i int, a []byte, inA []value, b []byte, inB []value) bool {
	x, y := inA[i], inB[i]
	if !x.present() || !y.present() {
		return x.present() == y.present()
	}
	for n := s.nodes[i].parent; n >= 0; n = s.nodes[n].parent {
		if a[inA[n].start] != b[inB[n].start] {
			return false
		}
	}
	return rawjson.Equal(a[x.start:x.end], b[y.start:y.end])
}

// leaf reports whether the set has all of the value of node i.
func (s Set) leaf(i int) bool { return s.nodes[i].end == i+1 }

// child returns the child of node i with that name, or -1.
func (s Set) child(i int, name string) int {
	for c := i + 1; c < s.nodes[i].end; c = s.nodes[c].end {
		if s.nodes[c].name == name {
			return c
		}
	}
	return -1
}

// element returns the child of node i with that index, or -1.
func (s Set) element(i, index int) int {
	for c := i + 1; c < s.nodes[i].end; c = s.nodes[c].end {
		if s.nodes[c].index == index {
			return c
		}
	}
	return -1
}
