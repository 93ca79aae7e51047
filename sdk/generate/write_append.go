package generate

import (
	"go/types"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// method writes AppendJSON, by value: an object is often applied as one.
func (w *writer) method(sh *shape) {
	w.inside = &shape{}
	w.line("\n// AppendJSON appends x as JSON; see package codec.")
	w.line("func (x %s) AppendJSON(dst []byte) ([]byte, error) {", w.typ(sh.typ))
	if sh.kind < slice || sh.write != byKind {
		if sh.fallible {
			w.line("var err error")
		}
		w.append(sh, variable("x"), "err")
		w.line("return dst, nil\n}")
		return
	}
	call := w.call(sh, variable("x"), "0")
	if sh.fallible {
		w.line("return %s\n}", call)
		return
	}
	w.line("return %s, nil\n}", call)
}

// appending writes the function that appends a value: of slices and maps the
// value itself, of others what x points to.
func (w *writer) appending(sh *shape) {
	w.inside = sh
	star, depth, results := "*", "", "[]byte"
	if sh.kind == slice || sh.kind == mapping {
		star = ""
	}
	if sh.recursive {
		depth = ", depth int"
	}
	if sh.fallible {
		results = "([]byte, error)"
	}
	w.line("\nfunc %s%s(dst []byte, x %s%s%s) %s {", appendPrefix, sh.name, star, w.typ(sh.typ), depth, results)
	if sh.recursive {
		w.line("if depth > codec.MaxDepth {\nreturn dst, codec.ErrDepth\n}")
	}
	if sh.kind == slice || sh.kind == mapping {
		w.line("if x == nil {")
		w.result(sh, "codec.AppendNull(dst)")
		w.line("}")
	}
	if sh.fallible {
		w.line("var err error")
	}
	w.line("at := len(dst)")
	switch sh.kind {
	case structure:
		w.appendFields(sh)
		w.result(sh, "codec.CloseObject(dst, at)")
	case mapping:
		w.appendEntries(sh)
		w.result(sh, "codec.CloseObject(dst, at)")
	default:
		w.line("for i := range x {\ndst = append(dst, ',')")
		w.append(sh.elem, variable("x[i]"), "codec.WithinElement(i, err)")
		w.line("}")
		w.result(sh, "codec.CloseArray(dst, at)")
	}
	w.line("}")
}

func (w *writer) result(sh *shape, expr string) {
	if sh.fallible {
		expr += ", nil"
	}
	w.line("return %s", expr)
}

func (w *writer) appendFields(sh *shape) {
	for _, f := range sh.fields {
		conditions, target := w.present(f)
		if len(conditions) > 0 {
			w.line("if %s {", strings.Join(conditions, " && "))
		}
		w.line("dst = append(dst, %s...)", quoted(string(rawjson.AppendString([]byte(","), f.name))+":"))
		within := "codec.Within(" + quoted(f.name) + ", err)"
		if f.shape.kind == pointer && f.omitEmpty {
			w.append(f.shape.elem, pointed(target), within) // not nil
		} else {
			w.append(f.shape, variable(target), within)
		}
		if len(conditions) > 0 {
			w.line("}")
		}
	}
}

func (w *writer) appendEntries(sh *shape) {
	key := sh.typ.Underlying().(*types.Map).Key()
	name := "name"
	if w.typ(key) != "string" {
		name = "string(name)"
	}
	w.line("var buffer [codec.SmallMap]%s", w.typ(key))
	w.line("for _, name := range codec.Keys(x, buffer[:0]) {")
	w.line("dst = codec.AppendName(dst, %s)", name)
	w.line("value := x[name]")
	w.append(sh.elem, variable("value"), "codec.WithinKey("+name+", err)")
	w.line("}")
}

// append writes the statements that append a variable; failed is the error to
// return.
func (w *writer) append(sh *shape, v spot, failed string) {
	if sh.kind == pointer {
		w.line("if %s == nil {\ndst = codec.AppendNull(dst)\n} else {", v.value)
		w.append(sh.elem, pointed(v.value), failed)
		w.line("}")
		return
	}
	if sh.write == byJSON && !isTime(sh.typ) {
		w.appendResult("codec.AppendMarshaled", v.value+".MarshalJSON()", failed)
		return
	}
	if sh.write == byText {
		w.appendResult("codec.AppendText", v.value+".MarshalText()", failed)
		return
	}
	call := w.expr(sh, v)
	if !sh.fallible {
		w.line("dst = %s", call)
		return
	}
	w.line("if dst, err = %s; err != nil {\nreturn dst, %s\n}", call, failed)
}

// appendResult writes the statements that append what a method returns.
func (w *writer) appendResult(function, call, failed string) {
	w.line("{\nvar result []byte\nresult, err = %s", call)
	w.line("if dst, err = %s(dst, result, err); err != nil {\nreturn dst, %s\n}\n}", function, failed)
}

func isTime(t types.Type) bool { return named(object(t), "time", "Time") }

// expr is the call that appends a value.
func (w *writer) expr(sh *shape, v spot) string {
	switch {
	case sh.write == byCodec:
		return v.value + ".AppendJSON(dst)"
	case sh.write == byJSON:
		return "codec.AppendTime(dst, " + v.value + ")"
	case sh.kind >= slice && w.inside.recursive:
		return w.call(sh, v, "depth+1")
	case sh.kind >= slice:
		return w.call(sh, v, "0")
	default:
		return w.appendKind(sh, v.value)
	}
}

// call calls the function of a shape; depth is that of the caller, if the
// caller is part of the same recursion.
func (w *writer) call(sh *shape, v spot, depth string) string {
	arg := v.pointer
	if sh.kind == slice || sh.kind == mapping {
		arg = v.value
	}
	if sh.recursive {
		arg += ", " + depth
	}
	return appendPrefix + sh.name + "(dst, " + arg + ")"
}

func (w *writer) appendKind(sh *shape, value string) string {
	plain := func(want string) string {
		if w.typ(sh.typ) == want {
			return value
		}
		return want + "(" + value + ")"
	}
	switch sh.kind {
	case boolean:
		return "codec.AppendBool(dst, " + plain("bool") + ")"
	case text:
		return "codec.AppendString(dst, " + plain("string") + ")"
	case signed:
		return "codec.AppendInt(dst, " + plain("int64") + ")"
	case unsigned:
		return "codec.AppendUint(dst, " + plain("uint64") + ")"
	case float:
		return "codec.AppendFloat(dst, " + plain("float64") + ", " + bits(sh.typ) + ")"
	case binary:
		return "codec.AppendBytes(dst, " + value + ")"
	case raw:
		return "codec.AppendRaw(dst, " + value + ")"
	case texts:
		return "codec.AppendStrings(dst, " + value + ")"
	default:
		return "codec.AppendStringMap(dst, " + value + ")"
	}
}

func bits(t types.Type) string {
	if t.Underlying().(*types.Basic).Kind() == types.Float32 {
		return "32"
	}
	return "64"
}
