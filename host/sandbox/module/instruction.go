package module

import "encoding/binary"

// Instruction is one instruction with its immediates.
type Instruction struct {
	Op Opcode
	// A and B are the indices, in their order in the binary: a function,
	// local, global or label in A, type and table of a call_indirect, segment
	// and memory or table of an init, destination and source of a copy. They
	// are alignment and offset of a memory access.
	A, B  uint32
	Value int64 // of a constant; of a block its type: an index, or negative
	At    int   // offset in the code

	bytes   []byte // immediates without a number in them
	targets []byte // of a br_table, with the default, as LEB128
	count   uint32 // of targets
}

// Targets calls visit with each label of a br_table, the default one last.
func (i *Instruction) Targets(visit func(label uint32)) {
	for r := (reader{data: i.targets}); r.left() > 0; {
		visit(r.u32())
	}
}

// Instructions walks the code of a function that [Parse] has accepted.
type Instructions struct{ r reader }

// Next reads one instruction; false is the end of the code. The function's
// last end is an instruction too.
func (s *Instructions) Next(out *Instruction) bool {
	if s.r.left() == 0 {
		return false
	}
	readInstruction(&s.r, out)
	return true
}

func readInstruction(r *reader, out *Instruction) {
	*out = Instruction{At: r.pos}
	out.Op = Opcode(r.byte())
	if out.Op == prefixMisc || out.Op == prefixVector {
		n := r.u32()
		if n > 0xffff {
			r.failf("instruction %#x %d is not in WebAssembly 2.0: build without newer proposals", uint32(out.Op), n)
			return
		}
		out.Op = out.Op<<16 | Opcode(n)
	}
	readImmediates(r, out)
}

func readImmediates(r *reader, out *Instruction) {
	switch shapeOf(out.Op) {
	case bare:
	case oneIndex:
		out.A = r.u32()
	case twoIndices, memoryShape:
		out.A, out.B = r.u32(), r.u32()
	case memoryLane:
		out.A, out.B = r.u32(), r.u32()
		out.bytes = r.bytes(1)
	case blockShape:
		out.Value = r.blockType()
	case tableShape:
		readTargets(r, out)
	case typesShape:
		out.bytes = []byte(readValueTypes(r))
	case constantShape:
		out.Value = readConstant(r, out.Op)
	case oneByte:
		out.bytes = r.bytes(1)
	case fourBytes:
		out.bytes = r.bytes(4)
	case eightBytes:
		out.bytes = r.bytes(8)
	case sixteenBytes:
		out.bytes = r.bytes(16)
	default:
		refuseInstruction(r, out.Op)
	}
}

func refuseInstruction(r *reader, op Opcode) {
	if prefix := op >> 16; prefix != 0 {
		r.failf("instruction %#x %d is not in WebAssembly 2.0: build without newer proposals", uint32(prefix), op&0xffff)
		return
	}
	r.failf("instruction %#x is not in WebAssembly 2.0: build without newer proposals", uint32(op))
}

func readTargets(r *reader, out *Instruction) {
	out.count = uint32(r.count("branch targets", 1, MaxBody)) + 1
	start := r.pos
	for range out.count {
		r.u32()
	}
	if r.err == nil {
		out.targets = r.data[start:r.pos]
	}
}

func readConstant(r *reader, op Opcode) int64 {
	if op == OpI32Const {
		return int64(int32(r.s64(5)))
	}
	return r.s64(10)
}

const emptyBlock = -64

// blockType reads a type index, or a negative number that stands for one
// result or none.
func (r *reader) blockType() int64 {
	v := r.s64(5)
	switch {
	case v >= 0, v == emptyBlock:
	case v < emptyBlock:
		r.failf("malformed: block type %d", v)
	default:
		checkValueType(r, ValueType(v&0x7f))
	}
	return v
}

// Append writes the instruction in its shortest encoding. Code is always
// written anew like this, so that nothing that the engine might read
// differently than this package gets to it.
func (i *Instruction) Append(out []byte) []byte {
	out = appendOpcode(out, i.Op)
	switch shapeOf(i.Op) {
	case oneIndex:
		out = appendU32(out, i.A)
	case twoIndices, memoryShape, memoryLane:
		out = appendU32(appendU32(out, i.A), i.B)
	case blockShape, constantShape:
		out = AppendSigned(out, i.Value)
	case tableShape:
		out = appendU32(out, i.count-1)
		i.Targets(func(label uint32) { out = appendU32(out, label) })
	case typesShape:
		out = appendU32(out, uint32(len(i.bytes)))
	default:
	}
	return append(out, i.bytes...)
}

func appendOpcode(out []byte, op Opcode) []byte {
	if prefix := op >> 16; prefix != 0 {
		return appendU32(append(out, byte(prefix)), uint32(op&0xffff))
	}
	return append(out, byte(op))
}

func appendU32(out []byte, v uint32) []byte { return binary.AppendUvarint(out, uint64(v)) }

// AppendSigned writes a signed LEB128 number.
func AppendSigned(out []byte, v int64) []byte {
	for v < -64 || v > 63 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v)&0x7f)
}

// Offset is the place of the instruction that is read next.
func (s *Instructions) Offset() int { return s.r.pos }
