package module

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/wasm"
)

// This file writes a module again: with additions, or without its code. All code
// is decoded and encoded anew, so that the engine sees nothing that it might read
// differently than this package did.

// GlobalExport returns the name under which [Module.GlobalExports] exports the
// global of that index. Package meter refuses modules that export a name with
// this prefix themselves.
func GlobalExport(index uint32) string {
	return "thole.global." + strconv.FormatUint(uint64(index), 10)
}

// StartExport is the name under which [Module.Write] exports the start function.
const StartExport = "thole.start"

// GlobalExports lists exports of [Module.MutableNumbers]: the engine gives a
// host access to exported globals only.
func (m *Module) GlobalExports() (out []wasm.Export) {
	for _, index := range m.MutableNumbers() {
		out = append(out, wasm.Export{Name: GlobalExport(index), Kind: wasm.KindGlobal, Index: index})
	}
	return out
}

// Additions is what [Module.Write] adds to a module. Each is appended to its
// index space, so that only the functions that the module defines get other
// indices: each moves by the number of added imports.
type Additions struct {
	Imports   []wasm.Import // of functions
	Globals   [][]byte      // entries of the global section
	Functions []Defined
	Exports   []wasm.Export // with indices of the new module
	// Body appends the code of a function that the module defines, without its
	// locals, to out. Indices in it are those of the new module.
	Body func(defined int, out []byte) []byte
}

// Defined is a function. Its code ends with an end instruction.
type Defined struct {
	Name   string // in stack traces
	Type   wasm.FuncType
	Locals []wasm.ValueType // besides its parameters
	Code   []byte
}

// maxWritten bounds a module with its additions, in bytes, for each [MaxSize] that it may have.
const maxWritten = 2 * MaxSize

// ErrGrows is the error for a module that is too large only with what
// [Module.Write] adds.
var ErrGrows = errors.New("too large: the module grows too much when fuel is compiled in: split its largest functions")

