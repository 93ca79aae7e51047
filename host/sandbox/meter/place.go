package meter

import "github.com/thole-dev/thole/host/sandbox/module"

// none is the length of a run that does not exist. It stays below zero
// whatever is added to it.
const none = int64(-1) << 50

// summary is what a caller must know of a function.
type summary struct {
	pays int64 // instructions that the caller pays in advance
	pre  int64 // most instructions from its entry until a check or its return
	thru int64 // most from its entry until its return, without a check
	post int64 // most from a check until its return
}

// check is a place in the code, and how much is paid there.
type check struct {
	at     int // before the instruction at this offset
	amount int64
}

// run is the number of instructions on the longest way to a point in the code
// that has no check: from the function's entry, and since a check in it or in
// a callee.
type run struct{ entry, since int64 }

func (r *run) merge(o run) {
	r.entry, r.since = max(r.entry, o.entry), max(r.since, o.since)
}

func (r run) longest() int64 { return max(r.entry, r.since) }

// region is a part of the code that is paid at one place: the start of the
// function, of an iteration of a loop, or a check within a block, which pays
// until the block's end. Loops within it pay for themselves.
type region struct {
	paid  int64 // on the longest way to this point
	most  int64 // to any point
	frame int64 // what the call costs beside
	check int   // where it is paid; -1 is by the caller
}

// frame is a block that is open.
type frame struct {
	op      module.Opcode
	base    int  // regions that were open before
	dead    bool // it cannot be reached
	paid    int64
	run     run // paid and run at its start
	reached bool
	atPaid  int64
	atRun   run // the same at its end, by the branches to it
}

// placer places checks in one function. Its one pass keeps two numbers: what
// the current region has to pay for the longest way to here, and how long the
// longest way without a check is. A check is placed where one of them would
// pass the limit, at each loop and, if asked for, at the entry.
type placer struct {
	limits  limits
	returns int64 // most instructions between a check and a return; the run's limit or less
	frames  []frame
	regions []region
	run     run
	dead    bool
	sum     summary
	bound   int64 // longest way between two checks
	checks  []check
}

// begin readies the placer for a function, whose frame costs something too.
func (p *placer) begin(atEntry bool, frameCost, returns int64) {
	p.frames = append(p.frames[:0], frame{op: module.OpBlock})
	p.regions = append(p.regions[:0], region{check: -1})
	p.run = run{entry: 0, since: none}
	p.dead = false
	p.returns = returns
	p.sum = summary{thru: none, post: none}
	p.bound = 0
	p.checks = p.checks[:0]
	if atEntry {
		p.check(0)
	}
	p.region().frame = frameCost
}

func (p *placer) region() *region { return &p.regions[len(p.regions)-1] }

func (p *placer) frame() *frame { return &p.frames[len(p.frames)-1] }

// check places a check, and begins a region that reaches until the end of the
// innermost block.
func (p *placer) check(at int) {
	if n := len(p.checks); n > 0 && p.checks[n-1].at == at {
		return
	}
	p.close(p.frame().base)
	p.checks = append(p.checks, check{at: at})
	p.regions = append(p.regions, region{check: len(p.checks) - 1})
	p.run = run{entry: none, since: 0}
}

// close ends the regions that were begun after the first base ones.
func (p *placer) close(base int) {
	for _, r := range p.regions[base:] {
		if r.check < 0 {
			p.sum.pays = r.most + r.frame
		} else {
			p.checks[r.check].amount = r.most + r.frame
		}
	}
	p.regions = p.regions[:base]
}

// spend takes an instruction in that costs that much itself, and calls a
// function.
func (p *placer) spend(at int, own int64, callee summary) {
	if p.dead {
		return
	}
	if p.region().paid+own+callee.pays > p.limits.segment || p.run.longest()+own+callee.pre > p.limits.run {
		p.check(at)
	}
	r := p.region()
	r.paid += own + callee.pays
	r.most = max(r.most, r.paid)
	p.sum.pre = max(p.sum.pre, p.run.entry+own+callee.pre)
	p.bound = max(p.bound, p.run.since+own+callee.pre)
	p.run.since = max(p.run.since+own+callee.thru, callee.post, none)
	p.run.entry = max(p.run.entry+own+callee.thru, none)
}

