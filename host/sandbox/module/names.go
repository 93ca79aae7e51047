package module

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	nameSection     = "name"
	functionNamesID = 1
)

// names writes a name section with nothing but the functions' names, in their
// order. A function without one gets the index that it has in the original
// module, as the engine would only know the one that it has now.
func (w *writer) names() {
	known := w.m.functionNames()
	total := len(w.m.Functions) + len(w.a.Imports) + len(w.a.Functions)
	if total == 0 {
		return
	}
	start := len(w.out)
	w.out = appendU32(w.out, uint32(total))
	next := uint32(0)
	add := func(name string) {
		w.out = appendName(appendU32(w.out, next), name)
		next++
	}
	of := func(first, end int) {
		for i, name := range known[first:end] {
			if name == "" {
				name = "$" + strconv.Itoa(first+i)
			}
			add(name)
		}
	}
	of(0, w.m.Imported)
	for _, in := range w.a.Imports {
		add(in.Module + "." + in.Name)
	}
	of(w.m.Imported, len(known))
	for _, f := range w.a.Functions {
		add(f.Name)
	}
	w.out = insertSize(w.out, start, functionNamesID)
	w.out = insert(w.out, start, []byte("\x04name")...)
	w.seal(start, customSection)
}

// functionNames has the name of each function, or "". A malformed section
// names none: names are a convenience, and never a reason to refuse a module.
func (m *Module) functionNames() []string {
	names := make([]string, len(m.Functions))
	for _, s := range m.sections {
		r := &reader{data: s.body}
		if s.id == customSection && r.name() == "name" && readFunctionNames(r, names) {
			return names
		}
	}
	return make([]string, len(m.Functions))
}

func readFunctionNames(r *reader, names []string) bool {
	for r.left() > 0 {
		id := r.byte()
		body := reader{data: r.bytes(r.u32()), err: r.err}
		if id == functionNamesID {
			return readNames(&body, names)
		}
	}
	return false
}

func readNames(r *reader, names []string) bool {
	for range r.count("names", 2, MaxFunctions) {
		index, name := r.u32(), r.bytes(r.u32())
		if !utf8.Valid(name) {
			return false
		}
		if uint64(index) < uint64(len(names)) && r.err == nil {
			names[index] = strings.ToValidUTF8(string(name[:min(len(name), maxNameLength)]), "")
		}
	}
	return r.err == nil && r.left() == 0
}

// functionNames is a name section with nothing but its function names, or
// nil if the section is another one or malformed.
func functionNames(body []byte) []byte {
	r := &reader{data: body}
	if r.name() != "name" {
		return nil
	}
	for r.left() > 0 {
		id := r.byte()
		names := r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		if id == functionNamesID && readNames(&reader{data: names}, nil) {
			out := append([]byte("\x04name"), functionNamesID)
			out = appendU32(out, uint32(len(names)))
			return append(out, names...)
		}
	}
	return nil
}
