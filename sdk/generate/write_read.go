package generate

import "go/types"

// readBody writes the body of a function that fills *x.
func (w *writer) readBody(sh *shape) {
	if sh.read != generated {
		w.read(sh, pointedTo("x"))
		return
	}
	if sh.recursive && sh.kind >= slice {
		w.line("if codec.Deep(r) {\nreturn\n}")
	}
	switch sh.kind {
	case structure:
		w.readStruct(sh)
	case slice:
		w.readSlice(sh)
	case array:
		w.readArray(sh)
	case mapping:
		w.readMap(sh)
	default:
		w.readKind(sh, pointedTo("x"))
	}
}

// readStruct writes a loop over the members with a case for each field. Embedded
// pointers on the way to the field are allocated.
func (w *writer) readStruct(sh *shape) {
	w.line("for more := r.FirstMember(); more; more = r.NextMember() {")
	if len(sh.fields) > 0 {
		w.line("switch r.Name() {")
	}
	for _, f := range sh.fields {
		w.line("case %s:", quoted(f.name))
		for i, v := range f.path[:len(f.path)-1] {
			target := selector(f.path[:i+1])
			if p, ok := types.Unalias(v.Type()).(*types.Pointer); ok {
				w.line("if %s == nil {\n%s = new(%s)\n}", target, target, w.typ(p.Elem()))
			}
		}
		w.read(f.shape, variable(selector(f.path)))
	}
	if len(sh.fields) > 0 {
		w.line("}")
	}
	w.line("}")
}

// readSlice writes a loop over the elements. As in encoding/json, elements that the
// slice has already are filled and not replaced.
func (w *writer) readSlice(sh *shape) {
	w.line("if r.Null() {\n*x = nil\nreturn\n}")
	w.line("list := (*x)[:0]")
	w.line("for more := r.FirstElement(); more; more = r.NextElement() {")
	w.line("list = codec.Extend(list)")
	w.read(sh.elem, variable("list[len(list)-1]"))
	w.line("}")
	w.line("*x = codec.Filled(list)")
}

// readArray writes a loop over the elements. As in encoding/json, further elements are
// skipped and missing ones set to zero.
func (w *writer) readArray(sh *shape) {
	w.line("if r.Null() {\nreturn\n}")
	w.line("i := 0")
	w.line("for more := r.FirstElement(); more; more = r.NextElement() {")
	w.line("if i < len(x) {")
	w.read(sh.elem, variable("x[i]"))
	w.line("i++\n}")
	w.line("}")
	w.line("clear(x[i:])")
}

// readMap writes a loop over the members. As in encoding/json, entries that the map has
// already are kept, and the value of each member is read into a new variable.
func (w *writer) readMap(sh *shape) {
	key := sh.typ.Underlying().(*types.Map).Key()
	name := "name"
	if w.typ(key) != "string" {
		name = w.typ(key) + "(name)"
	}
	w.line("if r.Null() {\n*x = nil\nreturn\n}")
	w.line("if *x == nil {\n*x = %s{}\n}", w.typ(sh.typ))
	w.line("for more := r.FirstMember(); more; more = r.NextMember() {")
	w.line("name := r.Name()")
	w.line("var value %s", w.typ(sh.elem.typ))
	w.read(sh.elem, variable("value"))
	w.line("(*x)[%s] = value", name)
	w.line("}")
}

// read writes the statements that fill a variable: a call of a method, of a function of
// the file, or of package codec.
func (w *writer) read(sh *shape, v operand) {
	switch {
	case sh.read == codecMethod:
		w.line("%s.DecodeJSON(r)", v.value)
	case sh.read == visitMethod:
		w.line("codec.ReadVisited(r, %s, (*%s).VisitJSON)", v.pointer, w.typ(sh.typ))
	case sh.read == jsonMethod:
		w.line("if raw := r.Raw(); raw != nil {\ncodec.Check(r, %s.UnmarshalJSON(raw))\n}", v.value)
	case sh.read == textMethod:
		w.readText(sh, v)
	case sh.root:
		w.line("%s.DecodeJSON(r)", v.value)
	case sh.hasFunctions():
		w.line("%s%s(r, %s)", readPrefix, sh.name, v.pointer)
	default:
		w.readKind(sh, v)
	}
}

// readText writes the call of an UnmarshalText method. It is not called for a null,
// which sets slices and maps to nil.
func (w *writer) readText(sh *shape, v operand) {
	switch sh.typ.Underlying().(type) {
	case *types.Slice, *types.Map:
		w.line("if r.Null() {\n%s = nil\n} else if text, ok := codec.ReadText(r); ok {", v.value)
	default:
		w.line("if text, ok := codec.ReadText(r); ok {")
	}
	w.line("codec.Check(r, %s.UnmarshalText(text))\n}", v.value)
}

// readKind writes the call that reads a kind without functions, or a pointer, which is
// nil for a null and allocated otherwise.
func (w *writer) readKind(sh *shape, v operand) {
	if sh.kind == pointer {
		w.line("if r.Null() {\n%s = nil\n} else {", v.value)
		w.line("if %s == nil {\n%s = new(%s)\n}", v.value, v.value, w.typ(sh.elem.typ))
		w.read(sh.elem, pointedTo(v.value))
		w.line("}")
		return
	}
	c, into := codecs[sh.kind], v.pointer
	if c.readAs != "" && types.TypeString(sh.typ, nil) != c.readAs { // without an import for the name
		into = "(*" + c.readAs + ")(" + into + ")"
	}
	w.line("codec.Read%s(r, %s)", c.name, into)
}
