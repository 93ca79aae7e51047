package meter

import "github.com/thole-dev/thole/host/sandbox/module"

// graph is who may call whom. Nodes are the functions, and behind them the
// signatures that are called indirectly: such a call goes to the signature,
// and from there to every function of it that code can hold a reference to.
type graph struct {
	first []uint32 // where a node's edges begin in edges; one more than nodes
	edges []uint32
	// signatures has the node of each signature that is called indirectly.
	signatures map[module.FuncType]uint32
	members    [][]uint32 // functions of a signature, by node behind the functions
	imported   []bool     // likewise: one of them is imported
}

// callsHost tells whether a node is a signature with an imported function.
func (g *graph) callsHost(node uint32) bool {
	at := int(node) - (g.nodes() - len(g.members))
	return at >= 0 && g.imported[at]
}

func (g *graph) nodes() int { return len(g.first) - 1 }

func (g *graph) callees(node uint32) []uint32 { return g.edges[g.first[node]:g.first[node+1]] }

// newGraph reads all code.
func newGraph(m *module.Module) *graph {
	functions := uint32(len(m.Functions))
	g := &graph{
		first:      make([]uint32, m.Imported+1, functions+1),
		signatures: map[module.FuncType]uint32{},
	}
	seen := map[uint32]uint32{} // node -> the function that had it last
	in := module.Instruction{}
	for i := range m.Bodies {
		caller := uint32(m.Imported + i)
		for s := m.Bodies[i].Instructions(); s.Next(&in); {
			callee, ok := g.callee(m, &in)
			if last, known := seen[callee]; ok && (!known || last != caller) {
				seen[callee] = caller
				g.edges = append(g.edges, callee)
			}
		}
		g.first = append(g.first, uint32(len(g.edges)))
	}
	g.addMembers(m)
	return g
}

// callee is the node that an instruction calls, if it is a call.
func (g *graph) callee(m *module.Module, in *module.Instruction) (uint32, bool) {
	switch in.Op {
	case module.OpCall:
		return in.A, true
	case module.OpCallIndirect:
		t := m.TypeOf(in.A)
		node, ok := g.signatures[t]
		if !ok {
			node = uint32(len(m.Functions) + len(g.signatures))
			g.signatures[t] = node
		}
		return node, true
	default:
		return 0, false
	}
}

func (g *graph) addMembers(m *module.Module) {
	g.members = make([][]uint32, len(g.signatures))
	g.imported = make([]bool, len(g.signatures))
	for f, escaped := range m.Escaped {
		if node, ok := g.signatures[m.Functions[f]]; ok && escaped {
			at := int(node) - len(m.Functions)
			g.members[at] = append(g.members[at], uint32(f))
			g.imported[at] = g.imported[at] || f < m.Imported
		}
	}
	for _, functions := range g.members {
		g.edges = append(g.edges, functions...)
		g.first = append(g.first, uint32(len(g.edges)))
	}
}
