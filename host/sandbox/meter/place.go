package meter

import "github.com/thole-dev/thole/abi/wasm"

// none is the length of a run that does not exist. It stays below zero whatever
// is added to it.
const none = int64(-1) << 50

// summary is what a caller must know of a function.
type summary struct {
	pays int64 // instructions that the caller pays in advance
	pre  int64 // most instructions from its entry until a check or its return
	thru int64 // most from its entry until its return, without a check
	post int64 // most from a check until its return
}

// check is a place in the code, and the amount that is paid there.
type check struct {
	at     int // before the instruction at this offset
	amount int64
}

// run is the number of instructions on the longest path to a point in the code
// that has no check: from the function's entry, and since a check in it or in a
// callee.
type run struct{ entry, since int64 }

func (r *run) merge(o run) {
	r.entry, r.since = max(r.entry, o.entry), max(r.since, o.since)
}

func (r run) longest() int64 { return max(r.entry, r.since) }

// region is a part of the code that is paid at one place: the start of the
// function, of an iteration of a loop, or a check within a block, which pays
// until the block's end. Loops within a region pay for themselves.
type region struct {
	paid  int64 // on the longest path to this point
	most  int64 // to any point so far
	check int   // the index of the check that pays; -1 if the caller does
}

// frame is a block that is open.
type frame struct {
	op      wasm.Opcode
	base    int   // regions that were open before
	values  int   // that it takes and results in
	dead    bool  // whether it cannot be reached
	paid    int64 // at its start, as run
	run     run
	reached bool  // whether a branch or its last instruction reaches its end
	endPaid int64 // at its end, by the branches to it, as endRun
	endRun  run
}

// placer places checks in one function. Its one pass keeps two numbers: what
// the current region has to pay for the longest path to this point, and how
// long the longest path without a check is. A check is placed where one of them
// would exceed its limit, at the start of each loop and, if asked for, at the
// entry.
type placer struct {
	limits  limits
	returns int64 // most instructions between a check and a return; at most limits.run
	frames  []frame
	regions []region
	run     run
	dead    bool // whether this point cannot be reached
	sum     summary
	bound   int64 // longest path between two checks
	checks  []check
}

// begin prepares the placer for a function that results in that many values, a
// call of which costs frameCost besides its instructions.
func (p *placer) begin(atEntry bool, frameCost, returns int64, results int) {
	p.frames = append(p.frames[:0], frame{op: wasm.OpBlock, values: results})
	p.regions = append(p.regions[:0], region{check: -1})
	p.run = run{entry: 0, since: none}
	p.dead = false
	p.returns = returns
	p.sum = summary{thru: none, post: none}
	p.bound = 0
	p.checks = p.checks[:0]
	if !atEntry {
		p.spend(0, frameCost, noCall)
		return
	}
	p.check(0)
	p.region().add(frameCost) // not part of the run, whose length is bounded
}

func (r *region) add(cost int64) {
	r.paid += cost
	r.most = max(r.most, r.paid)
}

func (p *placer) region() *region { return &p.regions[len(p.regions)-1] }

func (p *placer) frame() *frame { return &p.frames[len(p.frames)-1] }

// check places a check, and begins a region that extends to the end of the
// innermost block.
func (p *placer) check(at int) {
	if n := len(p.checks); n > 0 && p.checks[n-1].at == at {
		return
	}
	p.closeRegions(p.frame().base)
	p.checks = append(p.checks, check{at: at})
	p.regions = append(p.regions, region{check: len(p.checks) - 1})
	p.run = run{entry: none, since: 0}
}

// closeRegions ends the regions that were begun after the first base ones.
func (p *placer) closeRegions(base int) {
	for _, r := range p.regions[base:] {
		if r.check < 0 {
			p.sum.pays = r.most
		} else {
			p.checks[r.check].amount = r.most
		}
	}
	p.regions = p.regions[:base]
}

// spend adds an instruction of that cost, which calls a function.
func (p *placer) spend(at int, cost int64, callee summary) {
	if p.dead {
		return
	}
	if p.region().paid+cost+callee.pays > p.limits.segment || p.run.longest()+cost+callee.pre > p.limits.run {
		p.check(at)
	}
	p.region().add(cost + callee.pays)
	p.sum.pre = max(p.sum.pre, p.run.entry+cost+callee.pre)
	p.bound = max(p.bound, p.run.since+cost+callee.pre)
	p.run.since = max(p.run.since+cost+callee.thru, callee.post, none)
	p.run.entry = max(p.run.entry+cost+callee.thru, none)
}

// noCall is the summary for an instruction that calls nothing.
var noCall = summary{post: none}

