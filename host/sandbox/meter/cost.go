package meter

import (
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// This file has the cost of instructions. The unit of fuel is an instruction;
// what takes the engine longer than a few instructions costs more.

const (
	returnCost     = 1
	importCallCost = 100  // a call of an imported function, without what that does
	refFuncCost    = 20   // ref.func leaves native code
	tableGrowCost  = 1000 // table.grow; the size of tables is bounded at load
	byteShift      = 3    // a bulk instruction costs 1 for 8 bytes, or for one table element
	pageCost       = (64 << 10) >> byteShift

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
// callee, a bulk instruction without its length. Instructions that only mark
// structure cost nothing because no code is made of them. The end of a function
// is a return and is charged as one.
func costOf(op wasm.Opcode) int64 {
	switch op {
	case wasm.OpBlock, wasm.OpLoop, wasm.OpElse, wasm.OpEnd:
		return 0
	case wasm.OpRefFunc:
		return refFuncCost
	case wasm.OpTableGrow:
		return tableGrowCost
	default:
		return 1
	}
}

// frameCost returns what each call of a function on a cycle costs besides its
// instructions. The engine's stack grows by a frame, with room for locals and
// for operands, and the host has to see it before it is too large (maxStack in
// host/sandbox).
func frameCost(b *module.Body) int64 { return 16 + int64(b.Locals)/2 + int64(b.Size())/8 }

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
