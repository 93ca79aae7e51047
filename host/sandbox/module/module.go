// Package module reads the parts of a WebAssembly binary that the sandbox
// must know before any of it is compiled: signatures, imports, exports, limits,
// and whether the code can change state that an image reset does not restore.
// It also writes modules again: with additions ([Module.Write]), or without
// their code ([Skeleton]). The format itself is package abi/wasm; what is here
// is what this host accepts and changes.
//
// The input is hostile. Every vector count is checked against the bytes that
// are left and against a fixed maximum before anything is allocated for it, no
// function recurses, and the bytes are read once. The structure and the indices
// are checked, not the types: the engine validates what passes here.
//
// This file has the result, [Module]. parse.go reads the sections, code.go the
// function bodies, custom.go the custom sections; rewrite.go writes.
package module

import (
	"slices"

	"github.com/thole-dev/thole/abi/wasm"
)

// The largest structures that are accepted. They are far above what compilers
// emit for a controller, and far below what would exhaust the host.
const (
	MaxSize       = 16 << 20  // bytes of the file
	MaxFunctions  = 100_000   // defined and imported together
	MaxBody       = 256 << 10 // bytes of one function
	MaxLocals     = 50_000    // of one function
	maxAllLocals  = 1_000_000 // of all functions together
	MaxTableSize  = 100_000   // elements of one table
	maxGrownTable = 10_000    // elements of one table of a module that grows tables
	maxTypes      = 10_000
	maxParams     = 1_000 // parameters of one type, and as many results
	// The engine's time and garbage for a type grow with the square of its
	// values, and its time for a function with those of its type.
	maxTypeValues     = 20_000    // parameters and results of all types together
	maxFunctionValues = 1_000_000 // of all functions together
	maxImports        = 1_000
	maxExports        = 10_000
	maxGlobals        = 10_000
	maxTables         = 16
	maxSegments       = 100_000
	maxElements       = 200_000 // of all element segments together
	maxReferenced     = 10_000  // functions that code refers to by ref.func
	maxCustom         = 1_000
	maxNameLength     = 1_000 // bytes of an import's or export's name
)

// Module describes a WebAssembly binary. As in the binary, the imports come
// first in each index space.
type Module struct {
	larger int // how many times as large as usual a function may be

	Imports       []wasm.Import
	Exports       []wasm.Export
	Functions     []wasm.FuncType // of the whole function index space
	Imported      int             // how many of Functions are imports
	Escaped       map[uint32]bool // the functions that code can hold a reference to
	Referenced    map[uint32]int  // the functions that code refers to by ref.func, numbered from 0
	Bodies        []Body          // of the defined functions
	Globals       []wasm.Global   // of the whole global index space
	Tables        []wasm.Table    // of the whole table index space
	Memories      []wasm.Limits   // of the whole memory index space
	Elements      []uint32        // lengths of the element segments
	Data          []uint32        // lengths of the data segments, in bytes
	Start         bool            // whether there is a start function
	StartFunction uint32          // its index
	Effects       Effects

	types    []wasm.FuncType
	locals   uint64    // of all functions
	values   int       // parameters and results of all functions
	elements int       // of all element segments
	sections []section // in file order, as slices of the input
	customs  int       // how many of them are custom sections
}

// section is one section of the input, without its number and size.
type section struct {
	id   wasm.SectionID
	body []byte
}

// Effects is what a module's code may change that is neither in memory nor in
// a global.
type Effects struct {
	WritesTables  bool // table.set, fill, copy, init or grow
	GrowsTables   bool // table.grow
	DropsSegments bool // data.drop or elem.drop
}

// ExportOf returns the export of a name, and whether there is one.
func (m *Module) ExportOf(name string) (wasm.Export, bool) {
	i := slices.IndexFunc(m.Exports, func(e wasm.Export) bool { return e.Name == name })
	if i < 0 {
		return wasm.Export{}, false
	}
	return m.Exports[i], true
}

// MutableNumbers returns the indices of the globals that code can change and a
// host can restore: engines let a host read and write numbers only.
func (m *Module) MutableNumbers() []uint32 {
	var out []uint32
	for i, g := range m.Globals {
		if g.Mutable && g.Type.Number() {
			out = append(out, uint32(i))
		}
	}
	return out
}

// HasCustom reports whether a custom section of that name exists.
func (m *Module) HasCustom(name string) bool { return len(m.custom(name)) > 0 }

// Resettable returns why restoring memory and numeric globals does not undo
// all that a call may change, or "" if it does.
func (m *Module) Resettable() (why string) {
	switch {
	case m.Effects.WritesTables:
		return "its code changes tables"
	case m.Effects.DropsSegments:
		return "its code drops segments"
	}
	for _, g := range m.Globals {
		if g.Mutable && !g.Type.Number() {
			return "it has a mutable global of type " + g.Type.String()
		}
	}
	return ""
}

// What the engine allocates for each instance, in bytes by measurement.
const (
	elementBytes   = 8   // of a table
	initializer    = 42  // element of a segment
	globalBytes    = 110 // with its place in the native code's context
	referenceBytes = globalBytes + initializer
	segmentBytes   = 24
)

// InstanceBytes returns about how much memory an instance takes besides its linear
// memory: tables, as large as they can grow, globals, references and segments.
func (m *Module) InstanceBytes() (n uint64) {
	for _, t := range m.Tables {
		size := t.Min
		if m.Effects.GrowsTables {
			size = t.Max // bounded, see check
		}
		n += elementBytes * uint64(size)
	}
	return n + initializer*uint64(m.elements) + globalBytes*uint64(len(m.Globals)) +
		referenceBytes*uint64(len(m.Referenced)) + segmentBytes*uint64(len(m.Elements)+len(m.Data))
}

// TypeOf returns a signature of the type section by an index that the parser
// has found in the code.
func (m *Module) TypeOf(index uint32) wasm.FuncType { return m.types[index] }
