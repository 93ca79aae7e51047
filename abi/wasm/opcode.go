package wasm

// Opcode is the first byte of an instruction. For instructions that begin with
// a prefix byte it is prefix<<16 | number.
type Opcode uint32

// The prefixes of instruction groups.
const (
	PrefixMisc   Opcode = 0xfc
	PrefixVector Opcode = 0xfd
)

// The instructions that this repository treats by name (5.4). Numeric ones are
// here if a module is assembled with them.
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

	OpDrop        Opcode = 0x1a
	OpSelect      Opcode = 0x1b
	OpSelectTyped Opcode = 0x1c

	OpLocalGet  Opcode = 0x20
	OpLocalSet  Opcode = 0x21
	OpLocalTee  Opcode = 0x22
	OpGlobalGet Opcode = 0x23
	OpGlobalSet Opcode = 0x24
	OpTableGet  Opcode = 0x25
	OpTableSet  Opcode = 0x26

	OpI32Load    Opcode = 0x28
	OpI64Load    Opcode = 0x29
	OpI32Store   Opcode = 0x36
	OpI64Store   Opcode = 0x37
	OpMemorySize Opcode = 0x3f
	OpMemoryGrow Opcode = 0x40

	OpI32Const Opcode = 0x41
	OpI64Const Opcode = 0x42
	OpF32Const Opcode = 0x43
	OpF64Const Opcode = 0x44

	OpI32Eqz Opcode = 0x45
	OpI32Eq  Opcode = 0x46
	OpI32Ne  Opcode = 0x47
	OpI32LtU Opcode = 0x49
	OpI32GtU Opcode = 0x4b
	OpI64Eq  Opcode = 0x51
	OpI64Ne  Opcode = 0x52
	OpI64LtS Opcode = 0x53
	OpI64LtU Opcode = 0x54
	OpI64GtU Opcode = 0x56
	OpF64Ne  Opcode = 0x62

	OpI32Add  Opcode = 0x6a
	OpI32Sub  Opcode = 0x6b
	OpI32Mul  Opcode = 0x6c
	OpI32DivS Opcode = 0x6d
	OpI32DivU Opcode = 0x6e
	OpI32RemS Opcode = 0x6f
	OpI32RemU Opcode = 0x70
	OpI32Or   Opcode = 0x72
	OpI32Shl  Opcode = 0x74
	OpI64Add  Opcode = 0x7c
	OpI64Sub  Opcode = 0x7d
	OpI64Mul  Opcode = 0x7e
	OpI64DivS Opcode = 0x7f
	OpI64RemS Opcode = 0x81
	OpI64RemU Opcode = 0x82
	OpI64Or   Opcode = 0x84
	OpI64Shl  Opcode = 0x86
	OpI64ShrU Opcode = 0x88

	OpI32WrapI64    Opcode = 0xa7
	OpI32TruncF32S  Opcode = 0xa8
	OpI32TruncF64U  Opcode = 0xab
	OpI64ExtendI32U Opcode = 0xad
	OpI64TruncF32S  Opcode = 0xae
	OpI64TruncF64U  Opcode = 0xb1

	OpRefNull   Opcode = 0xd0
	OpRefIsNull Opcode = 0xd1
	OpRefFunc   Opcode = 0xd2

	OpMemoryInit = PrefixMisc<<16 | 8
	OpDataDrop   = PrefixMisc<<16 | 9
	OpMemoryCopy = PrefixMisc<<16 | 10
	OpMemoryFill = PrefixMisc<<16 | 11
	OpTableInit  = PrefixMisc<<16 | 12
	OpElemDrop   = PrefixMisc<<16 | 13
	OpTableCopy  = PrefixMisc<<16 | 14
	OpTableGrow  = PrefixMisc<<16 | 15
	OpTableSize  = PrefixMisc<<16 | 16
	OpTableFill  = PrefixMisc<<16 | 17

	OpV128Const   = PrefixVector<<16 | 12
	OpV128AnyTrue = PrefixVector<<16 | 83
)

