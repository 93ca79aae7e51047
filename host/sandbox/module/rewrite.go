package module

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/wasm"
)

// This file writes a module again with additions. All code is decoded and
// encoded anew, so that the engine sees nothing that it might read differently
// than this package did.

// globalPrefix begins the names of the exports that [Module.GlobalExports]
// lists. A module that exports such a name itself is refused.
const globalPrefix = "thole.global."

// GlobalExport returns the name under which [Module.GlobalExports] exports the
// mutable global of that index.
func GlobalExport(index uint32) string { return globalPrefix + strconv.FormatUint(uint64(index), 10) }

// GlobalExports lists exports of all mutable globals that hold a number: the
// engine gives a host access to exported globals only.
func (m *Module) GlobalExports() ([]wasm.Export, error) {
	for _, e := range m.Exports {
		if strings.HasPrefix(e.Name, globalPrefix) {
			return nil, fmt.Errorf("export %q uses the reserved prefix %q: rename it", e.Name, globalPrefix)
		}
	}
	var out []wasm.Export
	for _, index := range m.MutableGlobals() {
		if m.Globals[index].Type.Number() {
			out = append(out, wasm.Export{Name: GlobalExport(index), Kind: wasm.KindGlobal, Index: index})
		}
	}
	return out, nil
}

// Additions is what [Module.Write] adds to a module. Each is appended to its
// index space, so that only the functions that the module defines get other
// indices: each moves by the number of added imports.
type Additions struct {
	Imports   []wasm.Import // of functions
	Globals   []Init        // mutable ones
	Functions []Defined
	Exports   []wasm.Export // with indices of the new module
	// Body appends the code of a defined function, without its locals, to
	// out. Indices in it are those of the new module. If Body is nil the
	// functions keep their code.
	Body func(defined int, out []byte) []byte
}

// Init is a global with the constant expression that it starts with, without
// the end instruction.
type Init struct {
	Type  wasm.ValueType
	Value []byte
}

// Defined is a function without locals. Its code ends with an end instruction.
type Defined struct {
	Name string // in stack traces
	Type wasm.FuncType
	Code []byte
}

// maxWritten bounds a module with its additions, in bytes.
const maxWritten = 2 * MaxSize

// ErrGrows is the error for a module that is too large only with what
// [Module.Write] adds.
var ErrGrows = errors.New("too large: the module grows too much when fuel is compiled in: split its largest functions")

// Write writes the module again with additions. Custom sections are left out,
// except for the names of functions, which stack traces show.
func (m *Module) Write(a Additions) ([]byte, error) {
	w := &writer{m: m, a: &a, shift: uint32(len(a.Imports)), out: []byte(wasm.Header)}
	w.addTypes()
	for _, id := range wasm.SectionOrder {
		if w.section(id); len(w.out) > maxWritten {
			return nil, ErrGrows
		}
	}
	if w.names(); len(w.out) > maxWritten {
		return nil, ErrGrows
	}
	return w.out, nil
}

// Moved returns the index of a function after that many imports were added.
func (m *Module) Moved(index, imports uint32) uint32 {
	if index < uint32(m.Imported) {
		return index
	}
	return index + imports
}

type writer struct {
	m     *Module
	a     *Additions
	shift uint32          // of the functions that the module defines
	types []wasm.FuncType // that the additions need beyond the module's own
	out   []byte
}

// moved returns the index of a function in the new module.
func (w *writer) moved(index uint32) uint32 { return w.m.Moved(index, w.shift) }

func (w *writer) addTypes() {
	for _, in := range w.a.Imports {
		w.typeIndex(in.Type)
	}
	for _, f := range w.a.Functions {
		w.typeIndex(f.Type)
	}
}

// typeIndex returns the index of a signature in the new module, to which it is
// added if need be.
func (w *writer) typeIndex(t wasm.FuncType) uint32 {
	i := slices.Index(w.types, t)
	if i < 0 {
		i = len(w.types)
		w.types = append(w.types, t)
	}
	return uint32(len(w.m.types) + i)
}

// section writes one section. The module may not have it yet.
func (w *writer) section(id wasm.SectionID) {
	body, exists := w.m.body(id)
	added := w.added(id)
	if !exists && added == 0 {
		return
	}
	start := len(w.out)
	switch id {
	case wasm.StartSection:
		w.out = wasm.AppendU32(w.out, w.moved(w.m.StartFunction))
	case wasm.MemorySection, wasm.TableSection, wasm.DataCountSection:
		w.out = append(w.out, body...)
	default:
		r := wasm.NewReader(body)
		var n uint32
		if exists {
			n = r.U32()
		}
		w.out = wasm.AppendU32(w.out, n+uint32(added))
		w.copyEntries(id, r, int(n))
		w.addEntries(id)
	}
	if len(w.out) <= maxWritten { // else it is not needed
		w.out = wasm.InsertSize(w.out, start, byte(id))
	}
}

func (m *Module) body(id wasm.SectionID) ([]byte, bool) {
	i := slices.IndexFunc(m.sections, func(s section) bool { return s.id == id })
	if i < 0 {
		return nil, false
	}
	return m.sections[i].body, true
}

// added returns the number of entries that are added to a section.
func (w *writer) added(id wasm.SectionID) int {
	switch id {
	case wasm.TypeSection:
		return len(w.types)
	case wasm.ImportSection:
		return len(w.a.Imports)
	case wasm.FunctionSection, wasm.CodeSection:
		return len(w.a.Functions)
	case wasm.GlobalSection:
		return len(w.a.Globals)
	case wasm.ExportSection:
		return len(w.a.Exports)
	default:
		return 0
	}
}