// next adds an instruction that is not a call. after is the offset of the
// instruction behind it, and values what a block takes and results in.
func (p *placer) next(in *wasm.Instruction, cost int64, after, values int) {
	switch in.Op {
	case wasm.OpBlock, wasm.OpIf:
		p.spend(in.At, cost+valuesCost(values), noCall)
		p.open(in.Op, values)
	case wasm.OpLoop:
		p.spend(in.At, cost+valuesCost(values), noCall)
		p.open(in.Op, values)
		if !p.dead {
			p.check(after)
		}
	case wasm.OpElse:
		p.beginElse()
	case wasm.OpEnd:
		p.end(in.At)
	case wasm.OpBranch, wasm.OpBranchIf:
		p.branch(in, cost)
		p.dead = p.dead || in.Op == wasm.OpBranch
	case wasm.OpBranchTable:
		p.branch(in, cost)
		p.dead = true
	case wasm.OpReturn:
		p.exit(in.At, cost+valuesCost(p.frames[0].values))
		p.dead = true
	case wasm.OpUnreachable:
		p.spend(in.At, cost, noCall)
		p.dead = true
	default:
		p.spend(in.At, cost, noCall)
	}
}

func (p *placer) open(op wasm.Opcode, values int) {
	p.frames = append(p.frames, frame{
		op: op, base: len(p.regions), values: values, dead: p.dead,
		paid: p.region().paid, run: p.run,
		endPaid: 0, endRun: run{none, none},
	})
}

// branch adds a branch, and merges the path to here into those to its labels.
func (p *placer) branch(in *wasm.Instruction, cost int64) {
	if p.dead {
		return
	}
	cost += valuesCost(p.mostValues(in))
	if p.leavesFunction(in) {
		p.exit(in.At, cost+branchCost)
	} else {
		p.spend(in.At, cost, noCall)
	}
	eachLabel(in, p.reach)
}

func eachLabel(in *wasm.Instruction, visit func(label uint32)) {
	if in.Op == wasm.OpBranchTable {
		in.Labels(visit)
	} else {
		visit(in.A)
	}
}

// leavesFunction reports whether a branch may leave the function.
func (p *placer) leavesFunction(in *wasm.Instruction) (leaves bool) {
	eachLabel(in, func(label uint32) { leaves = leaves || int(label) >= len(p.frames)-1 })
	return leaves
}

// mostValues returns the most values that a branch may pass on.
func (p *placer) mostValues(in *wasm.Instruction) (most int) {
	eachLabel(in, func(label uint32) {
		most = max(most, p.frames[max(0, len(p.frames)-1-int(label))].values)
	})
	return most
}

// reach merges the path to here into those to the end of a block. A branch to a
// loop goes to its start instead, which has a check, so nothing is merged there.
func (p *placer) reach(label uint32) {
	if int(label) >= len(p.frames)-1 {
		return
	}
	f := &p.frames[len(p.frames)-1-int(label)]
	if f.op != wasm.OpLoop {
		f.merge(p.regions[f.base-1].paid, p.run)
	}
}

// merge adds a path to the end of the block.
func (f *frame) merge(paid int64, r run) {
	f.reached = true
	f.endPaid = max(f.endPaid, paid)
	f.endRun.merge(r)
}

// exit adds an instruction that returns from the function.
func (p *placer) exit(at int, cost int64) {
	if p.dead {
		return
	}
	if p.run.since+cost > p.returns {
		p.check(at)
	}
	p.spend(at, cost, noCall)
	p.sum.thru = max(p.sum.thru, p.run.entry)
	p.sum.post = max(p.sum.post, p.run.since)
}

// beginElse ends the first arm of an if and begins the second.
func (p *placer) beginElse() {
	if !p.dead {
		p.reach(0)
	}
	f := p.frame()
	f.op = wasm.OpElse
	p.closeRegions(f.base)
	p.region().paid, p.run, p.dead = f.paid, f.run, f.dead
}

func (p *placer) end(at int) {
	if len(p.frames) == 1 {
		p.exit(at, branchCost+valuesCost(p.frames[0].values))
		p.closeRegions(0)
		return
	}
	f := p.frame()
	if !p.dead {
		f.merge(p.regions[f.base-1].paid, p.run)
	}
	if f.op == wasm.OpIf && !f.dead { // an if without an else can be skipped
		f.merge(f.paid, f.run)
	}
	p.closeRegions(f.base)
	p.dead = !f.reached
	if f.reached {
		p.region().paid, p.run = f.endPaid, f.endRun
	}
	p.frames = p.frames[:len(p.frames)-1]
}
