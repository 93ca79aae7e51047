package module

import "encoding/binary"

// byPlace is the inverse of place.
var byPlace = func() (ids [len(place) + 1]sectionID) {
	for id, at := range place {
		ids[at] = sectionID(id)
	}
	return ids
}()

type writer struct {
	m     *Module
	a     *Additions
	shift uint32 // of the functions that the module defines
	types []FuncType
	limit int
	out   []byte
}

// function is an index in the new module.
func (w *writer) function(index uint32) uint32 { return w.m.Moved(index, w.shift) }

// Moved is the index of a function after that many imports were added.
func (m *Module) Moved(index, imports uint32) uint32 {
	if index < uint32(m.Imported) {
		return index
	}
	return index + imports
}

// indexTypes lists the types that the additions need beyond the module's.
func (w *writer) indexTypes() {
	for _, in := range w.a.Imports {
		w.typeIndex(in.Type)
	}
	for _, f := range w.a.Functions {
		w.typeIndex(f.Type)
	}
}

func (w *writer) typeIndex(t FuncType) uint32 {
	for i, have := range w.types {
		if have == t {
			return uint32(len(w.m.types) + i)
		}
	}
	w.types = append(w.types, t)
	return uint32(len(w.m.types) + len(w.types) - 1)
}

// section writes one section, which the module may not have yet.
func (w *writer) section(id sectionID) {
	body, there := w.m.body(id)
	added := w.added(id)
	if !there && added == 0 {
		return
	}
	r := &reader{data: body}
	start := len(w.out)
	switch id {
	case startSection:
		w.out = appendU32(w.out, w.function(w.m.StartFunction))
	case memorySection, tableSection, dataCountSection:
		w.out = append(w.out, body...)
	default:
		var n uint32
		if there {
			n = r.u32()
		}
		w.out = appendU32(w.out, n+uint32(added))
		w.copy(id, r, int(n))
		w.add(id)
	}
	w.seal(start, id)
}

// seal puts id and size in front of what was written since start.
func (w *writer) seal(start int, id sectionID) {
	if len(w.out) > w.limit {
		w.out = w.out[:start]
		w.limit = -1
		return
	}
	w.out = insertSize(w.out, start, byte(id))
}

// insertSize moves what was written since start back, to place its size, and
// what stands before it.
func insertSize(out []byte, start int, before ...byte) []byte {
	return insert(out, start, binary.AppendUvarint(before, uint64(len(out)-start))...)
}

func insert(out []byte, at int, head ...byte) []byte {
	out = append(out, head...)
	copy(out[at+len(head):], out[at:len(out)-len(head)])
	copy(out[at:], head)
	return out
}

func (m *Module) body(id sectionID) ([]byte, bool) {
	for _, s := range m.sections {
		if s.id == id {
			return s.body, true
		}
	}
	return nil, false
}

// added counts what is added to a section.
func (w *writer) added(id sectionID) int {
	switch id {
	case typeSection:
		return len(w.types)
	case importSection:
		return len(w.a.Imports)
	case functionSection, codeSection:
		return len(w.a.Functions)
	case globalSection:
		return len(w.a.Globals)
	case exportSection:
		return len(w.a.Exports)
	default:
		return 0
	}
}

// copy writes the n entries that the module has. The parser has seen them, so
// nothing fails here.
func (w *writer) copy(id sectionID, r *reader, n int) {
	switch id {
	case globalSection:
		for range n {
			w.raw(r, 2)
			w.expression(r)
		}
	case exportSection:
		for _, e := range w.m.Exports {
			if e.Kind == Function {
				e.Index = w.function(e.Index)
			}
			w.export(e)
		}
	case elementSection:
		for range n {
			w.elements(r)
		}
	case codeSection:
		for i := range w.m.Bodies {
			w.body(i)
		}
	case dataSection:
		for range n {
			w.data(r)
		}
	default:
		w.out = append(w.out, r.data[r.pos:]...)
	}
}

func (w *writer) raw(r *reader, n uint32) { w.out = append(w.out, r.bytes(n)...) }

func (w *writer) u32(r *reader) uint32 {
	v := r.u32()
	w.out = appendU32(w.out, v)
	return v
}

func (w *writer) export(e Export) {
	w.out = appendU32(append(appendName(w.out, e.Name), byte(e.Kind)), e.Index)
}

func (w *writer) expression(r *reader) {
	for in := (Instruction{}); r.err == nil; {
		readInstruction(r, &in)
		if in.Op == OpRefFunc {
			in.A = w.function(in.A)
		}
		w.out = in.Append(w.out)
		if in.Op == OpEnd {
			return
		}
	}
}

func (w *writer) elements(r *reader) {
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
			w.out = appendU32(w.out, w.function(r.u32()))
		}
	}
}

func (w *writer) data(r *reader) {
	switch w.u32(r) {
	case 2:
		w.u32(r)
		w.expression(r)
	case 0:
		w.expression(r)
	}
	w.raw(r, w.u32(r))
}

// body writes a function with its size in front.
func (w *writer) body(i int) {
	if len(w.out) > w.limit {
		return
	}
	start := len(w.out)
	b := &w.m.Bodies[i]
	w.locals(b)
	if w.a.Body != nil {
		w.out = w.a.Body(i, w.out)
	} else {
		w.code(b)
	}
	w.out = insertSize(w.out, start)
}

// code copies a function, with the functions that it names renumbered.
func (w *writer) code(b *Body) {
	in := Instruction{}
	for s := b.Instructions(); s.Next(&in); {
		if in.Op == OpCall || in.Op == OpRefFunc {
			in.A = w.function(in.A)
		}
		w.out = in.Append(w.out)
	}
}

func (w *writer) locals(b *Body) {
	r := &reader{data: b.groups}
	for range w.u32(r) {
		w.u32(r)
		w.raw(r, 1)
	}
}

// add writes the added entries of a section.
func (w *writer) add(id sectionID) {
	switch id {
	case typeSection:
		for _, t := range w.types {
			w.out = appendName(appendName(append(w.out, 0x60), t.Params), t.Results)
		}
	case importSection:
		for _, in := range w.a.Imports {
			w.out = append(appendName(appendName(w.out, in.Module), in.Name), byte(Function))
			w.out = appendU32(w.out, w.typeIndex(in.Type))
		}
	case functionSection:
		for _, f := range w.a.Functions {
			w.out = appendU32(w.out, w.typeIndex(f.Type))
		}
	case globalSection:
		for _, g := range w.a.Globals {
			w.out = append(append(w.out, byte(g.Type), 1), g.Value...)
			w.out = append(w.out, byte(OpEnd))
		}
	case exportSection:
		for _, e := range w.a.Exports {
			w.export(e)
		}
	case codeSection:
		for _, f := range w.a.Functions {
			start := len(w.out)
			w.out = append(w.out, 0) // locals
			w.out = insertSize(append(w.out, f.Code...), start)
		}
	default:
	}
}

func appendName(out []byte, s string) []byte { return append(appendU32(out, uint32(len(s))), s...) }

func appendSection(out []byte, id sectionID, body []byte) []byte {
	out = append(out, byte(id))
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}
