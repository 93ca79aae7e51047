package module

import "github.com/thole-dev/thole/abi/wasm"

// This file reads function bodies. It checks every index and the nesting of
// blocks, because the rewriter relies on both before the engine has validated
// them, and refuses functions that would take the engine too long.

// Body is the code of a defined function.
type Body struct {
	Locals uint32 // parameters included: how many local indices are valid
	groups []byte // the groups of locals with their number, as in the input
	code   []byte
}

// Instructions returns a reader of the function's instructions. The parser has
// read them before, so that no read fails.
func (b *Body) Instructions() *wasm.Reader { return wasm.NewReader(b.code) }

// Size returns the length of the code in bytes.
func (b *Body) Size() int { return len(b.code) }

func (m *Module) readCode(r *wasm.Reader) {
	n := r.Count("function bodies", 3, MaxFunctions)
	if defined := len(m.Functions) - m.Imported; n != defined && r.Err() == nil {
		r.Failf("malformed: %d bodies for %d functions", n, defined)
		return
	}
	m.Bodies = make([]Body, 0, n)
	var blocks nesting
	for i := range n {
		size := r.U32()
		if limit := uint32(m.larger * MaxBody); size > limit {
			r.Failf("too large: function %d has %d bytes, the limit is %d", i, size, limit)
		}
		body := r.Sub(size)
		m.readBody(body, m.Functions[m.Imported+i], &blocks)
		if body.Err() != nil {
			r.Failf("function %d: %w", i, body.Err())
			return
		}
	}
}

// readBody reads one body. blocks is empty memory that the bodies share.
func (m *Module) readBody(r *wasm.Reader, typ wasm.FuncType, blocks *nesting) {
	groups := r.Rest()
	total := m.readLocals(r)
	if r.Err() != nil {
		return
	}
	b := Body{
		Locals: uint32(len(typ.Params)) + uint32(total),
		groups: groups[:len(groups)-r.Len()], code: r.Rest(),
	}
	m.Bodies = append(m.Bodies, b)
	code := wasm.NewReader(b.code)
	var w weight
	blocks.begin()
	for in := (wasm.Instruction{}); code.Next(&in) && m.checkIndices(code, &in, b.Locals); {
		m.noteEffects(&in)
		w.add(m, &in)
		if problem := blocks.next(in.Op); problem != "" {
			code.Failf("malformed: %s", problem)
		}
	}
	if len(*blocks) > 0 {
		code.Failf("malformed: the function has no end")
	}
	if limit := m.larger * maxWeight; w.total > limit {
		code.Failf("too large: it weighs %d by its jumps and calls, the limit is %d: split the function, or let an administrator who trusts the module raise limits.moduleMiB", w.total, limit)
	}
	r.Fail(code.Err())
}

// readLocals reads the groups of locals and returns the number of locals. It
// is bounded because the engine allocates a word for each, whatever the number
// of bytes that declare them.
func (m *Module) readLocals(r *wasm.Reader) (total uint64) {
	for range r.Count("groups of locals", 2, MaxLocals) {
		total += uint64(r.U32())
		r.ValueType()
	}
	if total > MaxLocals {
		r.Failf("too large: %d locals, the limit is %d", total, MaxLocals)
	}
	if m.locals += total; m.locals > maxAllLocals {
		r.Failf("too large: more than %d locals in all functions together", maxAllLocals)
	}
	return total
}

// checkIndices checks that indices name something of the module's own. The
// engine checks them too, but against index spaces that the rewrite has made
// larger. It reports whether r has not failed.
func (m *Module) checkIndices(r *wasm.Reader, in *wasm.Instruction, locals uint32) bool {
	switch in.Op {
	case wasm.OpCall, wasm.OpRefFunc:
		m.checkIndex(r, wasm.KindFunction, in.A)
	case wasm.OpGlobalGet, wasm.OpGlobalSet:
		m.checkIndex(r, wasm.KindGlobal, in.A)
	case wasm.OpLocalGet, wasm.OpLocalSet, wasm.OpLocalTee:
		if in.A >= locals {
			r.Failf("malformed: there is no local %d", in.A)
		}
	case wasm.OpBlock, wasm.OpLoop, wasm.OpIf:
		if in.Value >= 0 {
			m.typeAt(r, uint32(min(in.Value, 1<<32-1)))
		}
	case wasm.OpCallIndirect:
		m.typeAt(r, in.A)
		m.checkIndex(r, wasm.KindTable, in.B)
	case wasm.OpTableInit:
		m.checkIndex(r, wasm.KindTable, in.B)
	case wasm.OpTableCopy:
		m.checkIndex(r, wasm.KindTable, in.A)
		m.checkIndex(r, wasm.KindTable, in.B)
	case wasm.OpTableFill, wasm.OpTableGrow, wasm.OpTableSize, wasm.OpTableGet, wasm.OpTableSet:
		m.checkIndex(r, wasm.KindTable, in.A)
	case wasm.OpMemorySize, wasm.OpMemoryGrow, wasm.OpMemoryFill: // loads and stores do not name theirs
		m.checkIndex(r, wasm.KindMemory, in.A)
	case wasm.OpMemoryInit:
		m.checkIndex(r, wasm.KindMemory, in.B)
	case wasm.OpMemoryCopy:
		m.checkIndex(r, wasm.KindMemory, in.A)
		m.checkIndex(r, wasm.KindMemory, in.B)
	default:
	}
	return r.Err() == nil
}

