package module

func (m *Module) readCode(r *reader) {
	for i := range r.count("function bodies", 3, MaxFunctions) {
		size := r.u32()
		if size > MaxBody {
			r.failf("too large: function %d has %d bytes, the limit is %d", i, size, MaxBody)
		}
		body := reader{data: r.bytes(size), err: r.err}
		m.readBody(&body)
		if body.err != nil {
			r.failf("function %d: %w", i, body.err)
			return
		}
	}
}

// readBody checks the locals, which the engine allocates by their counts,
// and notes the effects of the instructions.
func (m *Module) readBody(r *reader) {
	total := uint64(0)
	for range r.count("groups of locals", 2, MaxLocals) {
		total += uint64(r.u32())
		checkValueType(r, ValueType(r.byte()))
	}
	if total > MaxLocals {
		r.failf("too large: %d locals, the limit is %d", total, MaxLocals)
	}
	for r.left() > 0 {
		m.Effects.note(skipInstruction(r))
	}
}

func (e *Effects) note(op opcode) {
	switch op {
	case opTableSet, opTableInit, opTableCopy, opTableFill:
		e.WritesTables = true
	case opTableGrow:
		e.WritesTables, e.GrowsTables = true, true
	case opDataDrop, opElemDrop:
		e.DropsSegments = true
	default:
	}
}

// skipExpression passes over a constant expression. It holds no blocks, so
// the first end is its end.
func skipExpression(r *reader) {
	for r.err == nil {
		if skipInstruction(r) == opEnd {
			return
		}
	}
}

// opcode is the first byte, or for the two prefixed groups
// prefix<<16 | number.
type opcode uint32

const (
	opEnd        opcode = 0x0b
	opTableSet   opcode = 0x26
	prefixMisc   opcode = 0xfc
	prefixVector opcode = 0xfd
	opDataDrop          = prefixMisc<<16 | 9
	opTableInit         = prefixMisc<<16 | 12
	opElemDrop          = prefixMisc<<16 | 13
	opTableCopy         = prefixMisc<<16 | 14
	opTableGrow         = prefixMisc<<16 | 15
	opTableFill         = prefixMisc<<16 | 17
)

// skipInstruction passes over one instruction of WebAssembly 2.0 with its
// immediates. Anything else is an error: what is not known here could change
// state that a reset does not reach.
func skipInstruction(r *reader) opcode {
	op := opcode(r.byte())
	switch op {
	case prefixMisc:
		n := r.u32()
		skipMisc(r, n)
		return prefixMisc<<16 | opcode(n)
	case prefixVector:
		n := r.u32()
		skipVector(r, n)
		return prefixVector<<16 | opcode(n)
	default:
		skipImmediates(r, op)
		return op
	}
}

func skipImmediates(r *reader, op opcode) {
	switch {
	case op >= 0x45 && op <= 0xc4, // numeric
		op <= 0x01, op == 0x05, op == opEnd, op == 0x0f, op == 0x1a, op == 0x1b, op == 0xd1:
	case op >= 0x02 && op <= 0x04, op == 0xd0: // block types, ref.null
		r.skipLEB(5)
	case op == 0x0c, op == 0x0d, op == 0x10, op >= 0x20 && op <= 0x26, op == 0xd2:
		r.u32()
	case op == 0x0e: // br_table
		for range r.count("branch targets", 1, MaxBody) {
			r.u32()
		}
		r.u32()
	case op == 0x11: // call_indirect
		r.u32()
		r.u32()
	case op == 0x1c: // select with types
		for range r.count("select types", 1, maxParams) {
			checkValueType(r, ValueType(r.byte()))
		}
	case op >= 0x28 && op <= 0x3e:
		skipMemoryArgument(r)
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		r.u32()
	case op == 0x41:
		r.skipLEB(5)
	case op == 0x42:
		r.skipLEB(10)
	case op == 0x43:
		r.bytes(4)
	case op == 0x44:
		r.bytes(8)
	default:
		r.failf("instruction %#x is not in WebAssembly 2.0: build without newer proposals", uint32(op))
	}
}

func skipMemoryArgument(r *reader) {
	r.u32() // alignment
	r.u32() // offset
}

func skipMisc(r *reader, n uint32) {
	switch n {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating truncation
	case 9, 11, 13, 15, 16, 17:
		r.u32()
	case 8, 10, 12, 14:
		r.u32()
		r.u32()
	default:
		r.failf("instruction 0xfc %d is not in WebAssembly 2.0: build without newer proposals", n)
	}
}

func skipVector(r *reader, n uint32) {
	switch {
	case n <= 11, n == 92, n == 93: // loads and stores
		skipMemoryArgument(r)
	case n == 12, n == 13: // v128.const, shuffle
		r.bytes(16)
	case n >= 21 && n <= 34: // lanes
		r.byte()
	case n >= 84 && n <= 91: // loads and stores of lanes
		skipMemoryArgument(r)
		r.byte()
	case n <= 255:
	default:
		r.failf("instruction 0xfd %d is not in WebAssembly 2.0: build without newer proposals", n)
	}
}
