package tck

import (
	"bytes"
	"slices"

	"github.com/thole-dev/thole/abi/wasm"
)

// Instructions whose immediates are always the same.
var (
	Unreachable = op(wasm.OpUnreachable)
	Nop         = op(wasm.OpNop)
	Return      = op(wasm.OpReturn)
	Block       = wasm.AppendBlock(nil, wasm.OpBlock) // Block, Loop and If have neither parameters nor results.
	Loop        = wasm.AppendBlock(nil, wasm.OpLoop)
	If          = wasm.AppendBlock(nil, wasm.OpIf)
	Else        = op(wasm.OpElse)
	End         = op(wasm.OpEnd)
	Drop        = op(wasm.OpDrop)
	I32Eqz      = op(wasm.OpI32Eqz)
	I32Eq       = op(wasm.OpI32Eq)
	I32Ne       = op(wasm.OpI32Ne)
	I32LtU      = op(wasm.OpI32LtU)
	I32Add      = op(wasm.OpI32Add)
	I32Sub      = op(wasm.OpI32Sub)
	I32Mul      = op(wasm.OpI32Mul)
	I32DivS     = op(wasm.OpI32DivS)
	I32Shl      = op(wasm.OpI32Shl)
	I64Eq       = op(wasm.OpI64Eq)
	I64Ne       = op(wasm.OpI64Ne)
	I64LtU      = op(wasm.OpI64LtU)
	I64Add      = op(wasm.OpI64Add)
	I32WrapI64  = op(wasm.OpI32WrapI64)
	I32Load     = op(wasm.OpI32Load, 2, 0) // Loads and stores have the alignment and offset as immediates.
	I32Store    = op(wasm.OpI32Store, 2, 0)
	I64Load     = op(wasm.OpI64Load, 0, 0)
	I64Store    = op(wasm.OpI64Store, 0, 0)
	MemorySize  = op(wasm.OpMemorySize, 0)
	MemoryGrow  = op(wasm.OpMemoryGrow, 0)
	MemoryCopy  = op(wasm.OpMemoryCopy, 0, 0) // pops length, source and destination
	MemoryFill  = op(wasm.OpMemoryFill, 0)    // pops length, byte and destination
	TableSet    = op(wasm.OpTableSet, 0)      // pops a reference and an index
	TableGrow   = op(wasm.OpTableGrow, 0)     // pops a length and a reference
	TableFill   = op(wasm.OpTableFill, 0)     // pops length, reference and index
	NullFunc    = op(wasm.OpRefNull, uint32(wasm.FuncRef))
)

// op encodes an instruction whose immediates are indices.
func op(code wasm.Opcode, immediates ...uint32) []byte {
	return slices.Clip(wasm.AppendOp(nil, code, immediates...))
}

// I32Const pushes a constant.
func I32Const(v int32) []byte { return wasm.AppendConst(nil, wasm.OpI32Const, int64(v)) }

// I64Const pushes a constant.
func I64Const(v int64) []byte { return wasm.AppendConst(nil, wasm.OpI64Const, v) }

// LocalGet pushes a parameter or local.
func LocalGet(i uint32) []byte { return op(wasm.OpLocalGet, i) }

// LocalTee copies the top of the stack into a parameter or local.
func LocalTee(i uint32) []byte { return op(wasm.OpLocalTee, i) }

// LocalSet pops into a parameter or local.
func LocalSet(i uint32) []byte { return op(wasm.OpLocalSet, i) }

// GlobalGet pushes a global.
func GlobalGet(i uint32) []byte { return op(wasm.OpGlobalGet, i) }

// GlobalSet pops into a global.
func GlobalSet(i uint32) []byte { return op(wasm.OpGlobalSet, i) }

// Call calls a function.
func Call(f Func) []byte { return op(wasm.OpCall, uint32(f)) }

// CallIndirect calls through table 0 a function without parameters that
// returns an i32.
func (m *Module) CallIndirect() []byte { return CallIndirect(m.Type(nil, i32Only)) }

// CallIndirect calls through table 0 a function of the type with that index.
func CallIndirect(typeIndex uint32) []byte { return op(wasm.OpCallIndirect, typeIndex, 0) }

// LoopOf begins a loop with the parameters and results of a type.
func LoopOf(typeIndex uint32) []byte {
	loop := wasm.Instruction{Op: wasm.OpLoop, Value: int64(typeIndex)}
	return loop.Append(nil)
}

// RefFunc pushes a reference.
func RefFunc(f Func) []byte { return op(wasm.OpRefFunc, uint32(f)) }

// TableInit copies from a passive element segment into table 0: pops length,
// source and destination.
func TableInit(segment uint32) []byte { return op(wasm.OpTableInit, segment, 0) }

// MemoryInit copies from a passive data segment: pops length, source and
// destination.
func MemoryInit(segment uint32) []byte { return op(wasm.OpMemoryInit, segment, 0) }

// DataDrop drops a passive data segment.
func DataDrop(segment uint32) []byte { return op(wasm.OpDataDrop, segment) }

// Branch jumps to the label that many blocks out.
func Branch(depth uint32) []byte { return op(wasm.OpBranch, depth) }

// BranchIf jumps if the number on the stack is not zero.
func BranchIf(depth uint32) []byte { return op(wasm.OpBranchIf, depth) }

// BranchTable jumps to the label that the number on the stack selects. The
// last label is the default.
func BranchTable(depths ...uint32) []byte {
	return op(wasm.OpBranchTable, append([]uint32{uint32(len(depths) - 1)}, depths...)...)
}

// repeated returns a body that many times.
func repeated(times int, body []byte) []byte { return bytes.Repeat(body, times) }

// join returns one body made of several pieces.
func join(pieces ...[]byte) []byte { return slices.Concat(pieces...) }
