package meter

import (
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// This file has the cost of instructions. The unit of fuel is what a simple
// instruction costs. What can take the processor longer costs more: a guest
// decides whether its memory, its stack and its code are in the caches, so that
// these costs are what bounds the time from one tick to the next (RATIONALE.md,
// "What does an instruction cost?").

const (
	accessCost       = 4    // of linear memory: a cache miss, or two
	elementCost      = 8    // of a table: its header and the element
	branchCost       = 2    // br, br_if, if and return: the code may not be in the cache
	branchTableCost  = 8    // br_table: the jump is not predicted either
	callCost         = 8    // a call: code and stack
	callIndirectCost = 32   // a call through a table: element, function, type and code
	importCallCost   = 100  // a call of an imported function, without what that does
	divideCost       = 4    // division and remainder of integers
	floatCost        = 2    // arithmetic with floating point numbers, which may be denormal
	vectorCost       = 3    // an instruction for vectors, which may be several of the processor
	tableGrowCost    = 1000 // table.grow; the size of tables is bounded at load
	byteShift        = 3    // a bulk instruction costs 1 for 8 bytes, or for one table element
	pageCost         = (64 << 10) >> byteShift

	// touchCost is what a page of 4 KiB costs that is used for the first time:
	// the kernel clears it.
	touchCost = 128

	// A bulk instruction up to this size is paid as if it had this size.
	smallBytes    = 1 << 10
	smallElements = smallBytes >> byteShift
	smallCost     = smallBytes >> byteShift

	// Larger ones run in chunks of at most this size.
	chunkBytes    = 64 << 10
	chunkElements = chunkBytes >> byteShift
	chunkCost     = chunkBytes >> byteShift

	// helperCost is more than what a helper (helpers.go) executes until its
	// first check, or after its last one, without the bulk instruction itself.
	helperCost = 64
)

// costOf returns what an instruction costs by itself: a call without its
// callee, a bulk instruction without its length, and a branch or block without
// the values that it passes on (valuesCost). Instructions that only mark
// structure cost nothing because no code is made of them. The end of a function
// is a return and is charged as one.
func costOf(op wasm.Opcode) int64 {
	switch op {
	case wasm.OpBlock, wasm.OpLoop, wasm.OpElse, wasm.OpEnd:
		return 0
	case wasm.OpBranch, wasm.OpBranchIf, wasm.OpIf, wasm.OpReturn:
		return branchCost
	case wasm.OpBranchTable:
		return branchTableCost
	case wasm.OpCall:
		return callCost
	case wasm.OpCallIndirect:
		return callIndirectCost
	case wasm.OpTableGet, wasm.OpTableSet:
		return elementCost
	case wasm.OpTableGrow:
		return tableGrowCost
	default:
		return costOfOthers(op)
	}
}

// costOfOthers is costOf for the instructions that have no case there.
func costOfOthers(op wasm.Opcode) int64 {
	switch {
	case op.IsAccess():
		return accessCost
	case op.IsDivision():
		return divideCost
	case op.IsFloat():
		return floatCost
	case op>>16 == wasm.PrefixVector:
		return vectorCost
	case isBulk(op):
		return 1 + 2*accessCost
	default:
		return 1
	}
}

// valuesCost returns what n values cost that a call, block or branch passes on.
// Few are in registers.
func valuesCost(n int) int64 { return int64(max(0, n-fewValues)) }

const fewValues = 8

// frameCost returns what each call of a function costs besides its
// instructions: room on the engine's stack for locals and for operands, which
// the guest may use for the first time. In a function on a cycle it is more:
// the host has to see the stack before it is too large (maxStack in
// host/sandbox).
func frameCost(b *module.Body, cyclic bool) int64 {
	if cyclic {
		return 16 + int64(b.Locals)/2 + int64(b.Size())/8
	}
	return int64(b.Locals)/8 + int64(b.Size())/32
}

// isBulk reports whether the time of an instruction depends on its operands.
func isBulk(op wasm.Opcode) bool {
	switch op {
	case wasm.OpMemoryInit, wasm.OpMemoryCopy, wasm.OpMemoryFill, wasm.OpMemoryGrow,
		wasm.OpTableInit, wasm.OpTableCopy, wasm.OpTableFill:
		return true
	default:
		return false
	}
}

func isTableOp(op wasm.Opcode) bool {
	return op == wasm.OpTableInit || op == wasm.OpTableCopy || op == wasm.OpTableFill
}

// smallLength reports whether the length of a bulk instruction is a small
// constant, and what that length costs. last is the instruction before it.
func smallLength(in, last *wasm.Instruction) (cost int64, ok bool) {
	if in.Op == wasm.OpMemoryGrow || last.Op != wasm.OpI32Const {
		return 0, false
	}
	n := uint32(last.Value)
	if isTableOp(in.Op) {
		return int64(n), n <= smallElements
	}
	return int64(n >> byteShift), n <= smallBytes
}
