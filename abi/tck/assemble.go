package tck

import (
	"slices"

	"github.com/thole-dev/thole/abi/wasm"
)

// Module assembles a WebAssembly binary from Go values. It does not check what
// it is given, so that broken modules can be built too. Every import must be
// declared before the first function: functions are numbered in the order in
// which they are added, imports first. The zero value is an empty module.
type Module struct {
	types   []wasm.FuncType
	vectors [wasm.DataCountSection + 1]wasm.Vector // the sections that are vectors, by number
	start   []byte                                 // the start section; nil if there is none
	custom  []byte                                 // the custom sections
	passive bool                                   // whether there is a passive data segment
}

// add appends an entry to a section and returns its index there.
func (m *Module) add(id wasm.SectionID, entry []byte) uint32 { return m.vectors[id].Add(entry) }

// Func is the index of a function.
type Func uint32

// Type returns the index of a signature, which is added if it is not there.
func (m *Module) Type(params, results []wasm.ValueType) uint32 {
	t := wasm.Signature(params, results...)
	if i := slices.Index(m.types, t); i >= 0 {
		return uint32(i)
	}
	m.types = append(m.types, t)
	return m.add(wasm.TypeSection, t.Append(nil))
}

// Import adds an imported function.
func (m *Module) Import(module, name string, params, results []wasm.ValueType) Func {
	m.add(wasm.ImportSection, wasm.AppendImport(nil, module, name, m.Type(params, results)))
	return m.next() - 1
}

// Func adds a function of the given signature. Locals come after the
// parameters in the numbering. The body needs no end instruction at its end.
func (m *Module) Func(params, results, locals []wasm.ValueType, body ...[]byte) Func {
	return m.define(m.Type(params, results), locals, body...)
}

// FuncOf adds an empty function of the type with that index, which may not
// exist.
func (m *Module) FuncOf(index uint32) Func { return m.define(index, nil) }

func (m *Module) define(typeIndex uint32, locals []wasm.ValueType, body ...[]byte) Func {
	m.add(wasm.FunctionSection, wasm.AppendU32(nil, typeIndex))
	m.add(wasm.CodeSection, wasm.AppendBody(nil, locals, append(join(body...), End...)))
	return m.next() - 1
}

// next returns the index of the function that is added next.
func (m *Module) next() Func {
	return Func(m.count(wasm.ImportSection) + m.count(wasm.FunctionSection))
}

// count returns how many entries a section has.
func (m *Module) count(id wasm.SectionID) uint32 { return m.vectors[id].Len }

// Memory adds a memory of that many pages, without a maximum.
func (m *Module) Memory(pages uint32) {
	m.add(wasm.MemorySection, wasm.Limits{Min: pages}.Append(nil))
}

// MemoryUpTo adds the memory with a maximum, in pages too.
func (m *Module) MemoryUpTo(pages, maximum uint32) {
	m.add(wasm.MemorySection, wasm.Limits{Min: pages, Max: maximum, HasMax: true}.Append(nil))
}

// Table adds a table of function references whose size is fixed.
func (m *Module) Table(size uint32) { m.TableUpTo(size, size) }

// TableUpTo adds a table of function references that can grow to a maximum.
func (m *Module) TableUpTo(size, maximum uint32) {
	m.table(wasm.Limits{Min: size, Max: maximum, HasMax: true})
}

// TableWithoutMaximum adds a table of function references without a maximum.
func (m *Module) TableWithoutMaximum(size uint32) { m.table(wasm.Limits{Min: size}) }

func (m *Module) table(l wasm.Limits) {
	m.add(wasm.TableSection, wasm.Table{Type: wasm.FuncRef, Limits: l}.Append(nil))
}

// Flags of element and data segments (5.5.12, 5.5.14 of the specification).
const (
	activeSegment      = 0
	passiveSegment     = 1
	declaredSegment    = 3
	expressionsSegment = 4
	functionElements   = 0 // the kind of elements that are functions
)

// Elements fills table 0 from an offset on.
func (m *Module) Elements(offset int32, funcs ...Func) {
	m.add(wasm.ElementSection, functions(active(activeSegment, offset), funcs))
}

