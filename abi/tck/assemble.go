package tck

import "encoding/binary"

// Type is a value type of the binary format.
type Type byte

// The value types that the guests of this package use.
const (
	I32     Type = 0x7f
	I64     Type = 0x7e
	F64     Type = 0x7c
	V128    Type = 0x7b
	FuncRef Type = 0x70
)

// Module assembles a WebAssembly binary from Go values. It adds what it is
// told without judging it, so that broken modules can be built too. Declare
// every import before the first function: functions are numbered in order,
// imports first. The zero value is an empty module.
type Module struct {
	types   [][]byte
	imports [][]byte
	funcs   []uint32 // type indices
	bodies  [][]byte
	tables  [][]byte
	memory  [][]byte
	globals [][]byte
	exports [][]byte
	start   []byte
	elems   [][]byte
	data    [][]byte
	custom  [][]byte
	passive bool
}

// Func is the index of a function.
type Func uint32

// Import adds an imported function.
func (m *Module) Import(module, name string, params, results []Type) Func {
	entry := append(text(module), text(name)...)
	entry = append(entry, 0)
	m.imports = append(m.imports, append(entry, leb(m.typeIndex(params, results))...))
	return Func(len(m.imports) - 1)
}

// Func adds a function of the given signature. Locals come after the
// parameters in the numbering; the body needs no closing end.
func (m *Module) Func(params, results, locals []Type, body ...[]byte) Func {
	m.funcs = append(m.funcs, m.typeIndex(params, results))
	code := leb(uint32(len(locals)))
	for _, t := range locals {
		code = append(code, 1, byte(t))
	}
	for _, instruction := range body {
		code = append(code, instruction...)
	}
	m.bodies = append(m.bodies, append(code, 0x0b))
	return Func(len(m.imports) + len(m.funcs) - 1)
}

// FuncOf adds a function without a body of a type that may not exist.
func (m *Module) FuncOf(index uint32) Func {
	m.funcs = append(m.funcs, index)
	m.bodies = append(m.bodies, []byte{0, 0x0b})
	return Func(len(m.imports) + len(m.funcs) - 1)
}

// Memory adds a memory of that many pages, without a maximum.
func (m *Module) Memory(pages uint32) { m.memory = append(m.memory, append([]byte{0}, leb(pages)...)) }

// Table adds a table of function references with equal minimum and maximum.
func (m *Module) Table(size uint32) { m.TableUpTo(size, size) }

// TableUpTo adds a table of function references that may grow.
func (m *Module) TableUpTo(size, most uint32) {
	entry := append([]byte{byte(FuncRef), 1}, leb(size)...)
	m.tables = append(m.tables, append(entry, leb(most)...))
}

// TableWithoutEnd adds a table of function references without a maximum.
func (m *Module) TableWithoutEnd(size uint32) {
	m.tables = append(m.tables, append([]byte{byte(FuncRef), 0}, leb(size)...))
}

// Elements fills table 0 from an offset on.
func (m *Module) Elements(offset int32, funcs ...Func) {
	entry := append([]byte{0}, I32Const(offset)...)
	entry = append(append(entry, 0x0b), leb(uint32(len(funcs)))...)
	for _, f := range funcs {
		entry = append(entry, leb(uint32(f))...)
	}
	m.elems = append(m.elems, entry)
}

// Declare makes references to functions legal in code without placing them
// in a table.
func (m *Module) Declare(funcs ...Func) {
	entry := append([]byte{3, 0}, leb(uint32(len(funcs)))...)
	for _, f := range funcs {
		entry = append(entry, leb(uint32(f))...)
	}
	m.elems = append(m.elems, entry)
}

// Expressions fills table 0 from an offset on, by constant expressions.
func (m *Module) Expressions(offset int32, expressions ...[]byte) {
	entry := append([]byte{4}, I32Const(offset)...)
	entry = append(append(entry, 0x0b), leb(uint32(len(expressions)))...)
	for _, e := range expressions {
		entry = append(append(entry, e...), 0x0b)
	}
	m.elems = append(m.elems, entry)
}

// Global adds a mutable i32 and returns its index.
func (m *Module) Global(value int32) uint32 { return m.GlobalOf(I32, I32Const(value)) }

