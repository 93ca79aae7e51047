package module

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// GlobalExport is the name under which [Module.GlobalExports] exports the
// mutable global of that index.
func GlobalExport(index uint32) string {
	return GlobalPrefix + strconv.FormatUint(uint64(index), 10)
}

// GlobalExports lists exports of every mutable global that holds a number, as
// the engine lets the host reach exported globals only.
func (m *Module) GlobalExports() ([]Export, error) {
	for _, e := range m.Exports {
		if strings.HasPrefix(e.Name, GlobalPrefix) {
			return nil, fmt.Errorf("export %q uses the reserved prefix %q: rename it", e.Name, GlobalPrefix)
		}
	}
	var out []Export
	for _, index := range m.MutableGlobals() {
		if m.Globals[index].Type.Number() {
			out = append(out, Export{Name: GlobalExport(index), Kind: GlobalKind, Index: index})
		}
	}
	return out, nil
}

// Additions is what [Module.Write] adds to a module. Everything is appended
// to its index space, so that only the functions that the module defines get
// other indices: each moves by the number of added imports.
type Additions struct {
	Imports   []Import // of functions
	Globals   []Init   // mutable
	Functions []Defined
	Exports   []Export // indices are those of the new module
	// Body appends the new code of a defined function, without its locals, to
	// out. Indices in it are those of the new module. Nil copies.
	Body func(defined int, out []byte) []byte
}

// mostWritten is how large a module may become, in bytes.
const mostWritten = 2 * MaxSize

// Init is a global with the constant expression that it starts with, without
// its end.
type Init struct {
	Type  ValueType
	Value []byte
}

// Defined is a function without locals. Its code ends with an end.
type Defined struct {
	Name string // in stacks
	Type FuncType
	Code []byte
}

// ErrGrows says that a module is too large after [Module.Write] only.
var ErrGrows = errors.New("too large: the module grows too much when fuel is compiled in: split its largest functions")

// Write writes the module again with what is added. Custom sections are left
// out, except for the function names, which stacks are told with.
func (m *Module) Write(a Additions) ([]byte, error) {
	w := &writer{m: m, a: &a, shift: uint32(len(a.Imports)), limit: mostWritten}
	w.indexTypes()
	w.out = append(append(w.out, magic...), coreVersion...)
	for _, id := range byPlace {
		if id != customSection {
			w.section(id)
		}
	}
	w.names()
	if len(w.out) > w.limit {
		return nil, ErrGrows
	}
	return w.out, nil
}
