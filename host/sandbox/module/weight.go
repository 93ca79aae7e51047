package module

// The engine's work on a function grows with the square of its jumps, and its
// memory with the values that calls and blocks pass on: a few bytes of code
// can keep it busy for minutes, during which nothing can stop it. So each
// function has a weight, about the number of basic blocks that the engine
// makes of it (RATIONALE.md, "Why is there a limit of jumps?").

// maxWeight is that of one function. The largest of the standard library of Go
// weighs some 2,000.
const maxWeight = 8_192

const (
	indirectWeight  = 4 // of a call through a table: it is checked thrice
	bulkWeight      = 4 // of a bulk instruction
	valuesPerWeight = 4 // parameters and results of a call or block
)

// weight adds up over the instructions of a function.
type weight struct {
	total  int
	values int // most of a block until now: each jump may carry as many
}

func (w *weight) add(m *Module, in *Instruction) {
	switch in.Op {
	case OpBlock, OpLoop, OpIf:
		w.values = max(w.values, m.valuesOfBlock(in.Value))
		w.jumps(1)
	case OpElse, OpBranch, OpBranchIf:
		w.jumps(1)
	case OpBranchTable:
		w.jumps(int(in.count))
	case OpCall:
		if uint64(in.A) < uint64(len(m.Functions)) {
			w.total += m.Functions[in.A].values() / valuesPerWeight
		}
	case OpCallIndirect:
		w.total += indirectWeight
		if uint64(in.A) < uint64(len(m.types)) {
			w.total += m.types[in.A].values() / valuesPerWeight
		}
	default:
		w.total += pathsOutside(in.Op)
	}
}

// jumps adds jumps with the values that they may carry.
func (w *weight) jumps(n int) { w.total += n * (1 + w.values/valuesPerWeight) }

// pathsOutside is how many paths of its own an instruction has to a trap or
// into the host.
func pathsOutside(op Opcode) int {
	switch {
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82, // div and rem
		op >= 0xa8 && op <= 0xab, op >= 0xae && op <= 0xb1, // trunc
		op == opTableGet, op == opTableSet, op == OpMemoryGrow, op == OpRefFunc:
		return 1
	case op >= OpMemoryInit && op <= OpTableFill:
		return bulkWeight
	}
	return 0
}

func (m *Module) valuesOfBlock(typ int64) int {
	if typ >= 0 && typ < int64(len(m.types)) {
		return m.types[typ].values()
	}
	return 1
}

func (t FuncType) values() int { return len(t.Params) + len(t.Results) }
