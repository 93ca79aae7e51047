package meter

// order lists the nodes such that each stands behind what it calls, but for
// calls of the nodes that are marked in cut: those break every cycle.
type order struct {
	nodes  []uint32
	cut    []bool // by node
	cyclic []bool // by node: it is on a cycle
}

// walker walks a graph in depth, as Tarjan does to find its strongly connected
// components, without recursion.
type walker struct {
	*order
	graph   *graph
	entered []uint32 // by node: when it was, from 1 on
	low     []uint32 // by node: the first one of the open ones that it reaches
	closed  []bool   // by node: its component is known
	path    []visit
	members []uint32 // nodes of components that are not known yet
	clock   uint32
}

type visit struct {
	node uint32
	next int // of its callees
}

// newOrder orders a graph. A call of a node that the walk is still in closes a
// cycle, and every cycle has such a call; its target is cut. A signature is
// cut by cutting its functions.
func newOrder(g *graph) *order {
	n := g.nodes()
	w := &walker{
		order:   &order{nodes: make([]uint32, 0, n), cut: make([]bool, n), cyclic: make([]bool, n)},
		graph:   g,
		entered: make([]uint32, n),
		low:     make([]uint32, n),
		closed:  make([]bool, n),
	}
	done := make([]bool, n)
	for root := range uint32(n) {
		if w.entered[root] != 0 {
			continue
		}
		w.enter(root)
		for len(w.path) > 0 {
			w.step(done)
		}
	}
	w.cutMembers(g)
	return w.order
}

func (w *walker) enter(node uint32) {
	w.clock++
	w.entered[node], w.low[node] = w.clock, w.clock
	w.path = append(w.path, visit{node: node})
	w.members = append(w.members, node)
}

// step looks at the next callee of the innermost node, or leaves it.
func (w *walker) step(done []bool) {
	v := &w.path[len(w.path)-1]
	callees := w.graph.callees(v.node)
	if v.next == len(callees) {
		done[v.node] = true
		w.leave(v.node)
		return
	}
	callee := callees[v.next]
	v.next++
	switch {
	case w.entered[callee] == 0:
		w.enter(callee)
		return
	case !done[callee]:
		w.cut[callee] = true
		w.cyclic[callee] = true // also if it calls itself only
	}
	if !w.closed[callee] {
		w.low[v.node] = min(w.low[v.node], w.entered[callee])
	}
}

func (w *walker) leave(node uint32) {
	w.nodes = append(w.nodes, node)
	w.path = w.path[:len(w.path)-1]
	if len(w.path) > 0 {
		caller := w.path[len(w.path)-1].node
		w.low[caller] = min(w.low[caller], w.low[node])
	}
	if w.low[node] == w.entered[node] {
		w.component(node)
	}
}

// component closes the component whose first node is root.
func (w *walker) component(root uint32) {
	at := len(w.members) - 1
	for w.members[at] != root {
		at--
	}
	for _, node := range w.members[at:] {
		w.closed[node] = true
		w.cyclic[node] = w.cyclic[node] || len(w.members)-at > 1
	}
	w.members = w.members[:at]
}

func (o *order) cutMembers(g *graph) {
	functions := g.nodes() - len(g.members)
	for i, members := range g.members {
		if o.cut[functions+i] {
			for _, f := range members {
				o.cut[f] = true
			}
		}
	}
}
