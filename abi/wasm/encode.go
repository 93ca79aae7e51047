package wasm

import "encoding/binary"

// AppendU32 appends an unsigned number as LEB128 (5.2.2).
func AppendU32(out []byte, v uint32) []byte { return binary.AppendUvarint(out, uint64(v)) }

// AppendS64 appends a signed number as LEB128 (5.2.2).
func AppendS64(out []byte, v int64) []byte {
	for v < -64 || v > 63 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v)&0x7f)
}

// AppendName appends bytes preceded by their number: a name, or any other
// vector of bytes.
func AppendName[T string | []byte](out []byte, s T) []byte {
	return append(AppendU32(out, uint32(len(s))), s...)
}

// InsertSize puts the number of the bytes from start to the end of out in front
// of them, and the bytes of before in front of that. What a size precedes can
// so be appended before its size is known, without a buffer of its own.
func InsertSize(out []byte, start int, before ...byte) []byte {
	head := binary.AppendUvarint(before, uint64(len(out)-start))
	out = append(out, head...)
	copy(out[start+len(head):], out[start:len(out)-len(head)])
	copy(out[start:], head)
	return out
}

// AppendSection appends a section.
func AppendSection(out []byte, id SectionID, body []byte) []byte {
	return AppendName(append(out, byte(id)), body)
}

// AppendCustom appends a custom section.
func AppendCustom(out []byte, name string, content []byte) []byte {
	start := len(out)
	out = append(AppendName(out, name), content...)
	return InsertSize(out, start, byte(CustomSection))
}

// Vector is a vector that is being built, as most sections are one (5.1.3).
type Vector struct {
	Len     uint32
	Encoded []byte // its elements
}

// Add adds an encoded element and returns its index.
func (v *Vector) Add(element []byte) uint32 {
	v.Encoded = append(v.Encoded, element...)
	v.Len++
	return v.Len - 1
}

// Append appends the vector: the number of its elements, and the elements.
func (v *Vector) Append(out []byte) []byte { return append(AppendU32(out, v.Len), v.Encoded...) }

// AppendOp appends an instruction whose immediates are at most indices, or the
// alignment and offset of a memory access.
func AppendOp(out []byte, op Opcode, immediates ...uint32) []byte {
	out = appendOpcode(out, op)
	for _, v := range immediates {
		out = AppendU32(out, v)
	}
	return out
}

func appendOpcode(out []byte, op Opcode) []byte {
	if prefix := op >> 16; prefix != 0 {
		return AppendU32(append(out, byte(prefix)), uint32(op&0xffff))
	}
	return append(out, byte(op))
}

// AppendConst appends an i32.const or i64.const.
func AppendConst(out []byte, op Opcode, v int64) []byte { return AppendS64(appendOpcode(out, op), v) }

// AppendBlock appends the begin of a block, loop or if without parameters and
// results.
func AppendBlock(out []byte, op Opcode) []byte { return AppendS64(appendOpcode(out, op), emptyBlock) }

// Append appends the signature as an entry of the type section.
func (t FuncType) Append(out []byte) []byte {
	return AppendName(AppendName(append(out, functionForm), t.Params), t.Results)
}

// AppendImport appends an entry of the import section: a function, whose
// signature has the given index.
func AppendImport(out []byte, module, name string, typeIndex uint32) []byte {
	out = AppendName(AppendName(out, module), name)
	return AppendU32(append(out, byte(KindFunction)), typeIndex)
}

// Append appends the export as an entry of the export section.
func (e Export) Append(out []byte) []byte {
	return AppendU32(append(AppendName(out, e.Name), byte(e.Kind)), e.Index)
}

// Append appends the limits.
func (l Limits) Append(out []byte) []byte {
	if !l.HasMax {
		return AppendU32(append(out, 0), l.Min)
	}
	return AppendU32(AppendU32(append(out, 1), l.Min), l.Max)
}

// Append appends the type of a table as an entry of the table section.
func (t Table) Append(out []byte) []byte { return t.Limits.Append(append(out, byte(t.Type))) }

// AppendGlobal appends an entry of the global section: a mutable global and the
// constant expression, without its end, that it starts with.
func AppendGlobal(out []byte, t ValueType, value []byte) []byte {
	return append(append(append(out, byte(t), 1), value...), byte(OpEnd))
}

// AppendBody appends an entry of the code section: a function with locals of
// the given types, whose code ends with an end instruction.
func AppendBody(out []byte, locals []ValueType, code []byte) []byte {
	start := len(out)
	out = AppendU32(out, uint32(len(locals)))
	for _, t := range locals {
		out = append(out, 1, byte(t)) // a group of one local
	}
	return InsertSize(append(out, code...), start)
}