// GlobalOf adds a mutable global with a constant expression and returns its
// index.
func (m *Module) GlobalOf(t Type, value []byte) uint32 {
	m.globals = append(m.globals, append(append([]byte{byte(t), 1}, value...), 0x0b))
	return uint32(len(m.globals) - 1)
}

// Data places bytes in memory when the module is instantiated.
func (m *Module) Data(offset int32, data []byte) {
	entry := append([]byte{0}, I32Const(offset)...)
	m.data = append(m.data, append(append(entry, 0x0b), vector(data)...))
}

// Passive adds a data segment for memory.init and returns its index.
func (m *Module) Passive(data []byte) uint32 {
	m.passive = true
	m.data = append(m.data, append([]byte{1}, vector(data)...))
	return uint32(len(m.data) - 1)
}

// Export exports a function.
func (m *Module) Export(name string, f Func) { m.export(name, 0, uint32(f)) }

// ExportMemory exports memory 0.
func (m *Module) ExportMemory(name string) { m.export(name, 2, 0) }

// ExportGlobal exports a global.
func (m *Module) ExportGlobal(name string, index uint32) { m.export(name, 3, index) }

func (m *Module) export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, append(append(text(name), kind), leb(index)...))
}

// Start runs a function when the module is instantiated.
func (m *Module) Start(f Func) { m.start = leb(uint32(f)) }

// Custom adds a custom section.
func (m *Module) Custom(name string, content []byte) {
	m.custom = append(m.custom, append(text(name), content...))
}

// Names adds a name section that names functions.
func (m *Module) Names(names map[Func]string) {
	var entries [][]byte
	for f := range Func(len(m.imports) + len(m.funcs)) {
		if name, ok := names[f]; ok {
			entries = append(entries, append(leb(uint32(f)), text(name)...))
		}
	}
	m.Custom("name", append([]byte{1}, vector(list(entries))...))
}

// Bytes writes the binary.
func (m *Module) Bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = appendList(out, 1, m.types)
	out = appendList(out, 2, m.imports)
	out = appendList(out, 3, lebs(m.funcs))
	out = appendList(out, 4, m.tables)
	out = appendList(out, 5, m.memory)
	out = appendList(out, 6, m.globals)
	out = appendList(out, 7, m.exports)
	if m.start != nil {
		out = appendSection(out, 8, m.start)
	}
	out = appendList(out, 9, m.elems)
	if m.passive {
		out = appendSection(out, 12, leb(uint32(len(m.data))))
	}
	out = appendList(out, 10, vectors(m.bodies))
	out = appendList(out, 11, m.data)
	for _, c := range m.custom {
		out = appendSection(out, 0, c)
	}
	return out
}

func (m *Module) typeIndex(params, results []Type) uint32 {
	entry := append(append([]byte{0x60}, typeList(params)...), typeList(results)...)
	for i, t := range m.types {
		if string(t) == string(entry) {
			return uint32(i)
		}
	}
	m.types = append(m.types, entry)
	return uint32(len(m.types) - 1)
}

func typeList(types []Type) []byte {
	out := leb(uint32(len(types)))
	for _, t := range types {
		out = append(out, byte(t))
	}
	return out
}

func leb(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func lebs(values []uint32) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = leb(v)
	}
	return out
}

func signed(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b < 0x40) || (v == -1 && b >= 0x40) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func vector(data []byte) []byte { return append(leb(uint32(len(data))), data...) }

func text(s string) []byte { return vector([]byte(s)) }

func vectors(items [][]byte) [][]byte {
	out := make([][]byte, len(items))
	for i, item := range items {
		out[i] = vector(item)
	}
	return out
}

func list(items [][]byte) []byte {
	out := leb(uint32(len(items)))
	for _, item := range items {
		out = append(out, item...)
	}
	return out
}

func appendList(out []byte, id byte, items [][]byte) []byte {
	if len(items) == 0 {
		return out
	}
	return appendSection(out, id, list(items))
}

func appendSection(out []byte, id byte, body []byte) []byte {
	return append(append(out, id), vector(body)...)
}
