package generate

import (
	"go/types"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// appendMethod writes AppendJSON. Its receiver is a value, because objects are often
// applied as values.
func (w *writer) appendMethod(sh *shape) {
	w.inside = &shape{}
	w.line("\n// AppendJSON appends x as JSON; see package codec.")
	w.line("func (x %s) AppendJSON(dst []byte) ([]byte, error) {", w.typ(sh.typ))
	switch {
	case sh.kind < slice || sh.write != generated:
		if sh.fallible {
			w.line("var err error")
		}
		w.append(sh, variable("x"), "err")
		w.line("return dst, nil")
	case sh.fallible:
		w.line("return %s", w.call(sh, variable("x"), "0"))
	default:
		w.line("return %s, nil", w.call(sh, variable("x"), "0"))
	}
	w.line("}")
}

// appendFunction writes the function that appends a value. It is passed slices and maps
// as they are, and pointers to other values.
func (w *writer) appendFunction(sh *shape) {
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
	w.line("\n%sfunc %s%s(dst []byte, x %s%s%s) %s {", sh.pragma(), appendPrefix, sh.name, star, w.typ(sh.typ), depth, results)
	if sh.recursive {
		w.line("if depth > codec.MaxDepth {\nreturn dst, codec.ErrDepth\n}")
	}
	if sh.kind == slice || sh.kind == mapping {
		w.line("if x == nil {")
		w.returnResult(sh, "codec.AppendNull(dst)")
		w.line("}")
	}
	if sh.fallible {
		w.line("var err error")
	}
	w.line("at := len(dst)")
	switch sh.kind {
	case structure:
		w.appendFields(sh)
		w.returnResult(sh, "codec.CloseObject(dst, at)")
	case mapping:
		w.appendEntries(sh)
		w.returnResult(sh, "codec.CloseObject(dst, at)")
	default:
		w.line("for i := range x {\ndst = append(dst, ',')")
		w.append(sh.elem, variable("x[i]"), "codec.WithinElement(i, err)")
		w.line("}")
		w.returnResult(sh, "codec.CloseArray(dst, at)")
	}
	w.line("}")
}

// returnResult writes the return statement of the function of a shape.
func (w *writer) returnResult(sh *shape, expr string) {
	if sh.fallible {
		expr += ", nil"
	}
	w.line("return %s", expr)
}

// appendFields writes the statements for the members of a struct. The name of a member is
// appended together with the comma before it.
func (w *writer) appendFields(sh *shape) {
	for _, f := range sh.fields {
		conditions, target := w.presence(f)
		if len(conditions) > 0 {
			w.line("if %s {", strings.Join(conditions, " && "))
		}
		w.line("dst = append(dst, %s...)", quoted(string(rawjson.AppendString([]byte(","), f.name))+":"))
		within := "codec.Within(" + quoted(f.name) + ", err)"
		if f.shape.kind == pointer && f.omitEmpty {
			w.append(f.shape.elem, pointedTo(target), within) // not nil
		} else {
			w.append(f.shape, variable(target), within)
		}
		if len(conditions) > 0 {
			w.line("}")
		}
	}
}

// appendEntries writes a loop over the entries of a map, sorted by key. The keys of a
// small map are sorted in an array on the stack.
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

// append writes the statements that append a variable. failed is the expression for
// the error to return.
func (w *writer) append(sh *shape, v operand, failed string) {
	if sh.kind == pointer {
		w.line("if %s == nil {\ndst = codec.AppendNull(dst)\n} else {", v.value)
		w.append(sh.elem, pointedTo(v.value), failed)
		w.line("}")
		return
	}
	if sh.write == jsonMethod && !isTime(sh.typ) {
		w.appendResult("codec.AppendMarshaled", v.value+".MarshalJSON()", failed)
		return
	}
	if sh.write == textMethod {
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

// appendResult writes the statements that append the result of a method.
func (w *writer) appendResult(function, call, failed string) {
	w.line("{\nvar result []byte\nresult, err = %s", call)
	w.line("if dst, err = %s(dst, result, err); err != nil {\nreturn dst, %s\n}\n}", function, failed)
}

func isTime(t types.Type) bool { return named(object(t), "time", "Time") }

// expr returns the call that appends a value.
func (w *writer) expr(sh *shape, v operand) string {
	switch {
	case sh.write == codecMethod:
		return v.value + ".AppendJSON(dst)"
	case sh.write == visitMethod:
		return "codec.AppendVisited(dst, " + v.pointer + ", (*" + w.typ(sh.typ) + ").VisitJSON)"
	case sh.write == jsonMethod:
		return "codec.AppendTime(dst, " + v.value + ")"
	case sh.kind >= slice && w.inside.recursive:
		return w.call(sh, v, "depth+1")
	case sh.kind >= slice:
		return w.call(sh, v, "0")
	default:
		return w.appendKind(sh, v.value)
	}
}

// call returns the call of the function of a shape. depth is the expression for the
// depth of a recursive one.
func (w *writer) call(sh *shape, v operand, depth string) string {
	arg := v.pointer
	if sh.kind == slice || sh.kind == mapping {
		arg = v.value
	}
	if sh.recursive {
		arg += ", " + depth
	}
	return appendPrefix + sh.name + "(dst, " + arg + ")"
}

// appendKind returns the call that appends a kind without functions.
func (w *writer) appendKind(sh *shape, value string) string {
	c := codecs[sh.kind]
	if c.appendAs != "" && types.TypeString(sh.typ, nil) != c.appendAs { // without an import for the name
		value = c.appendAs + "(" + value + ")"
	}
	if sh.kind == float {
		value += ", " + strings.TrimPrefix(sh.typ.Underlying().String(), "float") // the size in bits
	}
	return "codec.Append" + c.name + "(dst, " + value + ")"
}
