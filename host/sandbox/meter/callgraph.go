package meter

import (
	"math"

	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// This file finds the order in which functions are planned: callees before
// their callers, as far as calls do not form a cycle.

// graph is the call graph. Its nodes are the functions, and behind them the
// signatures that are called indirectly: such a call has an edge to the
// signature, which has an edge to every function of it that code can hold a
// reference to.
type graph struct {
	functions  int
	callees    [][]uint32               // by node; those of a signature are in ascending order
	signatures map[wasm.FuncType]uint32 // the nodes of those that are called indirectly
}

// newGraph reads the calls of all functions.
func newGraph(m *module.Module) *graph {
	g := &graph{functions: len(m.Functions), callees: make([][]uint32, len(m.Functions)), signatures: map[wasm.FuncType]uint32{}}
	lastCaller := map[uint32]uint32{} // by callee, so that a function has one edge to it
	in := wasm.Instruction{}
	for i := range m.Bodies {
		caller := uint32(m.Imported + i)
		for s := m.Bodies[i].Instructions(); s.Next(&in); {
			callee, ok := g.callee(m, &in)
			if last, known := lastCaller[callee]; ok && (!known || last != caller) {
				lastCaller[callee] = caller
				g.callees[caller] = append(g.callees[caller], callee)
			}
		}
	}
	for f, typ := range m.Functions {
		if node, ok := g.signatures[typ]; ok && m.Escaped[uint32(f)] {
			g.callees[node] = append(g.callees[node], uint32(f))
		}
	}
	return g
}

// callee returns the node that an instruction calls, if it is a call.
func (g *graph) callee(m *module.Module, in *wasm.Instruction) (uint32, bool) {
	switch in.Op {
	case wasm.OpCall:
		return in.A, true
	case wasm.OpCallIndirect:
		t := m.TypeOf(in.A)
		node, ok := g.signatures[t]
		if !ok {
			node = uint32(len(g.callees))
			g.signatures[t] = node
			g.callees = append(g.callees, nil)
		}
		return node, true
	default:
		return 0, false
	}
}

// order lists the nodes of a graph. Each comes after its callees, except for
// calls of nodes that are cut: every cycle has such a node.
type order struct {
	nodes  []uint32
	cut    []bool // by node
	cyclic []bool // by node: whether it is on a cycle
}

// walker finds the strongly connected components of a graph by Tarjan's
// algorithm, without recursion.
type walker struct {
	*order
	graph   *graph
	entered []uint32 // by node: when the walk entered it, from 1 on; 0 if it has not, closed if its component is complete
	low     []uint32 // by node: the earliest entered open node that it reaches
	left    []bool   // by node: whether the walk has left it
	path    []visit  // from the root to the innermost node
	open    []uint32 // nodes whose components are not complete
	clock   uint32
}

type visit struct {
	node uint32
	next int // the callee to visit next
}

// closed is later than any time at which a node was entered.
const closed = math.MaxUint32

// newOrder orders the nodes of a graph. A call of a node that the walk has not
// left yet closes a cycle, and every cycle has such a call; its target is cut.
func newOrder(g *graph) *order {
	n := len(g.callees)
	w := &walker{
		order:   &order{nodes: make([]uint32, 0, n), cut: make([]bool, n), cyclic: make([]bool, n)},
		graph:   g,
		entered: make([]uint32, n),
		low:     make([]uint32, n),
		left:    make([]bool, n),
	}
	for root := range uint32(n) {
		if w.entered[root] != 0 {
			continue
		}
		w.enter(root)
		for len(w.path) > 0 {
			w.step()
		}
	}
	w.cutMembers(g)
	return w.order
}

func (w *walker) enter(node uint32) {
	w.clock++
	w.entered[node], w.low[node] = w.clock, w.clock
	w.path = append(w.path, visit{node: node})
	w.open = append(w.open, node)
}

// step visits the next callee of the innermost node, or leaves that node.
func (w *walker) step() {
	v := &w.path[len(w.path)-1]
	callees := w.graph.callees[v.node]
	if v.next == len(callees) {
		w.leave(v.node)
		return
	}
	callee := callees[v.next]
	v.next++
	switch {
	case w.entered[callee] == 0:
		w.enter(callee)
		return
	case !w.left[callee]:
		w.cut[callee] = true
		w.cyclic[callee] = true // a component of one node that calls itself is a cycle too
	}
	w.low[v.node] = min(w.low[v.node], w.entered[callee])
}

func (w *walker) leave(node uint32) {
	w.left[node] = true
	w.nodes = append(w.nodes, node)
	w.path = w.path[:len(w.path)-1]
	if len(w.path) > 0 {
		caller := w.path[len(w.path)-1].node
		w.low[caller] = min(w.low[caller], w.low[node])
	}
	if w.low[node] == w.entered[node] {
		w.closeComponent(node)
	}
}

// closeComponent closes the component whose node root was entered first.
func (w *walker) closeComponent(root uint32) {
	at := len(w.open) - 1
	for w.open[at] != root {
		at--
	}
	for _, node := range w.open[at:] {
		w.entered[node] = closed
		w.cyclic[node] = w.cyclic[node] || len(w.open)-at > 1
	}
	w.open = w.open[:at]
}

// cutMembers cuts the functions of each signature that is cut: a signature has
// no code in which a check could be placed.
func (o *order) cutMembers(g *graph) {
	for node := g.functions; node < len(g.callees); node++ {
		if o.cut[node] {
			for _, f := range g.callees[node] {
				o.cut[f] = true
			}
		}
	}
}
