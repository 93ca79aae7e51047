package wasm

// Instruction is one instruction with its immediates.
type Instruction struct {
	Op Opcode
	// A and B are the indices, in their order in the binary: a function,
	// local, global or label in A; type and table of a call_indirect, segment
	// and memory or table of an init, destination and source of a copy in A
	// and B. For a memory access they are alignment and offset.
	A, B uint32
	// Value is that of an integer constant. For a block it is the block's
	// type: an index into the type section, or a negative number that stands
	// for no result or for one result type.
	Value int64
	// At is the offset of the instruction in the bytes that it was read from.
	At int

	bytes  []byte // immediates that contain no number
	labels []byte // of a br_table, the default one included, as LEB128
	count  uint32 // of labels
}

// Labels calls visit with each label of a br_table, the default one last.
func (i *Instruction) Labels(visit func(label uint32)) {
	for r := (Reader{data: i.labels}); r.Len() > 0; {
		visit(r.U32())
	}
}

// NumLabels returns the number of labels of a br_table.
func (i *Instruction) NumLabels() int { return int(i.count) }

// Next reads one instruction, unless no bytes are left: none are at the end of
// the code and after a failure. It reports whether it did.
func (r *Reader) Next(out *Instruction) bool {
	if r.Len() == 0 {
		return false
	}
	r.Instruction(out)
	return true
}

// Instruction reads one instruction. One that is not in WebAssembly 2.0 is an
// error.
func (r *Reader) Instruction(out *Instruction) {
	*out = Instruction{At: r.read}
	out.Op = Opcode(r.Byte())
	if out.Op == PrefixMisc || out.Op == PrefixVector {
		n := r.U32()
		if n > 0xffff {
			r.refuseInstruction(out.Op, n)
			return
		}
		out.Op = out.Op<<16 | Opcode(n)
	}
	r.immediates(out)
}

func (r *Reader) immediates(out *Instruction) {
	switch form := immediatesOf(out.Op); form {
	case noImmediates:
	case oneIndex:
		out.A = r.U32()
	case twoIndices, memoryArgument:
		out.A, out.B = r.U32(), r.U32()
	case memoryAndLane:
		out.A, out.B = r.U32(), r.U32()
		out.bytes = r.Bytes(1)
	case blockType:
		out.Value = r.blockType()
	case branchLabels:
		r.branchLabels(out)
	case selectTypes:
		out.bytes = r.valueTypes()
	case integerConstant:
		out.Value = r.integerConstant(out.Op)
	case oneByte, fourBytes, eightBytes, sixteenBytes:
		out.bytes = r.Bytes(fixedSizes[form])
	default:
		r.refuseInstruction(out.Op>>16, uint32(out.Op&0xffff))
	}
}

// refuseInstruction fails for an instruction of a group; prefix 0 is none.
func (r *Reader) refuseInstruction(prefix Opcode, n uint32) {
	if prefix != 0 {
		r.Failf("instruction %#x %d is not in WebAssembly 2.0: build without newer proposals", uint32(prefix), n)
		return
	}
	r.Failf("instruction %#x is not in WebAssembly 2.0: build without newer proposals", n)
}

func (r *Reader) branchLabels(out *Instruction) {
	out.count = uint32(r.Count("branch targets", 1, len(r.data))) + 1
	start := r.data
	for range out.count {
		r.U32()
	}
	out.labels = start[:len(start)-len(r.data)]
}

func (r *Reader) integerConstant(op Opcode) int64 {
	if op == OpI32Const {
		return int64(int32(r.signed(5)))
	}
	return r.signed(10)
}

// emptyBlock is the type of a block without parameters and results.
const emptyBlock = -64

// blockType reads a type index, or a negative number (5.4.1).
func (r *Reader) blockType() int64 {
	v := r.signed(5)
	switch {
	case v >= 0, v == emptyBlock:
	case v < emptyBlock:
		r.Failf("malformed: block type %d", v)
	default:
		r.checkValueType(ValueType(v & 0x7f))
	}
	return v
}

// Append appends the instruction in its shortest encoding.
func (i *Instruction) Append(out []byte) []byte {
	out = appendOpcode(out, i.Op)
	switch immediatesOf(i.Op) {
	case oneIndex:
		out = AppendU32(out, i.A)
	case twoIndices, memoryArgument, memoryAndLane:
		out = AppendU32(AppendU32(out, i.A), i.B)
	case blockType, integerConstant:
		out = AppendS64(out, i.Value)
	case branchLabels:
		out = AppendU32(out, i.count-1)
		i.Labels(func(label uint32) { out = AppendU32(out, label) })
	case selectTypes:
		out = AppendU32(out, uint32(len(i.bytes)))
	default:
	}
	return append(out, i.bytes...)
}
