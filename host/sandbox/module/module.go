package module

import (
	"slices"
	"strings"
)

// Largest structures that are accepted. They are far above what compilers
// emit for a controller and far below what would hurt the host.
const (
	MaxSize       = 16 << 20  // bytes of the file
	MaxFunctions  = 100_000   // defined and imported together
	MaxBody       = 256 << 10 // bytes of one function
	MaxLocals     = 50_000    // of one function
	maxAllLocals  = 1_000_000 // of all functions together
	MaxTableSize  = 100_000   // elements of one table
	maxGrownTable = 10_000    // of one table of a module that grows tables
	maxTypes      = 10_000
	maxParams     = 1_000
	maxImports    = 1_000
	maxExports    = 10_000
	maxGlobals    = 10_000
	maxTables     = 16
	maxSegments   = 100_000
	maxElements   = 200_000 // of all element segments together
	maxCustom     = 1_000
	maxNameLength = 1_000 // bytes of an import's or export's name
)

// GlobalPrefix starts the export names that [Module.GlobalExports] lists. A
// module that uses it itself is refused.
const GlobalPrefix = "thole.global."

// Module describes a WebAssembly binary. Index spaces start with the
// imports, as in the binary.
type Module struct {
	Imports       []Import
	Exports       []Export
	Functions     []FuncType // of the whole function index space
	Imported      int        // how many of the functions are
	Escaped       []bool     // by function: whether code can hold a reference to it
	Bodies        []Body     // of the defined functions
	Globals       []Global   // of the whole global index space
	Tables        []Table    // of the whole table index space
	Memories      []Limits   // defined ones
	Elements      []uint32   // lengths of the element segments
	Data          []uint32   // lengths of the data segments, in bytes
	Start         bool       // has a start function
	StartFunction uint32     // its index
	Custom        []string   // names of the custom sections, in order
	Effects       Effects    // what the code may do to state outside memory and globals

	types          []FuncType
	locals         uint64 // of all functions
	elements       int    // of all element segments
	blocks         nesting
	importedTables int
	sections       []section // in file order, as slices of the input
}

// Kind is the kind of an import or export.
type Kind byte

// The kinds of the binary format.
const (
	Function Kind = iota
	TableKind
	Memory
	GlobalKind
)

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown kind"
}

var kindNames = [...]string{"function", "table", "memory", "global"}

// Import is one import; Type is set for functions.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType
}

// Export is one export; Index is into the index space of its kind.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Limits are a memory's or table's limits, in pages or elements.
type Limits struct {
	Min    uint32
	Max    uint32
	HasMax bool
}

// Table is a defined table.
type Table struct {
	Type ValueType
	Limits
}

// Global is a defined or imported global.
type Global struct {
	Type    ValueType
	Mutable bool
}

// ValueType is the binary format's code of a type.
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

func (v ValueType) String() string {
	switch v {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "unknown"
}

// Number reports whether the type is a plain number, which the engine lets
// the host read and write.
func (v ValueType) Number() bool { return v >= F64 && v <= I32 }

// FuncType is a signature; one byte per value type, so that signatures
// compare with ==.
type FuncType struct{ Params, Results string }

// Signature builds a function type.
func Signature(params, results []ValueType) FuncType {
	return FuncType{Params: pack(params), Results: pack(results)}
}

func pack(types []ValueType) string {
	b := make([]byte, len(types))
	for i, t := range types {
		b[i] = byte(t)
	}
	return string(b)
}

// String writes the type as in "(i32, i32) -> i64".
func (t FuncType) String() string {
	return "(" + list(t.Params) + ") -> " + result(t.Results)
}

func list(types string) string {
	names := make([]string, len(types))
	for i := range types {
		names[i] = ValueType(types[i]).String()
	}
	return strings.Join(names, ", ")
}

func result(types string) string {
	if len(types) == 1 {
		return list(types)
	}
	return "(" + list(types) + ")"
}

// Effects is what a module's code may do to state that is neither in memory
// nor in a global.
type Effects struct {
	WritesTables  bool // table.set, fill, copy, init, grow
	GrowsTables   bool // table.grow
	DropsSegments bool // data.drop, elem.drop
}

// ExportOf finds an export by name.
func (m *Module) ExportOf(name string) (Export, bool) {
	for _, e := range m.Exports {
		if e.Name == name {
			return e, true
		}
	}
	return Export{}, false
}

// MutableGlobals lists the indices of the globals that code can change.
func (m *Module) MutableGlobals() []uint32 {
	var out []uint32
	for i, g := range m.Globals {
		if g.Mutable {
			out = append(out, uint32(i))
		}
	}
	return out
}

// HasCustom reports whether a custom section of that name exists.
func (m *Module) HasCustom(name string) bool {
	return slices.Contains(m.Custom, name)
}

// Resettable reports whether memory and numeric globals are all the state
// that a call can change, and if not, why.
func (m *Module) Resettable() (why string, ok bool) {
	switch {
	case m.Effects.WritesTables:
		return "its code changes tables", false
	case m.Effects.DropsSegments:
		return "its code drops segments", false
	}
	for _, g := range m.Globals {
		if g.Mutable && !g.Type.Number() {
			return "it has a mutable global of type " + g.Type.String(), false
		}
	}
	return "", true
}