// Write writes the module again with additions. Custom sections are left out,
// except for the names of functions, which stack traces show. The start function
// becomes an export: the host enters it as it enters any other, and knows its stack.
func (m *Module) Write(a Additions) ([]byte, error) {
	w := &writer{m: m, a: &a, out: []byte(wasm.Header)}
	w.encodeAdditions()
	for _, id := range wasm.SectionOrder {
		w.section(id)
	}
	if w.names(); len(w.out) > w.m.larger*maxWritten {
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
	types []wasm.FuncType                        // that the additions need beyond the module's own
	added [wasm.DataCountSection + 1]wasm.Vector // the entries that are added to each section
	out   []byte
}

// moved returns the index of a function in the new module.
func (w *writer) moved(index uint32) uint32 { return w.m.Moved(index, uint32(len(w.a.Imports))) }

// encodeAdditions fills added.
func (w *writer) encodeAdditions() {
	for _, in := range w.a.Imports {
		w.added[wasm.ImportSection].Add(wasm.AppendImport(nil, in.Module, in.Name, w.typeIndex(in.Type)))
	}
	for _, f := range w.a.Functions {
		w.added[wasm.FunctionSection].Add(wasm.AppendU32(nil, w.typeIndex(f.Type)))
		w.added[wasm.CodeSection].Add(wasm.AppendBody(nil, f.Locals, f.Code))
	}
	for _, g := range w.a.Globals {
		w.added[wasm.GlobalSection].Add(g)
	}
	for _, e := range w.a.Exports {
		w.added[wasm.ExportSection].Add(e.Append(nil))
	}
	if w.m.Start {
		start := wasm.Export{Name: StartExport, Kind: wasm.KindFunction, Index: w.moved(w.m.StartFunction)}
		w.added[wasm.ExportSection].Add(start.Append(nil))
	}
}

// typeIndex returns the index of a signature in the new module, to which it is
// added if need be.
func (w *writer) typeIndex(t wasm.FuncType) uint32 {
	i := slices.Index(w.types, t)
	if i < 0 {
		i = len(w.types)
		w.types = append(w.types, t)
		w.added[wasm.TypeSection].Add(t.Append(nil))
	}
	return uint32(len(w.m.types) + i)
}

// section writes one section. The module may not have it yet.
func (w *writer) section(id wasm.SectionID) {
	at := slices.IndexFunc(w.m.sections, func(s section) bool { return s.id == id })
	added := &w.added[id]
	if at < 0 && added.Len == 0 || id == wasm.StartSection {
		return
	}
	body := []byte{0} // a vector without elements
	if at >= 0 {
		body = w.m.sections[at].body
	}
	start := len(w.out)
	r := wasm.NewReader(body)
	n := r.U32()
	w.out = wasm.AppendU32(w.out, n+added.Len)
	w.copyEntries(id, r, n)
	w.out = append(w.out, added.Encoded...)
	w.out = wasm.InsertSize(w.out, start, byte(id))
}

// copyEntries writes the n entries that the module has. The parser has read
// them before, so that no read fails.
func (w *writer) copyEntries(id wasm.SectionID, r *wasm.Reader, n uint32) {
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
	case wasm.DataSection:
		for range n {
			w.data(r)
		}
	case wasm.CodeSection:
		for i := range w.m.Bodies {
			w.body(i)
		}
	default: // no other section contains indices of functions
		w.out = append(w.out, r.Rest()...)
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

// body writes a function. Nothing is written any more once the module is too
// large, so that memory stays bounded.
func (w *writer) body(i int) {
	if len(w.out) > w.m.larger*maxWritten {
		return
	}
	start := len(w.out)
	b := &w.m.Bodies[i]
	r := wasm.NewReader(b.groups)
	for range w.u32(r) {
		w.u32(r)
		w.raw(r, 1)
	}
	w.out = wasm.InsertSize(w.a.Body(i, w.out), start)
}

// names writes a name section with the names of the functions, in their order.
func (w *writer) names() {
	names := w.m.functionNames()
	for i, in := range w.a.Imports {
		names = slices.Insert(names, w.m.Imported+i, in.Module+"."+in.Name)
	}
	for _, f := range w.a.Functions {
		names = append(names, f.Name)
	}
	start := len(w.out)
	w.out = wasm.AppendName(w.out, nameSection)
	subsection := len(w.out)
	w.out = wasm.AppendU32(w.out, uint32(len(names)))
	for i, name := range names {
		w.out = wasm.AppendName(wasm.AppendU32(w.out, uint32(i)), name)
	}
	w.out = wasm.InsertSize(w.out, subsection, functionNamesID)
	w.out = wasm.InsertSize(w.out, start, byte(wasm.CustomSection))
}

// SkeletonSection is the custom section that holds the salt of a skeleton.
const SkeletonSection = "thole.skeleton"

// Skeleton writes a module of [Module.Write] again, with bodies that trap in
// place of its own. Everything that an engine needs besides native code is
// there: signatures, imports, exports, globals, tables, segments and function
// names. Write has left out all custom sections but the names, so that nothing
// else of the original file is. The last section holds the salt: two skeletons
// are equal only if their salts are, which must have the same length.
func Skeleton(written, salt []byte) ([]byte, error) {
	out := []byte(wasm.Header)
	for r := wasm.NewReader(written[len(wasm.Header):]); r.Len() > 0; {
		s, err := nextSection(r)
		if err != nil {
			return nil, err
		}
		if s.id == wasm.CodeSection {
			s.body = traps(s.body)
		}
		out = wasm.AppendSection(out, s.id, s.body)
	}
	return wasm.AppendCustom(out, SkeletonSection, salt), nil
}

// traps returns a code section with as many bodies as the given one has. Each is
// valid for any signature: it has no locals, and its one instruction traps.
func traps(code []byte) []byte {
	n := wasm.NewReader(code).Count("function bodies", 3, len(code))
	trap := wasm.AppendOp(wasm.AppendOp(nil, wasm.OpUnreachable), wasm.OpEnd)
	return append(wasm.AppendU32(nil, uint32(n)), bytes.Repeat(wasm.AppendBody(nil, nil, trap), n)...)
}
