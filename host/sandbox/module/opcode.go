package module

// Opcode is the first byte of an instruction, or for the two prefixed groups
// prefix<<16 | number.
type Opcode uint32

// The instructions that the sandbox tells apart.
const (
	OpUnreachable  Opcode = 0x00
	OpNop          Opcode = 0x01
	OpBlock        Opcode = 0x02
	OpLoop         Opcode = 0x03
	OpIf           Opcode = 0x04
	OpElse         Opcode = 0x05
	OpEnd          Opcode = 0x0b
	OpBranch       Opcode = 0x0c
	OpBranchIf     Opcode = 0x0d
	OpBranchTable  Opcode = 0x0e
	OpReturn       Opcode = 0x0f
	OpCall         Opcode = 0x10
	OpCallIndirect Opcode = 0x11
	opSelectTyped  Opcode = 0x1c
	OpLocalGet     Opcode = 0x20
	OpLocalSet     Opcode = 0x21
	OpLocalTee     Opcode = 0x22
	OpGlobalGet    Opcode = 0x23
	OpGlobalSet    Opcode = 0x24
	opTableGet     Opcode = 0x25
	opTableSet     Opcode = 0x26
	OpMemorySize   Opcode = 0x3f
	OpMemoryGrow   Opcode = 0x40
	OpI32Const     Opcode = 0x41
	OpI64Const     Opcode = 0x42
	opF32Const     Opcode = 0x43
	opF64Const     Opcode = 0x44
	opRefNull      Opcode = 0xd0
	opRefIsNull    Opcode = 0xd1
	OpRefFunc      Opcode = 0xd2
	prefixMisc     Opcode = 0xfc
	prefixVector   Opcode = 0xfd
	OpMemoryInit          = prefixMisc<<16 | 8
	opDataDrop            = prefixMisc<<16 | 9
	OpMemoryCopy          = prefixMisc<<16 | 10
	OpMemoryFill          = prefixMisc<<16 | 11
	OpTableInit           = prefixMisc<<16 | 12
	opElemDrop            = prefixMisc<<16 | 13
	OpTableCopy           = prefixMisc<<16 | 14
	OpTableGrow           = prefixMisc<<16 | 15
	OpTableSize           = prefixMisc<<16 | 16
	OpTableFill           = prefixMisc<<16 | 17
)

// shape is what follows an opcode.
type shape byte

const (
	unknownShape  shape = iota
	bare                // nothing
	oneIndex            // A
	twoIndices          // A, B
	blockShape          // a block type
	tableShape          // labels
	typesShape          // value types
	memoryShape         // alignment in A, offset in B
	memoryLane          // the same and a lane
	constantShape       // Value
	oneByte             // a lane or a reference type
	fourBytes           // a float
	eightBytes          // a double
	sixteenBytes        // a vector
)

// shapeOf knows every instruction of WebAssembly 2.0. Anything else is
// refused: what is not known here could change state that a reset does not
// reach, or run without fuel.
func shapeOf(op Opcode) shape {
	switch {
	case op>>16 == prefixMisc:
		return miscShape(uint32(op & 0xffff))
	case op>>16 == prefixVector:
		return vectorShape(uint32(op & 0xffff))
	case op >= 0x45 && op <= 0xc4, // numeric
		op <= OpNop, op == OpElse, op == OpEnd, op == OpReturn, op == 0x1a, op == 0x1b, op == opRefIsNull:
		return bare
	case op >= OpBlock && op <= OpIf:
		return blockShape
	case op == OpBranch, op == OpBranchIf, op == OpCall, op >= OpLocalGet && op <= opTableSet,
		op == OpMemorySize, op == OpMemoryGrow, op == OpRefFunc:
		return oneIndex
	case op == OpCallIndirect:
		return twoIndices
	case op == OpBranchTable:
		return tableShape
	case op == opSelectTyped:
		return typesShape
	case op >= 0x28 && op <= 0x3e:
		return memoryShape
	case op == OpI32Const, op == OpI64Const:
		return constantShape
	case op == opF32Const:
		return fourBytes
	case op == opF64Const:
		return eightBytes
	case op == opRefNull:
		return oneByte
	}
	return unknownShape
}

func miscShape(n uint32) shape {
	switch n {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating truncation
		return bare
	case 9, 11, 13, 15, 16, 17:
		return oneIndex
	case 8, 10, 12, 14:
		return twoIndices
	}
	return unknownShape
}

func vectorShape(n uint32) shape {
	switch {
	case n <= 11, n == 92, n == 93: // loads and stores
		return memoryShape
	case n == 12, n == 13: // v128.const, shuffle
		return sixteenBytes
	case n >= 21 && n <= 34: // lanes
		return oneByte
	case n >= 84 && n <= 91: // loads and stores of lanes
		return memoryLane
	case n <= 255:
		return bare
	}
	return unknownShape
}