// copyEntries writes the n entries that the module has. The parser has read
// them before, so that no read fails.
func (w *writer) copyEntries(id wasm.SectionID, r *wasm.Reader, n int) {
	switch id {
	case wasm.GlobalSection:
		for range n {
			w.raw(r, 2)
			w.expression(r)
		}
	case wasm.ExportSection:
		for _, e := range w.m.Exports {
			if e.Kind == wasm.KindFunction {
				e.Index = w.moved(e.Index)
			}
			w.out = e.Append(w.out)
		}
	case wasm.ElementSection:
		for range n {
			w.elements(r)
		}
	case wasm.CodeSection:
		for i := range w.m.Bodies {
			w.body(i)
		}
	case wasm.DataSection:
		for range n {
			w.data(r)
		}
	default:
		w.out = append(w.out, r.Rest()...)
	}
}

// addEntries writes the added entries of a section.
func (w *writer) addEntries(id wasm.SectionID) {
	switch id {
	case wasm.TypeSection:
		for _, t := range w.types {
			w.out = t.Append(w.out)
		}
	case wasm.ImportSection:
		for _, in := range w.a.Imports {
			w.out = wasm.AppendImport(w.out, in.Module, in.Name, w.typeIndex(in.Type))
		}
	case wasm.FunctionSection:
		for _, f := range w.a.Functions {
			w.out = wasm.AppendU32(w.out, w.typeIndex(f.Type))
		}
	case wasm.GlobalSection:
		for _, g := range w.a.Globals {
			w.out = wasm.AppendGlobal(w.out, g.Type, g.Value)
		}
	case wasm.ExportSection:
		for _, e := range w.a.Exports {
			w.out = e.Append(w.out)
		}
	case wasm.CodeSection:
		for _, f := range w.a.Functions {
			w.out = wasm.AppendBody(w.out, nil, f.Code)
		}
	default:
	}
}

// raw copies n bytes.
func (w *writer) raw(r *wasm.Reader, n uint32) { w.out = append(w.out, r.Bytes(n)...) }

// u32 copies a number and returns it.
func (w *writer) u32(r *wasm.Reader) uint32 {
	v := r.U32()
	w.out = wasm.AppendU32(w.out, v)
	return v
}

// expression copies a constant expression.
func (w *writer) expression(r *wasm.Reader) {
	for in := (wasm.Instruction{}); r.Err() == nil; {
		r.Instruction(&in)
		if in.Op == wasm.OpRefFunc {
			in.A = w.moved(in.A)
		}
		w.out = in.Append(w.out)
		if in.Op == wasm.OpEnd {
			return
		}
	}
}

// elements copies an element segment.
func (w *writer) elements(r *wasm.Reader) {
	flags := w.u32(r)
	if flags&elementPassive == 0 {
		if flags&elementExplicit != 0 {
			w.u32(r)
		}
		w.expression(r)
	}
	if flags&(elementPassive|elementExplicit) != 0 {
		w.raw(r, 1)
	}
	for range w.u32(r) {
		if flags&elementExpressions != 0 {
			w.expression(r)
		} else {
			w.out = wasm.AppendU32(w.out, w.moved(r.U32()))
		}
	}
}

// data copies a data segment.
func (w *writer) data(r *wasm.Reader) {
	switch w.u32(r) {
	case 2:
		w.u32(r)
		w.expression(r)
	case 0:
		w.expression(r)
	}
	w.raw(r, w.u32(r))
}

// body writes a function. Nothing is written any more once the module is too
// large, so that memory stays bounded.
func (w *writer) body(i int) {
	if len(w.out) > maxWritten {
		return
	}
	start := len(w.out)
	b := &w.m.Bodies[i]
	r := wasm.NewReader(b.groups)
	for range w.u32(r) {
		w.u32(r)
		w.raw(r, 1)
	}
	if w.a.Body != nil {
		w.out = w.a.Body(i, w.out)
	} else {
		w.code(b)
	}
	w.out = wasm.InsertSize(w.out, start)
}

// code copies the code of a function.
func (w *writer) code(b *Body) {
	in := wasm.Instruction{}
	for s := b.Instructions(); s.Next(&in); {
		if in.Op == wasm.OpCall || in.Op == wasm.OpRefFunc {
			in.A = w.moved(in.A)
		}
		w.out = in.Append(w.out)
	}
}

// names writes a name section with the names of the functions, in their order.
// A function without one is named by the index that it has in the original
// module: the engine's stack traces would show the one in the new module.
func (w *writer) names() {
	original := w.m.functionNames()
	total := len(original) + len(w.a.Imports) + len(w.a.Functions)
	if total == 0 {
		return
	}
	start := len(w.out)
	w.out = wasm.AppendName(w.out, nameSection)
	subsection := len(w.out)
	w.out = wasm.AppendU32(w.out, uint32(total))
	next := uint32(0)
	add := func(name string) {
		w.out = wasm.AppendName(wasm.AppendU32(w.out, next), name)
		next++
	}
	addOriginal := func(first, end int) {
		for i, name := range original[first:end] {
			if name == "" {
				name = "$" + strconv.Itoa(first+i)
			}
			add(name)
		}
	}
	addOriginal(0, w.m.Imported)
	for _, in := range w.a.Imports {
		add(in.Module + "." + in.Name)
	}
	addOriginal(w.m.Imported, len(original))
	for _, f := range w.a.Functions {
		add(f.Name)
	}
	w.out = wasm.InsertSize(w.out, subsection, functionNamesID)
	w.out = wasm.InsertSize(w.out, start, byte(wasm.CustomSection))
}
