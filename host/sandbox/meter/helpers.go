package meter

import (
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// This file has the helpers: functions that take the place of bulk
// instructions. One instruction that fills 64 MiB takes milliseconds, so a
// helper runs it in chunks with a check before each. remainder.go has helpers
// of another kind.

// helper is a bulk instruction with its indices, or a remainder.
type helper struct {
	op   wasm.Opcode
	a, b uint32
}

func helperOf(in *wasm.Instruction) helper { return helper{in.Op, in.A, in.B} }

// bound returns what a helper runs between two of its own checks.
func (h helper) bound() int64 {
	if h.op == wasm.OpMemoryGrow {
		return touchedPages*touchCode + helperCost
	}
	return chunkCost + helperCost
}

// summary returns what callers must know of a helper, as the placer finds it
// for other functions. The caller pays for the largest length that is small.
func (h helper) summary() summary {
	if h.op == wasm.OpMemoryGrow {
		return summary{pays: helperCost, pre: helperCost, thru: none, post: helperCost}
	}
	return summary{pays: helperCost + smallCost, pre: helperCost + smallCost, thru: helperCost + smallCost, post: helperCost}
}

// The parameters of a helper, in the order of the instruction's operands.
const (
	to     = 0
	from   = 1 // for a fill: the value
	length = 2
	delta  = 0 // of memory.grow
)

// define writes a helper. Operands that are out of bounds are left to the
// instruction itself, which traps before it has written anything.
func (e *emitter) define(h helper) module.Defined {
	if isRemainder(h.op) {
		return defineRemainder(h.op)
	}
	f := module.Defined{Name: framePrefix + "bulk"}
	var c code
	if h.op == wasm.OpMemoryGrow {
		f.Type = wasm.Signature([]wasm.ValueType{wasm.I32}, wasm.I32)
		f.Locals = []wasm.ValueType{wasm.I32}
		e.grow(&c)
	} else {
		value := wasm.I32
		if h.op == wasm.OpTableFill {
			value = e.plan.m.Tables[h.a].Type
		}
		f.Type = wasm.Signature([]wasm.ValueType{wasm.I32, value, wasm.I32})
		e.inChunks(&c, h)
	}
	c.op(wasm.OpEnd)
	f.Code = c
	return f
}

// The kernel makes a page when it is used for the first time, which takes it
// longer than anything that the guest can do with one instruction. So the pages
// that memory.grow adds are used at once, and paid.
const (
	touchedPages = 16 // of 4 KiB, in one of 64 KiB: what is touched between two checks
	touchCode    = 8  // what the code costs that touches one
)

// grow charges for all pages because some systems move the memory. It ends with
// a tick, so that the next slice is that of a memory of the new size.
func (e *emitter) grow(c *code) {
	const page = 1 // a local
	c.op(wasm.OpGlobalGet, e.fuel)
	c.op(wasm.OpMemorySize, 0)
	c.op(wasm.OpI64ExtendI32U)
	c.i64(pageCost)
	c.ops(wasm.OpI64Mul, wasm.OpI64Sub)
	e.pay(c)
	c.get(delta)
	c.op(wasm.OpMemoryGrow, 0)
	c.op(wasm.OpLocalTee, page) // -1, which is behind all pages, if it is refused
	c.block(wasm.OpLoop)
	c.get(page)
	c.op(wasm.OpMemorySize, 0)
	c.op(wasm.OpI32LtU)
	c.block(wasm.OpIf)
	e.check(c, touchedPages*touchCost+helperCost)
	for i := range uint32(touchedPages) {
		c.get(page)
		c.i32(16)
		c.op(wasm.OpI32Shl)
		c.i32(0)
		c.op(wasm.OpI32Store, 0, i<<12)
	}
	c.advance(page, wasm.OpI32Add, 1)
	c.op(wasm.OpBranch, 1)
	c.op(wasm.OpEnd)
	c.op(wasm.OpEnd)
	c.op(wasm.OpCall, e.refuel)
}

// inChunks writes the body of a helper other than memory.grow: a small length
// at once, any other in chunks.
func (e *emitter) inChunks(c *code, h helper) {
	smallest, chunk := int32(smallBytes), int32(chunkBytes)
	if isTableOp(h.op) {
		smallest, chunk = smallElements, chunkElements
	}
	c.ifMoreThan(smallest)
	e.outOfBounds(c, h)
	c.block(wasm.OpIf)
	h.whole(c) // traps
	c.op(wasm.OpEnd)
	if h.op == wasm.OpMemoryCopy || h.op == wasm.OpTableCopy {
		c.get(to, from)
		c.op(wasm.OpI32Sub)
		c.get(length)
		c.op(wasm.OpI32LtU)
		c.block(wasm.OpIf)
		e.backward(c, h, chunk)
		c.op(wasm.OpElse)
		e.forward(c, h, chunk)
		c.op(wasm.OpEnd)
	} else {
		e.forward(c, h, chunk)
	}
	e.check(c, 1)
	c.op(wasm.OpElse)
	h.whole(c)
	c.op(wasm.OpEnd)
}

// whole runs the instruction with the operands as they are now.
func (h helper) whole(c *code) {
	c.get(to, from, length)
	h.instruction(c)
}

func (h helper) instruction(c *code) {
	in := wasm.Instruction{Op: h.op, A: h.a, B: h.b}
	*c = in.Append(*c)
}

// outOfBounds pushes whether the operands are out of bounds.
func (e *emitter) outOfBounds(c *code, h helper) {
	e.endsBeyond(c, to, func() { e.sizeOf(c, h, true) })
	if h.op == wasm.OpMemoryFill || h.op == wasm.OpTableFill {
		return
	}
	e.endsBeyond(c, from, func() { e.sizeOf(c, h, false) })
	c.op(wasm.OpI32Or)
}

// endsBeyond pushes whether start + length is more than what size pushes.
func (e *emitter) endsBeyond(c *code, start uint32, size func()) {
	c.get(start)
	c.op(wasm.OpI64ExtendI32U)
	c.get(length)
	c.ops(wasm.OpI64ExtendI32U, wasm.OpI64Add)
	size()
	c.op(wasm.OpI64GtU)
}

// sizeOf pushes the size of what is written to, or else read from.
func (e *emitter) sizeOf(c *code, h helper, written bool) {
	m := e.plan.m
	switch {
	case h.op == wasm.OpMemoryInit && !written:
		c.i64(int64(segmentLength(m.Data, h.a)))
	case h.op == wasm.OpTableInit && !written:
		c.i64(int64(segmentLength(m.Elements, h.a)))
	case h.op == wasm.OpTableInit, h.op == wasm.OpTableCopy && !written:
		c.tableSize(h.b)
	case isTableOp(h.op):
		c.tableSize(h.a)
	default:
		c.op(wasm.OpMemorySize, 0)
		c.op(wasm.OpI64ExtendI32U)
		c.i64(16)
		c.op(wasm.OpI64Shl)
	}
}

// segmentLength returns the length of a segment, 0 if it does not exist: the
// engine refuses such a module.
func segmentLength(lengths []uint32, index uint32) uint32 {
	if uint64(index) < uint64(len(lengths)) {
		return lengths[index]
	}
	return 0
}

func (c *code) tableSize(table uint32) {
	c.op(wasm.OpTableSize, table)
	c.op(wasm.OpI64ExtendI32U)
}

// forward runs the chunks from the first to the last.
func (e *emitter) forward(c *code, h helper, chunk int32) {
	c.block(wasm.OpLoop)
	e.payChunk(c, h, chunk)
	c.ifMoreThan(chunk)
	c.get(to, from)
	c.i32(chunk)
	h.instruction(c)
	c.advance(to, wasm.OpI32Add, chunk)
	if h.op != wasm.OpMemoryFill && h.op != wasm.OpTableFill {
		c.advance(from, wasm.OpI32Add, chunk)
	}
	c.advance(length, wasm.OpI32Sub, chunk)
	c.op(wasm.OpBranch, 1)
	c.op(wasm.OpEnd)
	h.whole(c)
	c.op(wasm.OpEnd)
}

// backward runs the chunks from the last to the first, for a copy that would
// overwrite what it has yet to read.
func (e *emitter) backward(c *code, h helper, chunk int32) {
	c.block(wasm.OpLoop)
	e.payChunk(c, h, chunk)
	c.ifMoreThan(chunk)
	c.advance(length, wasm.OpI32Sub, chunk)
	for _, start := range []uint32{to, from} {
		c.get(start, length)
		c.op(wasm.OpI32Add)
	}
	c.i32(chunk)
	h.instruction(c)
	c.op(wasm.OpBranch, 1)
	c.op(wasm.OpEnd)
	h.whole(c)
	c.op(wasm.OpEnd)
}

// ifMoreThan begins a block that runs if more than that is left.
func (c *code) ifMoreThan(n int32) {
	c.get(length)
	c.i32(n)
	c.op(wasm.OpI32GtU)
	c.block(wasm.OpIf)
}

// advance adds to a local, or subtracts from it.
func (c *code) advance(local uint32, op wasm.Opcode, by int32) {
	c.get(local)
	c.i32(by)
	c.op(op)
	c.op(wasm.OpLocalSet, local)
}

// payChunk pays for a chunk: its size, or length if that is less.
func (e *emitter) payChunk(c *code, h helper, chunk int32) {
	c.op(wasm.OpGlobalGet, e.fuel)
	c.get(length)
	c.i32(chunk)
	c.get(length)
	c.i32(chunk)
	c.ops(wasm.OpI32LtU, wasm.OpSelect, wasm.OpI64ExtendI32U)
	if !isTableOp(h.op) {
		c.i64(byteShift)
		c.op(wasm.OpI64ShrU)
	}
	c.op(wasm.OpI64Sub)
	c.i64(helperCost)
	c.op(wasm.OpI64Sub)
	e.pay(c)
}
