package meter

// order lists the nodes such that each stands behind what it calls, but for
// calls of the nodes that are marked in cut: those break every cycle.
type order struct {
	nodes []uint32
	cut   []bool // by node
}

// newOrder walks the graph in depth. A call of a node that is still open
// closes a cycle, and every cycle has such a call; its target is cut. A
// signature is cut by cutting its functions.
func newOrder(g *graph) *order {
	const (
		fresh = iota
		open
		done
	)
	o := &order{nodes: make([]uint32, 0, g.nodes()), cut: make([]bool, g.nodes())}
	state := make([]byte, g.nodes())
	type visit struct {
		node uint32
		next int // of its callees
	}
	var stack []visit
	for root := range uint32(g.nodes()) {
		if state[root] != fresh {
			continue
		}
		state[root] = open
		stack = append(stack, visit{node: root})
		for len(stack) > 0 {
			v := &stack[len(stack)-1]
			callees := g.callees(v.node)
			if v.next == len(callees) {
				state[v.node] = done
				o.nodes = append(o.nodes, v.node)
				stack = stack[:len(stack)-1]
				continue
			}
			callee := callees[v.next]
			v.next++
			switch state[callee] {
			case fresh:
				state[callee] = open
				stack = append(stack, visit{node: callee})
			case open:
				o.cut[callee] = true
			}
		}
	}
	o.cutMembers(g)
	return o
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
