package meter

import "github.com/thole-dev/thole/host/sandbox/module"

// helper is a function that takes the place of a bulk instruction.
type helper struct {
	op   module.Opcode
	a, b uint32
}

func helperOf(in *module.Instruction) helper { return helper{in.Op, in.A, in.B} }

// isBulk tells whether an instruction takes as long as its operands say.
func isBulk(op module.Opcode) bool {
	switch op {
	case module.OpMemoryInit, module.OpMemoryCopy, module.OpMemoryFill, module.OpMemoryGrow,
		module.OpTableInit, module.OpTableCopy, module.OpTableFill:
		return true
	default:
		return false
	}
}

func ofTable(op module.Opcode) bool {
	return op == module.OpTableInit || op == module.OpTableCopy || op == module.OpTableFill
}

// small tells whether a bulk instruction's length is a small constant, and
// what it costs: last is the instruction before it.
func small(in, last *module.Instruction) (cost int64, ok bool) {
	if in.Op == module.OpMemoryGrow || last.Op != module.OpI32Const {
		return 0, false
	}
	n := uint32(last.Value)
	if ofTable(in.Op) {
		return int64(n), n <= smallElements
	}
	return int64(n >> byteShift), n <= smallBytes
}

const (
	// helperCost is more than what a helper executes until its first check,
	// or after its last one, apart from the bulk instruction itself.
	helperCost = 64
	smallCost  = smallBytes >> byteShift
	chunkCost  = chunkBytes >> byteShift
)

// bound is what a helper runs between two of its own checks.
func (h helper) bound() int64 {
	if h.op == module.OpMemoryGrow {
		return helperCost
	}
	return chunkCost + helperCost
}

// summary tells of a helper what the placer tells of a function. A small
// length is paid by the caller, as if it were the largest that is small.
func (h helper) summary() summary {
	if h.op == module.OpMemoryGrow {
		return summary{pays: helperCost, pre: helperCost, thru: none, post: helperCost}
	}
	return summary{pays: helperCost + smallCost, pre: helperCost + smallCost, thru: helperCost + smallCost, post: helperCost}
}
