// Package wasm is the binary format of WebAssembly modules, version 2.0 of the
// specification: value types, signatures, sections and instructions, a reader
// for bytes that may be hostile, and functions that append each of these to a
// byte slice.
//
// It holds what the format defines and nothing about what a host accepts. The
// sandbox (host/sandbox/module) reads and rewrites plugins with it, and the
// conformance kit (abi/tck) assembles its guests with it, so that there is one
// place that encodes sections, LEB128 numbers and instructions. Section numbers
// in comments are those of https://www.w3.org/TR/wasm-core-2/.
package wasm

import (
	"slices"
	"strings"
)

// Header begins every module (5.5.16): the magic number and format version 1.
const Header = "\x00asm\x01\x00\x00\x00"

// SectionID is the number of a section (5.5.2).
type SectionID byte

// The sections of a module.
const (
	CustomSection SectionID = iota
	TypeSection
	ImportSection
	FunctionSection
	TableSection
	MemorySection
	GlobalSection
	ExportSection
	StartSection
	ElementSection
	CodeSection
	DataSection
	DataCountSection
)

// SectionOrder lists the sections in the order in which a module has them.
// Custom sections may stand anywhere and are not in it. The order is that of
// the numbers, except that the data count precedes the code, whose validation
// needs it.
var SectionOrder = [...]SectionID{
	TypeSection, ImportSection, FunctionSection, TableSection, MemorySection, GlobalSection,
	ExportSection, StartSection, ElementSection, DataCountSection, CodeSection, DataSection,
}

var sectionNames = [...]string{
	"custom", "type", "import", "function", "table", "memory", "global",
	"export", "start", "element", "code", "data", "data count",
}

// Valid reports whether the format has a section of that number.
func (id SectionID) Valid() bool { return int(id) < len(sectionNames) }

func (id SectionID) String() string {
	if !id.Valid() {
		return "unknown"
	}
	return sectionNames[id]
}

// Kind is the kind of an import or export (5.5.5).
type Kind byte

// The kinds of imports and exports.
const (
	KindFunction Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

func (k Kind) String() string {
	names := [...]string{"function", "table", "memory", "global"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown kind"
}

// ValueType is the type of a value, as the format encodes it (5.3.1 to 5.3.4).
type ValueType byte

// The value types of WebAssembly 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

var typeNames = map[ValueType]string{
	I32: "i32", I64: "i64", F32: "f32", F64: "f64", V128: "v128", FuncRef: "funcref", ExternRef: "externref",
}

// Number reports whether the type is an integer or a float. Engines let a host
// read and write globals of these types only.
func (v ValueType) Number() bool { return v >= F64 && v <= I32 }

// Reference reports whether the type is one that a table can hold.
func (v ValueType) Reference() bool { return v == FuncRef || v == ExternRef }

func (v ValueType) valid() bool { return v.Number() || v == V128 || v.Reference() }

func (v ValueType) String() string {
	if name, ok := typeNames[v]; ok {
		return name
	}
	return "unknown"
}

// FuncType is a signature. Each string holds one byte for each value type, so
// that signatures can be compared with == and used as keys of maps.
type FuncType struct{ Params, Results string }

// Signature returns the function type of the given parameters and results.
func Signature(params []ValueType, results ...ValueType) FuncType {
	return FuncType{Params: string(params), Results: string(results)}
}

// String formats the type as in "(i32, i32) -> i64".
func (t FuncType) String() string {
	results := list(t.Results)
	if len(t.Results) != 1 {
		results = "(" + results + ")"
	}
	return "(" + list(t.Params) + ") -> " + results
}

func list(types string) string {
	names := make([]string, len(types))
	for i := range types {
		names[i] = ValueType(types[i]).String()
	}
	return strings.Join(names, ", ")
}

// Import is one import. Type is set for functions.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType
}

// Export is one export. Index is into the index space of its kind.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Limits are the limits of a memory, in pages of 64 KiB, or of a table, in
// elements (5.3.7).
type Limits struct {
	Min    uint32
	Max    uint32 // if HasMax
	HasMax bool
}

// Table is the type of a table.
type Table struct {
	Type ValueType
	Limits
}

// Global is the type of a global.
type Global struct {
	Type    ValueType
	Mutable bool
}

// Precedes reports whether a section of the module may come before next. It is
// false for two sections of the same number, and for custom sections.
func (id SectionID) Precedes(next SectionID) bool {
	return slices.Index(SectionOrder[:], id) < slices.Index(SectionOrder[:], next)
}
