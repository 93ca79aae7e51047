package tck

import "bytes"

// Instructions without immediates.
var (
	Unreachable = []byte{0x00}
	Return      = []byte{0x0f}
	End         = []byte{0x0b}
	Drop        = []byte{0x1a}
	I32Eqz      = []byte{0x45}
	I32Eq       = []byte{0x46}
	I32Ne       = []byte{0x47}
	I32Add      = []byte{0x6a}
	I32Sub      = []byte{0x6b}
	I32Mul      = []byte{0x6c}
	I32DivS     = []byte{0x6d}
	I32Shl      = []byte{0x74}
	I64Eq       = []byte{0x51}
	I64Ne       = []byte{0x52}
	I64LtU      = []byte{0x54}
	I64Add      = []byte{0x7c}
	I32WrapI64  = []byte{0xa7}
	Loop        = []byte{0x03, 0x40} // without parameters and results
	Block       = []byte{0x02, 0x40}
	If          = []byte{0x04, 0x40}
	Else        = []byte{0x05}
	MemorySize  = []byte{0x3f, 0x00}
	MemoryGrow  = []byte{0x40, 0x00}
	I32Load     = []byte{0x28, 2, 0}
	I32Store    = []byte{0x36, 2, 0}
	I64Load     = []byte{0x29, 0, 0}
	I64Store    = []byte{0x37, 0, 0}
	MemoryCopy  = []byte{0xfc, 10, 0, 0} // to, from, length
	MemoryFill  = []byte{0xfc, 11, 0}    // to, byte, length
	NullFunc    = []byte{0xd0, 0x70}
	Nop         = []byte{0x01}
)

// I32Const pushes a constant.
func I32Const(v int32) []byte { return append([]byte{0x41}, signed(int64(v))...) }

// I64Const pushes a constant.
func I64Const(v int64) []byte { return append([]byte{0x42}, signed(v)...) }

// LocalGet pushes a parameter or local.
func LocalGet(i uint32) []byte { return append([]byte{0x20}, leb(i)...) }

// LocalTee copies the top of the stack into a parameter or local.
func LocalTee(i uint32) []byte { return append([]byte{0x22}, leb(i)...) }

// LocalSet pops into a parameter or local.
func LocalSet(i uint32) []byte { return append([]byte{0x21}, leb(i)...) }

// GlobalGet pushes a global.
func GlobalGet(i uint32) []byte { return append([]byte{0x23}, leb(i)...) }

// GlobalSet pops into a global.
func GlobalSet(i uint32) []byte { return append([]byte{0x24}, leb(i)...) }

// Call calls a function.
func Call(f Func) []byte { return append([]byte{0x10}, leb(uint32(f))...) }

// Type is the index of a signature, which is added if it is not there.
func (m *Module) Type(params, results []Type) uint32 { return m.typeIndex(params, results) }

// CallIndirect calls through table 0 a function without parameters that
// returns an i32.
func (m *Module) CallIndirect() []byte { return CallIndirect(m.Type(nil, []Type{I32})) }

// CallIndirect calls through table 0 a function of that type.
func CallIndirect(index uint32) []byte { return append(append([]byte{0x11}, leb(index)...), 0) }

// LoopOf begins a loop with the parameters and results of a type.
func LoopOf(index uint32) []byte { return append([]byte{0x03}, signed(int64(index))...) }

// RefFunc pushes a reference.
func RefFunc(f Func) []byte { return append([]byte{0xd2}, leb(uint32(f))...) }

// TableSet pops a reference and an index into table 0.
func TableSet() []byte { return []byte{0x26, 0} }

// TableGrow pops a length and a reference, and grows table 0.
func TableGrow() []byte { return []byte{0xfc, 15, 0} }

// TableFill pops a length, a reference and an index into table 0.
func TableFill() []byte { return []byte{0xfc, 17, 0} }

// Branch jumps to the label that many blocks out.
func Branch(depth uint32) []byte { return append([]byte{0x0c}, leb(depth)...) }

// BranchIf jumps if the number on the stack is not zero.
func BranchIf(depth uint32) []byte { return append([]byte{0x0d}, leb(depth)...) }

// BranchTable jumps to the label that the number on the stack chooses; the
// last one is the default.
func BranchTable(depths ...uint32) []byte {
	out := append([]byte{0x0e}, leb(uint32(len(depths)-1))...)
	for _, d := range depths {
		out = append(out, leb(d)...)
	}
	return out
}

// MemoryInit copies from a passive data segment: to, from, length.
func MemoryInit(segment uint32) []byte {
	return append(append([]byte{0xfc, 8}, leb(segment)...), 0)
}

// DataDrop drops a passive data segment.
func DataDrop(segment uint32) []byte { return append([]byte{0xfc, 9}, leb(segment)...) }

// repeated is a body that many times.
func repeated(times int, body []byte) []byte { return bytes.Repeat(body, times) }

// join makes one body of several pieces.
func join(pieces ...[]byte) []byte {
	var out []byte
	for _, p := range pieces {
		out = append(out, p...)
	}
	return out
}
