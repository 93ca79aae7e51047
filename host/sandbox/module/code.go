package module

// Body is the code of a defined function.
type Body struct {
	Type   FuncType
	Locals uint32 // parameters included: the local indices that are valid
	groups []byte // the groups of locals, with their count
	code   []byte
}

// Instructions starts at the first instruction.
func (b *Body) Instructions() Instructions { return Instructions{reader{data: b.code}} }

// Size is the length of the code in bytes.
func (b *Body) Size() int { return len(b.code) }

func (m *Module) readCode(r *reader) {
	n := r.count("function bodies", 3, MaxFunctions)
	if defined := len(m.Functions) - m.Imported; n != defined && r.err == nil {
		r.failf("malformed: %d bodies for %d functions", n, defined)
		return
	}
	m.Bodies = make([]Body, 0, n)
	for i := range n {
		size := r.u32()
		if size > MaxBody {
			r.failf("too large: function %d has %d bytes, the limit is %d", i, size, MaxBody)
		}
		body := reader{data: r.bytes(size), err: r.err}
		m.readBody(&body, m.Functions[m.Imported+i])
		if body.err != nil {
			r.failf("function %d: %w", i, body.err)
			return
		}
	}
}

// readBody checks the locals, which the engine allocates by their counts,
// and the indices in the code, and notes the effects of the instructions.
func (m *Module) readBody(r *reader, typ FuncType) {
	total := uint64(0)
	for range r.count("groups of locals", 2, MaxLocals) {
		total += uint64(r.u32())
		checkValueType(r, ValueType(r.byte()))
	}
	if total > MaxLocals {
		r.failf("too large: %d locals, the limit is %d", total, MaxLocals)
		return
	}
	if m.locals += total; m.locals > maxAllLocals {
		r.failf("too large: more than %d locals in all functions together", maxAllLocals)
		return
	}
	b := Body{Type: typ, Locals: uint32(len(typ.Params)) + uint32(total), groups: r.data[:r.pos], code: r.data[r.pos:]}
	m.Bodies = append(m.Bodies, b)
	code := reader{data: b.code, err: r.err}
	var heavy weight
	m.blocks.begin()
	for in := (Instruction{}); code.left() > 0; {
		readInstruction(&code, &in)
		m.checkIndices(&code, &in, b.Locals)
		m.note(&in)
		heavy.add(m, &in)
		if wrong := m.blocks.take(in.Op); wrong != "" {
			code.failf("malformed: %s", wrong)
		}
	}
	if !m.blocks.ended {
		code.failf("malformed: the function has no end")
	}
	if heavy.total > maxWeight {
		code.failf("too large: it weighs %d by its jumps and calls, the limit is %d: split the function", heavy.total, maxWeight)
	}
	r.err = code.err
}

// checkIndices holds the indices against the spaces that a rewrite makes
// larger: what they name must be the module's own.
func (m *Module) checkIndices(r *reader, in *Instruction, locals uint32) {
	switch in.Op {
	case OpCall, OpRefFunc:
		m.checkFunction(r, in.A)
	case OpGlobalGet, OpGlobalSet:
		m.checkGlobal(r, in.A)
	case OpLocalGet, OpLocalSet, OpLocalTee:
		if in.A >= locals {
			r.failf("malformed: there is no local %d", in.A)
		}
	case OpBlock, OpLoop, OpIf:
		if in.Value >= 0 {
			m.typeAt(r, uint32(min(in.Value, 1<<32-1)))
		}
	case OpCallIndirect:
		m.typeAt(r, in.A)
		m.checkTable(r, in.B)
	case OpTableInit, OpTableCopy:
		m.checkTable(r, in.B)
		if in.Op == OpTableCopy {
			m.checkTable(r, in.A)
		}
	case OpMemorySize, OpMemoryGrow, OpMemoryFill:
		m.checkMemory(r, in.A)
	case OpMemoryInit:
		m.checkMemory(r, in.B)
	case OpMemoryCopy:
		m.checkMemory(r, in.A)
		m.checkMemory(r, in.B)
	case OpTableFill, OpTableGrow, OpTableSize, opTableGet, opTableSet:
		m.checkTable(r, in.A)
	default:
	}
}

func (m *Module) checkFunction(r *reader, index uint32) {
	if r.err == nil && uint64(index) >= uint64(len(m.Functions)) {
		r.failf("malformed: there is no function %d", index)
	}
}

func (m *Module) checkGlobal(r *reader, index uint32) {
	if r.err == nil && uint64(index) >= uint64(len(m.Globals)) {
		r.failf("malformed: there is no global %d", index)
	}
}

// checkMemory is for what names a memory: loads and stores do not.
func (m *Module) checkMemory(r *reader, index uint32) {
	if r.err == nil && uint64(index) >= uint64(len(m.Memories)) {
		r.failf("malformed: there is no memory %d", index)
	}
}

func (m *Module) checkTable(r *reader, index uint32) {
	if r.err == nil && uint64(index) >= uint64(len(m.Tables)) {
		r.failf("malformed: there is no table %d", index)
	}
}

func (m *Module) note(in *Instruction) {
	switch in.Op {
	case opTableSet, OpTableInit, OpTableCopy, OpTableFill:
		m.Effects.WritesTables = true
	case OpTableGrow:
		m.Effects.WritesTables, m.Effects.GrowsTables = true, true
	case opDataDrop, opElemDrop:
		m.Effects.DropsSegments = true
	case OpRefFunc:
		m.escape(in.A)
	default:
	}
}

// escape notes that a reference to the function exists.
func (m *Module) escape(index uint32) {
	if uint64(index) < uint64(len(m.Functions)) {
		m.escapes()[index] = true
	}
}

// escapes is Escaped, made when it is first needed: all functions are known
// by then.
func (m *Module) escapes() []bool {
	if m.Escaped == nil {
		m.Escaped = make([]bool, len(m.Functions))
	}
	return m.Escaped
}

// readExpression reads a constant expression. It holds no blocks, so the
// first end is its end.
func (m *Module) readExpression(r *reader) {
	for in := (Instruction{}); r.err == nil; {
		readInstruction(r, &in)
		switch in.Op {
		case OpEnd:
			return
		case OpRefFunc:
			m.checkFunction(r, in.A)
			m.escape(in.A)
		case OpGlobalGet:
			m.checkGlobal(r, in.A)
		default:
		}
	}
}

// TypeOf is a signature of the type section, which the parser has found there.
func (m *Module) TypeOf(index uint32) FuncType { return m.types[index] }