// nothing is the summary of no call.
var nothing = summary{post: none}

// take takes an instruction in that is not a call. next is the offset of the
// one behind it.
func (p *placer) take(in *module.Instruction, own int64, next int) {
	switch in.Op {
	case module.OpBlock, module.OpIf:
		p.spend(in.At, own, nothing)
		p.open(in.Op)
	case module.OpLoop:
		p.open(in.Op)
		if !p.dead {
			p.check(next)
		}
	case module.OpElse:
		p.otherwise()
	case module.OpEnd:
		p.end(in.At)
	case module.OpBranch, module.OpBranchIf:
		p.branch(in, own)
		p.dead = p.dead || in.Op == module.OpBranch
	case module.OpBranchTable:
		p.branch(in, own)
		p.dead = true
	case module.OpReturn:
		p.exit(in.At, own+returnCost)
		p.dead = true
	case module.OpUnreachable:
		p.spend(in.At, own, nothing)
		p.dead = true
	default:
		p.spend(in.At, own, nothing)
	}
}

func (p *placer) open(op module.Opcode) {
	p.frames = append(p.frames, frame{
		op: op, base: len(p.regions), dead: p.dead,
		paid: p.region().paid, run: p.run,
		atPaid: 0, atRun: run{none, none},
	})
}

// branch ends at a label what is taken there.
func (p *placer) branch(in *module.Instruction, own int64) {
	if p.dead {
		return
	}
	if p.leaves(in) {
		p.exit(in.At, own+returnCost)
	} else {
		p.spend(in.At, own, nothing)
	}
	p.targets(in, p.reach)
}

func (p *placer) targets(in *module.Instruction, visit func(label uint32)) {
	if in.Op == module.OpBranchTable {
		in.Targets(visit)
	} else {
		visit(in.A)
	}
}

// leaves tells whether a branch may leave the function.
func (p *placer) leaves(in *module.Instruction) (out bool) {
	p.targets(in, func(label uint32) { out = out || int(label) >= len(p.frames)-1 })
	return out
}

// reach merges the way to here into what is behind a label. The start of a
// loop has a check, so nothing goes on there.
func (p *placer) reach(label uint32) {
	if int(label) >= len(p.frames)-1 {
		return
	}
	f := &p.frames[len(p.frames)-1-int(label)]
	if f.op == module.OpLoop {
		return
	}
	f.reached = true
	f.atPaid = max(f.atPaid, p.regions[f.base-1].paid)
	f.atRun.merge(p.run)
}

// exit takes in what returns from the function.
func (p *placer) exit(at int, own int64) {
	if p.dead {
		return
	}
	if p.run.since+own > p.returns {
		p.check(at)
	}
	p.spend(at, own, nothing)
	p.sum.thru = max(p.sum.thru, p.run.entry)
	p.sum.post = max(p.sum.post, p.run.since)
}

// otherwise goes from the first arm of an if to the second.
func (p *placer) otherwise() {
	if !p.dead {
		p.reach(0)
	}
	f := p.frame()
	f.op = module.OpElse
	p.close(f.base)
	p.region().paid, p.run, p.dead = f.paid, f.run, f.dead
}

func (p *placer) end(at int) {
	if len(p.frames) == 1 {
		p.exit(at, returnCost)
		p.close(0)
		return
	}
	f := p.frame()
	if !p.dead {
		f.reached = true
		f.atPaid = max(f.atPaid, p.regions[f.base-1].paid)
		f.atRun.merge(p.run)
	}
	if f.op == module.OpIf && !f.dead {
		f.reached = true
		f.atPaid = max(f.atPaid, f.paid)
		f.atRun.merge(f.run)
	}
	p.close(f.base)
	p.dead = !f.reached
	if f.reached {
		p.region().paid, p.run = f.atPaid, f.atRun
	}
	p.frames = p.frames[:len(p.frames)-1]
}