// IsAccess reports whether an instruction loads from linear memory or stores to
// it, bulk instructions excepted.
func (op Opcode) IsAccess() bool {
	form := immediatesOf(op)
	return form == memoryArgument || form == memoryAndLane
}

// IsDivision reports whether an instruction divides integers.
func (op Opcode) IsDivision() bool {
	return op >= OpI32DivS && op <= OpI32RemU || op >= OpI64DivS && op <= OpI64RemU
}

// IsFloat reports whether an instruction calculates with a floating point number,
// or converts one.
func (op Opcode) IsFloat() bool {
	return op >= 0x8b && op <= 0xa6 || // abs to copysign, of both sizes
		op >= OpI32TruncF32S && op <= OpI32TruncF64U || op >= OpI64TruncF32S && op <= 0xbf ||
		op>>16 == PrefixMisc && op&0xffff <= 7
}

// immediates is the form of what follows an opcode.
type immediates byte

const (
	unknownOpcode immediates = iota
	noImmediates
	oneIndex        // A
	twoIndices      // A, B
	blockType       // Value
	branchLabels    // of a br_table
	selectTypes     // the value types of a select
	memoryArgument  // alignment in A, offset in B
	memoryAndLane   // the same and the number of a lane
	integerConstant // Value
	oneByte         // a lane or a reference type
	fourBytes       // an f32
	eightBytes      // an f64
	sixteenBytes    // a v128, or the lanes of a shuffle
)

// fixedSizes has the number of bytes of the forms that contain no number.
var fixedSizes = [...]uint32{oneByte: 1, fourBytes: 4, eightBytes: 8, sixteenBytes: 16}

// immediatesOf covers every instruction of WebAssembly 2.0 and nothing else. An
// instruction that is not known here could change state that the host does not
// restore, or run without being metered, so that readers refuse it.
func immediatesOf(op Opcode) immediates {
	switch {
	case op>>16 == PrefixMisc:
		return miscImmediates(op & 0xffff)
	case op>>16 == PrefixVector:
		return vectorImmediates(op & 0xffff)
	case op >= OpI32Eqz && op <= 0xc4, // comparisons, arithmetic and conversions
		op <= OpNop, op == OpElse, op == OpEnd, op == OpReturn, op == OpDrop, op == OpSelect, op == OpRefIsNull:
		return noImmediates
	case op >= OpBlock && op <= OpIf:
		return blockType
	case op == OpBranch, op == OpBranchIf, op == OpCall, op >= OpLocalGet && op <= OpTableSet,
		op == OpMemorySize, op == OpMemoryGrow, op == OpRefFunc:
		return oneIndex
	case op == OpCallIndirect:
		return twoIndices
	case op == OpBranchTable:
		return branchLabels
	case op == OpSelectTyped:
		return selectTypes
	case op >= OpI32Load && op <= 0x3e:
		return memoryArgument
	case op == OpI32Const, op == OpI64Const:
		return integerConstant
	case op == OpF32Const:
		return fourBytes
	case op == OpF64Const:
		return eightBytes
	case op == OpRefNull:
		return oneByte
	}
	return unknownOpcode
}

func miscImmediates(n Opcode) immediates {
	switch {
	case n <= 7: // saturating truncation
		return noImmediates
	case n == 8, n == 10, n == 12, n == 14: // init and copy
		return twoIndices
	case n <= 17:
		return oneIndex
	}
	return unknownOpcode
}

func vectorImmediates(n Opcode) immediates {
	switch {
	case n <= 11, n == 92, n == 93: // loads and stores
		return memoryArgument
	case n == 12, n == 13: // v128.const, i8x16.shuffle
		return sixteenBytes
	case n >= 21 && n <= 34: // extraction and replacement of lanes
		return oneByte
	case n >= 84 && n <= 91: // loads and stores of one lane
		return memoryAndLane
	case n <= 255:
		return noImmediates
	}
	return unknownOpcode
}
