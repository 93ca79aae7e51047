package meter

import (
	"slices"
	"testing"
)

// TestOrderPutsCalleesBeforeCallers except for the callees that are cut, on
// graphs with every kind of edge.
func TestOrderPutsCalleesBeforeCallers(t *testing.T) {
	for _, c := range []struct {
		edges       [][]uint32 // by node
		cut, cyclic []uint32
	}{
		{[][]uint32{{1}, {2}, {}}, nil, nil},
		{[][]uint32{{0}}, []uint32{0}, []uint32{0}},
		{[][]uint32{{1}, {2}, {0}}, []uint32{0}, []uint32{0, 1, 2}},
		{[][]uint32{{1, 2}, {3}, {3}, {}}, nil, nil},
		{[][]uint32{{1, 3}, {2}, {1}, {2}}, []uint32{1}, []uint32{1, 2}},
		{[][]uint32{{1}, {0, 2}, {3}, {2, 3}}, []uint32{0, 2, 3}, []uint32{0, 1, 2, 3}},
	} {
		o := newOrder(&graph{functions: len(c.edges), callees: c.edges})
		if cut, cyclic := marked(o.cut), marked(o.cyclic); !slices.Equal(cut, c.cut) || !slices.Equal(cyclic, c.cyclic) {
			t.Errorf("%v: cut %v, want %v; on cycles %v, want %v", c.edges, cut, c.cut, cyclic, c.cyclic)
		}
		for at, node := range o.nodes {
			for _, callee := range c.edges[node] {
				if !o.cut[callee] && slices.Index(o.nodes, callee) >= at {
					t.Errorf("%v: %d comes before its callee %d", c.edges, node, callee)
				}
			}
		}
	}
}

func marked(nodes []bool) (out []uint32) {
	for i, m := range nodes {
		if m {
			out = append(out, uint32(i))
		}
	}
	return out
}
