package meter

import "github.com/thole-dev/thole/host/sandbox/module"

// The parameters of a bulk instruction, in the order of its operands.
const (
	to     = 0
	from   = 1 // for a fill: the value
	length = 2
	delta  = 0 // of memory.grow
)

// define writes a helper: a function that does what the instruction does, in
// pieces with a check before each. What is out of bounds is left to the
// instruction itself, which traps before it has written anything.
func (e *emitter) define(h helper) module.Defined {
	f := module.Defined{Name: framePrefix + h.name()}
	var c code
	if h.op == module.OpMemoryGrow {
		f.Type = module.Signature([]module.ValueType{module.I32}, []module.ValueType{module.I32})
		e.grow(&c)
	} else {
		value := module.I32
		if h.op == module.OpTableFill {
			value = e.plan.m.Tables[h.a].Type
		}
		f.Type = module.Signature([]module.ValueType{module.I32, value, module.I32}, nil)
		e.pieces(&c, h)
	}
	c.end()
	f.Code = c
	return f
}

func (h helper) name() string {
	return map[module.Opcode]string{
		module.OpMemoryInit: "memory.init",
		module.OpMemoryCopy: "memory.copy",
		module.OpMemoryFill: "memory.fill",
		module.OpMemoryGrow: "memory.grow",
		module.OpTableInit:  "table.init",
		module.OpTableCopy:  "table.copy",
		module.OpTableFill:  "table.fill",
	}[h.op]
}

// grow charges for all pages, as the memory may have to be moved.
func (e *emitter) grow(c *code) {
	c.index(module.OpGlobalGet, e.fuel)
	c.op(byte(module.OpMemorySize), 0)
	c.op(opI64ExtendU)
	c.i64(pageCost)
	c.op(opI64Mul)
	c.op(opI64Sub)
	e.pay(c)
	c.get(delta)
	c.op(byte(module.OpMemoryGrow), 0)
}

func (e *emitter) pieces(c *code, h helper) {
	smallest, chunk := int32(smallBytes), int32(chunkBytes)
	if ofTable(h.op) {
		smallest, chunk = smallElements, chunkElements
	}
	c.get(length)
	c.i32(smallest)
	c.op(opI32GtU)
	c.when()
	e.outside(c, h)
	c.when()
	h.whole(c) // traps
	c.end()
	if h.op == module.OpMemoryCopy || h.op == module.OpTableCopy {
		c.gets(to, from)
		c.op(opI32Sub)
		c.get(length)
		c.op(opI32LtU)
		c.when()
		e.backward(c, h, chunk)
		c.otherwise()
		e.forward(c, h, chunk)
		c.end()
	} else {
		e.forward(c, h, chunk)
	}
	e.check(c, 1)
	c.otherwise()
	h.whole(c)
	c.end()
}

// whole is the instruction as it was.
func (h helper) whole(c *code) {
	c.gets(to, from, length)
	c.do(h.op, h.a, h.b)
}

// outside tells whether the operands are out of bounds.
func (e *emitter) outside(c *code, h helper) {
	e.beyond(c, to, func() { e.sizeOf(c, h, true) })
	if h.op == module.OpMemoryFill || h.op == module.OpTableFill {
		return
	}
	e.beyond(c, from, func() { e.sizeOf(c, h, false) })
	c.op(opI32Or)
}

// beyond tells whether start + length is more than what size pushes.
func (e *emitter) beyond(c *code, start uint32, size func()) {
	c.get(start)
	c.op(opI64ExtendU)
	c.get(length)
	c.op(opI64ExtendU)
	c.op(opI64Add)
	size()
	c.op(opI64GtU)
}

// sizeOf pushes the size of what is written to, or read from.
func (e *emitter) sizeOf(c *code, h helper, written bool) {
	m := e.plan.m
	switch {
	case h.op == module.OpMemoryInit && !written:
		c.i64(int64(at(m.Data, h.a)))
	case h.op == module.OpTableInit && !written:
		c.i64(int64(at(m.Elements, h.a)))
	case h.op == module.OpTableInit:
		c.tableSize(h.b)
	case h.op == module.OpTableCopy && !written:
		c.tableSize(h.b)
	case ofTable(h.op):
		c.tableSize(h.a)
	default:
		c.op(byte(module.OpMemorySize), 0)
		c.op(opI64ExtendU)
		c.i64(16)
		c.op(opI64Shl)
	}
}

// at is the length of a segment; the engine refuses a module that names one
// that is not there.
func at(lengths []uint32, index uint32) uint32 {
	if uint64(index) < uint64(len(lengths)) {
		return lengths[index]
	}
	return 0
}

func (c *code) tableSize(table uint32) {
	c.do(module.OpTableSize, table, 0)
	c.op(opI64ExtendU)
}

// forward does the pieces from the first to the last.
func (e *emitter) forward(c *code, h helper, chunk int32) {
	c.loop()
	e.payPiece(c, h, chunk)
	e.whenMore(c, chunk)
	c.gets(to, from)
	c.i32(chunk)
	c.do(h.op, h.a, h.b)
	c.advance(to, opI32Add, chunk)
	if h.op != module.OpMemoryFill && h.op != module.OpTableFill {
		c.advance(from, opI32Add, chunk)
	}
	c.advance(length, opI32Sub, chunk)
	c.index(module.OpBranch, 1)
	c.end()
	h.whole(c)
	c.end()
}

// backward does the pieces from the last to the first, for a copy that would
// overwrite what it has yet to read.
func (e *emitter) backward(c *code, h helper, chunk int32) {
	c.loop()
	e.payPiece(c, h, chunk)
	e.whenMore(c, chunk)
	c.advance(length, opI32Sub, chunk)
	for _, start := range []uint32{to, from} {
		c.gets(start, length)
		c.op(opI32Add)
	}
	c.i32(chunk)
	c.do(h.op, h.a, h.b)
	c.index(module.OpBranch, 1)
	c.end()
	h.whole(c)
	c.end()
}

func (e *emitter) whenMore(c *code, chunk int32) {
	c.get(length)
	c.i32(chunk)
	c.op(opI32GtU)
	c.when()
}

func (c *code) advance(local uint32, op byte, by int32) {
	c.get(local)
	c.i32(by)
	c.op(op)
	c.set(local)
}

// payPiece pays for a piece: chunk, or length if that is less.
func (e *emitter) payPiece(c *code, h helper, chunk int32) {
	c.index(module.OpGlobalGet, e.fuel)
	c.get(length)
	c.i32(chunk)
	c.get(length)
	c.i32(chunk)
	c.op(opI32LtU)
	c.op(opSelect)
	c.op(opI64ExtendU)
	if !ofTable(h.op) {
		c.i64(byteShift)
		c.op(opI64ShrU)
	}
	c.op(opI64Sub)
	c.i64(helperCost)
	c.op(opI64Sub)
	e.pay(c)
}
