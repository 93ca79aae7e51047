package meter

import (
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// plan is where the checks of a module are. It runs the placer over each
// function, callees before their callers, and keeps what callers have to know.
type plan struct {
	m      *module.Module
	graph  *graph
	placer placer
	order  *order
	sums   []summary // by node: assumptions, until the node is planned
	checks [][]check // by defined function
	report Report
	err    error

	remainders bool // whether remainders are calculated by helpers

	helpers []helper       // that take the place of instructions
	index   map[helper]int // in helpers
}

// maxChecks bounds the checks of one function. Each of them is two jumps, whose
// number determines how long the engine takes (see [module.MaxBody]).
const maxChecks = 4096

func newPlan(m *module.Module, o Options) *plan {
	g := newGraph(m)
	return &plan{
		m:      m,
		graph:  g,
		placer: placer{limits: o.limitsOrDefault()},
		sums:   make([]summary, len(g.callees)),
		checks: make([][]check, len(m.Bodies)),
		index:  map[helper]int{},

		remainders: o.remainders || wrongRemainders,
	}
}

// importCall is the summary of an imported function.
var importCall = summary{pays: importCallCost, pre: importCallCost, thru: importCallCost, post: none}

// place places the checks of all functions.
func (p *plan) place() {
	p.order = newOrder(p.graph)
	p.assume()
	roots := p.roots()
	for _, node := range p.order.nodes {
		switch {
		case int(node) >= p.graph.functions:
			p.sums[node] = p.signature(p.graph.callees[node])
		case int(node) < p.m.Imported:
			p.sums[node] = importCall
		default:
			p.sums[node] = p.function(node, roots[node])
		}
	}
}

// assume sets the summaries that callers use for a callee which is not planned
// yet. Such a callee is on a cycle with its caller and is cut, and the
// assumption holds because placing its checks will be held to it. An imported
// function that is called through a signature has no checks.
func (p *plan) assume() {
	for node, callees := range p.graph.callees {
		s := &p.sums[node]
		s.thru, s.post = none, p.placer.limits.returns
		if node >= p.graph.functions && len(callees) > 0 && int(callees[0]) < p.m.Imported {
			s.pays, s.pre, s.thru = importCall.pays, importCall.pre, importCall.thru
		}
	}
}

// roots returns the functions that the host may call. They need a check at
// their entry because the host pays nothing in advance.
func (p *plan) roots() map[uint32]bool {
	roots := map[uint32]bool{}
	for _, e := range p.m.Exports {
		if e.Kind == wasm.KindFunction {
			roots[e.Index] = true
		}
	}
	if p.m.Start {
		roots[p.m.StartFunction] = true
	}
	return roots
}

// signature returns the worst case of the functions that an indirect call may
// reach.
func (p *plan) signature(members []uint32) summary {
	out := summary{thru: none, post: none}
	for _, f := range members {
		s := p.sums[f]
		out.pays, out.pre = max(out.pays, s.pays), max(out.pre, s.pre)
		out.thru, out.post = max(out.thru, s.thru), max(out.post, s.post)
	}
	return out
}

// function places the checks of one function. If it would leave more than the
// limit to its callers, it is placed again with a check at its entry.
func (p *plan) function(node uint32, root bool) summary {
	i := int(node) - p.m.Imported
	atEntry, returns := root || p.order.cut[node], p.placer.limits.run
	if p.order.cut[node] {
		returns = p.placer.limits.returns
	}
	results := len(p.m.Functions[node].Results)
	frame := frameCost(&p.m.Bodies[i], p.order.cyclic[node])
	atEntry = atEntry || frame > p.placer.limits.entry
	p.placer.begin(atEntry, frame, returns, results)
	p.walk(i)
	if !atEntry && p.placer.sum.pays > p.placer.limits.entry {
		p.placer.begin(true, frame, returns, results)
		p.walk(i)
	}
	p.checks[i] = slices.Clone(p.placer.checks)
	if len(p.checks[i]) > maxChecks && p.err == nil {
		p.err = fmt.Errorf("function %d: too large: it needs %d checks, the limit is %d: split it", node, len(p.checks[i]), maxChecks)
	}
	p.report.Checks += len(p.placer.checks)
	s := p.placer.sum
	p.report.Bound = max(p.report.Bound, p.placer.bound, s.pre, s.thru, s.post)
	return s
}

// walk gives the placer the instructions of a defined function.
func (p *plan) walk(i int) {
	var in, last wasm.Instruction
	for s := p.m.Bodies[i].Instructions(); s.Next(&in); last = in {
		cost, values := costOf(in.Op), p.m.Values(&in)
		if callee, ok := p.graph.callee(p.m, &in); ok {
			p.placer.spend(in.At, cost+valuesCost(values), p.sums[callee])
			continue
		}
		if isBulk(in.Op) {
			length, small := smallLength(&in, &last)
			if !small {
				h := p.helper(&in)
				p.placer.spend(in.At, cost, h.summary())
				p.report.Bound = max(p.report.Bound, h.bound())
				continue
			}
			cost += length
		}
		if p.remainders && isRemainder(in.Op) {
			p.helper(&in)
		}
		p.placer.next(&in, cost, s.Offset(), values)
	}
}

// helper returns the helper for an instruction, and adds it to the helpers.
func (p *plan) helper(in *wasm.Instruction) helper {
	h := helperOf(in)
	if _, known := p.index[h]; !known {
		p.index[h] = len(p.helpers)
		p.helpers = append(p.helpers, h)
	}
	return h
}