func (m *Module) checkIndex(r *wasm.Reader, kind wasm.Kind, index uint32) {
	if r.Err() == nil && uint64(index) >= uint64(m.length(kind)) {
		r.Failf("malformed: there is no %s %d", kind, index)
	}
}

// length returns the number of elements of an index space.
func (m *Module) length(kind wasm.Kind) int {
	switch kind {
	case wasm.KindFunction:
		return len(m.Functions)
	case wasm.KindTable:
		return len(m.Tables)
	case wasm.KindMemory:
		return len(m.Memories)
	default:
		return len(m.Globals)
	}
}

func (m *Module) noteEffects(in *wasm.Instruction) {
	switch in.Op {
	case wasm.OpTableSet, wasm.OpTableInit, wasm.OpTableCopy, wasm.OpTableFill:
		m.Effects.WritesTables = true
	case wasm.OpTableGrow:
		m.Effects.WritesTables, m.Effects.GrowsTables = true, true
	case wasm.OpDataDrop, wasm.OpElemDrop:
		m.Effects.DropsSegments = true
	case wasm.OpRefFunc:
		m.Escaped[in.A] = true
		if _, known := m.Referenced[in.A]; !known {
			m.Referenced[in.A] = len(m.Referenced)
		}
	default:
	}
}

// readReference checks the index of a function that something other than a
// call refers to, and marks the function as one that indirect calls may reach.
func (m *Module) readReference(r *wasm.Reader, index uint32) {
	m.checkIndex(r, wasm.KindFunction, index)
	m.Escaped[index] = true
}

// nesting has the open blocks of one function, the function itself first: the
// rewriter relies on each end and else having a block that it belongs to.
type nesting []wasm.Opcode

func (n *nesting) begin() { *n = append((*n)[:0], wasm.OpBlock) }

// next takes one instruction. It returns the problem if the instruction cannot
// stand here, else "".
func (n *nesting) next(op wasm.Opcode) (problem string) {
	open := *n
	last := len(open) - 1
	switch {
	case last < 0:
		return "instructions behind the function's end"
	case op == wasm.OpBlock, op == wasm.OpLoop, op == wasm.OpIf:
		*n = append(open, op)
	case op == wasm.OpElse && open[last] != wasm.OpIf:
		return "an else without an if"
	case op == wasm.OpElse:
		open[last] = wasm.OpElse
	case op == wasm.OpEnd:
		*n = open[:last]
	}
	return ""
}

// maxWeight bounds the weight of one function, which is about the number of
// basic blocks that the engine makes of it. The engine's time for a function
// grows with the square of its jumps, and its memory with the values that calls
// and blocks pass on: a few bytes of code can keep it busy for minutes, during
// which nothing can stop it (RATIONALE.md, "Why is there a limit of jumps?").
// The heaviest function of Go's standard library has some 2,000.
const maxWeight = 8_192

const (
	indirectWeight  = 4 // of a call through a table, which has three checks
	bulkWeight      = 4 // of a bulk instruction
	valuesPerWeight = 4 // parameters and results of a call or block
)

// weight adds up the weight of one function, whose indices have been checked.
type weight struct {
	total  int
	values int // most of a block so far: each jump may carry as many
}

func (w *weight) add(m *Module, in *wasm.Instruction) {
	switch in.Op {
	case wasm.OpBlock, wasm.OpLoop, wasm.OpIf:
		w.values = max(w.values, m.Values(in))
		w.addJumps(1)
	case wasm.OpElse, wasm.OpBranch, wasm.OpBranchIf:
		w.addJumps(1)
	case wasm.OpBranchTable:
		w.addJumps(in.NumLabels())
	case wasm.OpCall:
		w.total += m.Values(in) / valuesPerWeight
	case wasm.OpCallIndirect:
		w.total += indirectWeight + m.Values(in)/valuesPerWeight
	default:
		w.total += exits(in.Op)
	}
}

// addJumps adds n jumps with the values that they may carry.
func (w *weight) addJumps(n int) { w.total += n * (1 + w.values/valuesPerWeight) }

// exits returns the number of blocks that the engine makes for the ways from an
// instruction to a trap or into the host.
func exits(op wasm.Opcode) int {
	switch {
	case op >= wasm.OpI32DivS && op <= wasm.OpI32RemU, op >= wasm.OpI64DivS && op <= wasm.OpI64RemU,
		op >= wasm.OpI32TruncF32S && op <= wasm.OpI32TruncF64U, op >= wasm.OpI64TruncF32S && op <= wasm.OpI64TruncF64U,
		op == wasm.OpTableGet, op == wasm.OpTableSet, op == wasm.OpMemoryGrow, op == wasm.OpRefFunc:
		return 1
	case op >= wasm.OpMemoryInit && op <= wasm.OpTableFill:
		return bulkWeight
	}
	return 0
}

// Values returns how many parameters and results a block or a call has, 0 for
// other instructions.
func (m *Module) Values(in *wasm.Instruction) int {
	switch in.Op {
	case wasm.OpBlock, wasm.OpLoop, wasm.OpIf:
		if in.Value < 0 {
			return 1
		}
		return values(m.types[in.Value])
	case wasm.OpCall:
		return values(m.Functions[in.A])
	case wasm.OpCallIndirect:
		return values(m.types[in.A])
	default:
		return 0
	}
}

func values(t wasm.FuncType) int { return len(t.Params) + len(t.Results) }