// Declare allows code to take references to functions that are in no table.
func (m *Module) Declare(funcs ...Func) {
	m.add(wasm.ElementSection, functions([]byte{declaredSegment, functionElements}, funcs))
}

// PassiveElements adds a segment for table.init and returns its index.
func (m *Module) PassiveElements(funcs ...Func) uint32 {
	return m.add(wasm.ElementSection, functions([]byte{passiveSegment, functionElements}, funcs))
}

// Expressions fills table 0 from an offset on, by constant expressions.
func (m *Module) Expressions(offset int32, expressions ...[]byte) {
	entry := wasm.AppendU32(active(expressionsSegment, offset), uint32(len(expressions)))
	for _, e := range expressions {
		entry = append(append(entry, e...), End...)
	}
	m.add(wasm.ElementSection, entry)
}

// active begins a segment that is copied when the module is instantiated.
func active(flags byte, offset int32) []byte { return join([]byte{flags}, I32Const(offset), End) }

func functions(entry []byte, funcs []Func) []byte {
	entry = wasm.AppendU32(entry, uint32(len(funcs)))
	for _, f := range funcs {
		entry = wasm.AppendU32(entry, uint32(f))
	}
	return entry
}

// Global adds a mutable i32 and returns its index.
func (m *Module) Global(value int32) uint32 { return m.GlobalOf(wasm.I32, I32Const(value)) }

// GlobalOf adds a mutable global with a constant expression, which needs no
// end instruction, and returns its index.
func (m *Module) GlobalOf(t wasm.ValueType, value []byte) uint32 {
	return m.add(wasm.GlobalSection, wasm.AppendGlobal(nil, t, value))
}

// Data places bytes in memory when the module is instantiated.
func (m *Module) Data(offset int32, data []byte) {
	m.add(wasm.DataSection, wasm.AppendName(active(activeSegment, offset), data))
}

// Passive adds a data segment for memory.init and returns its index.
func (m *Module) Passive(data []byte) uint32 {
	m.passive = true
	return m.add(wasm.DataSection, wasm.AppendName([]byte{passiveSegment}, data))
}

// Export exports a function.
func (m *Module) Export(name string, f Func) { m.export(name, wasm.KindFunction, uint32(f)) }

// ExportMemory exports memory 0.
func (m *Module) ExportMemory(name string) { m.export(name, wasm.KindMemory, 0) }

// ExportGlobal exports a global.
func (m *Module) ExportGlobal(name string, index uint32) { m.export(name, wasm.KindGlobal, index) }

func (m *Module) export(name string, kind wasm.Kind, index uint32) {
	m.add(wasm.ExportSection, wasm.Export{Name: name, Kind: kind, Index: index}.Append(nil))
}

// Start makes a function run when the module is instantiated.
func (m *Module) Start(f Func) { m.start = wasm.AppendU32(nil, uint32(f)) }

// Custom adds a custom section behind all other sections.
func (m *Module) Custom(name string, content []byte) {
	m.custom = wasm.AppendCustom(m.custom, name, content)
}

// Names adds a name section that names functions.
func (m *Module) Names(names map[Func]string) {
	var named wasm.Vector
	for f := range m.next() {
		if name, ok := names[f]; ok {
			named.Add(wasm.AppendName(wasm.AppendU32(nil, uint32(f)), name))
		}
	}
	const functionNames = 1 // the subsection
	m.Custom("name", wasm.AppendName([]byte{functionNames}, named.Append(nil)))
}

// Bytes returns the binary.
func (m *Module) Bytes() []byte {
	out := []byte(wasm.Header)
	for _, id := range wasm.SectionOrder {
		switch {
		case id == wasm.StartSection && m.start != nil:
			out = wasm.AppendSection(out, id, m.start)
		case id == wasm.DataCountSection && m.passive:
			out = wasm.AppendSection(out, id, wasm.AppendU32(nil, m.count(wasm.DataSection)))
		case m.count(id) > 0:
			out = wasm.AppendSection(out, id, m.vectors[id].Append(nil))
		}
	}
	return append(out, m.custom...)
}
