package generate

import (
	"go/types"
	"slices"
)

// This file writes compact codecs: see codec.Visitor.

// split decides which shapes get which code. What only structs with compact codecs
// consist of gets no other, and what others consist of, too, gets both.
func (s *shapes) split() {
	for _, sh := range s.list {
		if sh.root && sh.compact {
			s.visit(sh)
		}
	}
	for _, sh := range s.list {
		if sh.compact && sh.local {
			sh.read, sh.write = visitMethod, visitMethod
		} else if sh.root {
			sh.markUnrolled()
		}
	}
}

// markUnrolled marks a shape whose codec is not compact, and its parts.
func (s *shape) markUnrolled() {
	if s.unrolled || s.hasVisitMethod() {
		return
	}
	s.unrolled = true
	for _, part := range s.parts() {
		part.markUnrolled()
	}
}

// visit marks a struct that gets a compact codec, and its parts. It refuses fields that
// package codec has no Visit function for.
func (s *shapes) visit(sh *shape) {
	sh.compact, sh.local = true, s.isLocal(sh.typ)
	for _, f := range sh.fields {
		value := f.visited()
		switch {
		case !f.canBeVisited():
			s.refuse(f.at, f.last().Type(), "there is no compact codec for it; mark the struct "+markGenerate)
		case value != nil && value.kind == structure && !value.compact:
			s.visit(value)
		}
	}
}

// canBeVisited reports whether package codec has a function for a field.
func (f *field) canBeVisited() bool {
	throughPointer := slices.ContainsFunc(f.path[:len(f.path)-1], func(v *types.Var) bool { return deref(v.Type()) != v.Type() })
	value := f.visited()
	return !throughPointer && !f.shape.recursive && visitFunction(f.shape) != "" &&
		(value == nil || value.value("") != "") && !(f.omitZero && hasIsZero(deref(f.last().Type())))
}

// isLocal reports whether methods of the type can be generated.
func (s *shapes) isLocal(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Parent() == s.pkg.Scope() && n.TypeParams().Len() == 0
}

// visited returns the shape of what the Visit function of a field is passed a function
// for, or nil.
func (f *field) visited() *shape {
	switch visitFunction(f.shape) {
	case "Pointer", "List", "Map":
		return f.shape.elem
	case "Struct":
		return f.shape
	default:
		return nil
	}
}

// visitFunction returns the name of the function of package codec for a field, or "".
func visitFunction(sh *shape) string {
	if sh.read == generated && sh.write == generated {
		return map[kind]string{
			boolean: "Bool", text: "String", signed: "Int", texts: "Strings", textMap: "StringMap",
			pointer: "Pointer", slice: "List", mapping: "Map", structure: "Struct",
		}[sh.kind]
	}
	switch {
	case sh.hasVisitMethod():
		return "Struct"
	case sh.kind == own && sh.read == codecMethod && sh.write == codecMethod && types.Comparable(sh.typ):
		return "Own"
	}
	return ""
}

// hasVisitMethod reports whether the type has a method VisitJSON, or gets one.
func (s *shape) hasVisitMethod() bool { return s.read == visitMethod || s.compact && s.local }

// value returns the function that visits a value of the shape: typ is the name of its
// type in the file. It is "" if there is none.
func (s *shape) value(typ string) string {
	switch {
	case s.hasVisitMethod():
		return "(*" + typ + ").VisitJSON"
	case visitFunction(s) == "Own":
		return "codec.OwnValue"
	case s.read != generated || s.write != generated:
		return ""
	}
	switch s.kind {
	case boolean:
		return "codec.BoolValue"
	case text:
		return "codec.StringValue"
	case signed:
		return "codec.IntValue"
	case binary:
		return "codec.BytesValue"
	case structure:
		return visitPrefix + s.name
	default:
		return ""
	}
}

// compactMethods writes the methods of a root.
func (w *writer) compactMethods(sh *shape) {
	typ := w.typ(sh.typ)
	w.line("\n// DecodeJSON fills x from JSON; see package codec.")
	w.line("func (x *%s) DecodeJSON(r *codec.Reader) { codec.ReadVisited(r, x, (*%s).VisitJSON) }", typ, typ)
	w.line("\n// AppendJSON appends x as JSON; see package codec.")
	w.line("func (x %s) AppendJSON(dst []byte) ([]byte, error) {", typ)
	w.line("return codec.AppendVisited(dst, &x, (*%s).VisitJSON)\n}", typ)
	w.visitFields(sh)
}

// visitFields writes the method or function that visits the fields of x. Types of the
// package have a method, so that those of other packages can consist of them.
func (w *writer) visitFields(sh *shape) {
	if sh.hasVisitMethod() {
		w.line("\n// VisitJSON visits the fields of x; see [codec.Visitor].")
		w.line("func (x *%s) VisitJSON(v *codec.Visitor) {", w.typ(sh.typ))
	} else {
		w.line("\nfunc %s%s(x *%s, v *codec.Visitor) {", visitPrefix, sh.name, w.typ(sh.typ))
	}
	w.line("for at := v.First(); at >= 0; at = v.Next(at) {")
	for _, f := range sh.fields {
		value := ""
		if visited := f.visited(); visited != nil {
			value = ", " + visited.value(w.typ(visited.typ))
		}
		w.line("codec.Visit%s(v, %s, codec.%s, &%s%s)", visitFunction(f.shape), quoted(f.name), f.presence(), selector(f.path), value)
	}
	w.line("}\n}")
}

// presence returns the name of the constant of package codec for the options of a field.
func (f *field) presence() string {
	switch {
	case f.omitEmpty && notEmpty(f.last().Type(), "") != nil:
		return "OmitEmpty"
	case f.omitZero:
		return "OmitZero"
	default:
		return "Always"
	}
}
