package module

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi/wasm"
)

// Errors of [Parse] that callers tell apart.
var (
	ErrNotWasm   = errors.New(`not WebAssembly: the file does not start with "\0asm"`)
	ErrEmpty     = errors.New("not WebAssembly: the file is empty")
	ErrComponent = errors.New("a WebAssembly component (of the component model, as for target wasip2), not a core module: build for target wasip1")
)

// componentLayer is the second half of the version in components of all
// versions. In modules it is zero.
var componentLayer = []byte{1, 0}

// Parse reads a binary. The module keeps slices of the input, which must not
// change.
func Parse(binary []byte) (*Module, error) { return ParseWithin(binary, MaxSize) }

// ParseWithin is [Parse] of a binary of at most maxSize bytes. For each multiple of [MaxSize] in it, a function
// may have [MaxBody] bytes and the weight of a usual one once more.
func ParseWithin(binary []byte, maxSize int) (*Module, error) {
	if err := checkHeader(binary, maxSize); err != nil {
		return nil, err
	}
	m := &Module{larger: max(1, maxSize/MaxSize), Escaped: map[uint32]bool{}, Referenced: map[uint32]int{}}
	last := wasm.CustomSection
	for r := wasm.NewReader(binary[len(wasm.Header):]); r.Len() > 0; {
		s, err := nextSection(r)
		if err != nil {
			return nil, err
		}
		if s.id != wasm.CustomSection {
			if !last.Precedes(s.id) {
				return nil, fmt.Errorf("malformed: section %s is out of order or given twice", s.id)
			}
			last = s.id
		}
		if err := m.read(s); err != nil {
			return nil, fmt.Errorf("section %s: %w", s.id, err)
		}
		m.sections = append(m.sections, s)
	}
	return m, m.check()
}

// Damaged reports whether an error of [Parse] is about bytes that are missing
// or wrong, and not about a limit.
func Damaged(err error) bool {
	return errors.Is(err, ErrEmpty) || errors.Is(err, wasm.ErrTruncated) || strings.Contains(err.Error(), "malformed: ")
}

func checkHeader(binary []byte, maxSize int) error {
	magic := wasm.Header[:4]
	switch {
	case len(binary) > maxSize:
		return fmt.Errorf("too large: %d bytes, the limit is %d", len(binary), maxSize)
	case len(binary) == 0:
		return ErrEmpty
	case !bytes.HasPrefix(binary, []byte(magic)):
		return ErrNotWasm
	case len(binary) < len(wasm.Header):
		return wasm.ErrTruncated
	case bytes.Equal(binary[len(magic)+2:len(wasm.Header)], componentLayer):
		return ErrComponent
	case !bytes.HasPrefix(binary, []byte(wasm.Header)):
		return fmt.Errorf("binary format version %d is not known: build for version 1", binary[len(magic)])
	}
	return nil
}

func nextSection(r *wasm.Reader) (section, error) {
	at := len(wasm.Header) + r.Offset()
	id := wasm.SectionID(r.Byte())
	if !id.Valid() {
		return section{}, fmt.Errorf("malformed: unknown section %d at byte %d", id, at)
	}
	size := r.U32()
	if r.Err() == nil && uint64(size) > uint64(r.Len()) {
		return section{}, fmt.Errorf("%w in section %s, which has %d bytes: %d are left", wasm.ErrTruncated, id, size, r.Len())
	}
	return section{id: id, body: r.Bytes(size)}, r.Err()
}

// read reads one section, which must have no bytes left over.
func (m *Module) read(s section) error {
	r := wasm.NewReader(s.body)
	switch s.id {
	case wasm.CustomSection:
		return m.readCustom(r)
	case wasm.TypeSection:
		m.readTypes(r)
	case wasm.ImportSection:
		m.readImports(r)
	case wasm.FunctionSection:
		for range r.Count("functions", 1, MaxFunctions-len(m.Functions)) {
			m.addFunction(r, m.typeAt(r, r.U32()))
		}
	case wasm.TableSection:
		for range r.Count("tables", 3, maxTables) {
			m.readTable(r)
		}
	case wasm.MemorySection:
		for range r.Count("memories", 2, 1) {
			m.Memories = append(m.Memories, r.Limits())
		}
	case wasm.GlobalSection:
		m.readGlobals(r)
	case wasm.ExportSection:
		m.readExports(r)
	case wasm.StartSection:
		m.Start, m.StartFunction = true, r.U32()
		m.checkIndex(r, wasm.KindFunction, m.StartFunction)
	case wasm.ElementSection:
		m.readElements(r)
	case wasm.CodeSection:
		m.readCode(r)
	case wasm.DataSection:
		m.readData(r)
	case wasm.DataCountSection:
		r.U32()
	}
	if r.Len() > 0 {
		return fmt.Errorf("malformed: %d bytes are left over", r.Len())
	}
	return r.Err()
}

func (m *Module) readTypes(r *wasm.Reader) {
	total := 0
	for range r.Count("types", 3, maxTypes) {
		t := r.FuncType()
		if total += values(t); total > maxTypeValues {
			r.Failf("too large: more than %d parameters and results of all types together", maxTypeValues)
		}
		if most := max(len(t.Params), len(t.Results)); most > maxParams {
			r.Failf("too large: %d parameters or results, the limit is %d: a function is given a struct with as many words in its fields; make large ones of them pointers", most, maxParams)
		}
		m.types = append(m.types, t)
	}
}

// typeAt returns a signature of the type section by an index of the input.
func (m *Module) typeAt(r *wasm.Reader, index uint32) wasm.FuncType {
	if uint64(index) >= uint64(len(m.types)) {
		r.Failf("malformed: there is no type %d", index)
		return wasm.FuncType{}
	}
	return m.types[index]
}

// addFunction adds a function to the index space.
func (m *Module) addFunction(r *wasm.Reader, t wasm.FuncType) {
	m.Functions = append(m.Functions, t)
	if m.values += values(t); m.values > maxFunctionValues {
		r.Failf("too large: more than %d parameters and results of all functions together", maxFunctionValues)
	}
}

func (m *Module) readImports(r *wasm.Reader) {
	for range r.Count("imports", 4, maxImports) {
		in := wasm.Import{Module: symbol(r), Name: symbol(r), Kind: wasm.Kind(r.Byte())}
		switch in.Kind {
		case wasm.KindFunction:
			in.Type = m.typeAt(r, r.U32())
			m.addFunction(r, in.Type)
			m.Imported++
		case wasm.KindTable:
			m.readTable(r)
		case wasm.KindMemory:
			m.Memories = append(m.Memories, r.Limits())
		case wasm.KindGlobal:
			m.Globals = append(m.Globals, r.Global())
		default:
			r.Failf("malformed: import %q.%q of kind %d", in.Module, in.Name, in.Kind)
		}
		m.Imports = append(m.Imports, in)
	}
}

func (m *Module) readTable(r *wasm.Reader) {
	t := r.Table()
	if t.Min > MaxTableSize {
		r.Failf("too large: a table of %d elements, the limit is %d", t.Min, MaxTableSize)
	}
	m.Tables = append(m.Tables, t)
}

func (m *Module) readGlobals(r *wasm.Reader) {
	for range r.Count("globals", 4, maxGlobals-len(m.Globals)) {
		g := r.Global()
		m.readExpression(r)
		m.Globals = append(m.Globals, g)
	}
}

func (m *Module) readExports(r *wasm.Reader) {
	for range r.Count("exports", 3, maxExports) {
		e := wasm.Export{Name: symbol(r), Kind: wasm.Kind(r.Byte()), Index: r.U32()}
		if e.Kind > wasm.KindGlobal {
			r.Failf("malformed: export %q of kind %d", e.Name, e.Kind)
		}
		m.Exports = append(m.Exports, e)
	}
}

// symbol reads the name of an import or export. Its length is bounded because
// messages contain it.
func symbol(r *wasm.Reader) string {
	name := r.Name()
	if len(name) > maxNameLength {
		r.Failf("too large: a name of %d bytes, the limit is %d", len(name), maxNameLength)
		return ""
	}
	return name
}

// The flags of an element segment (5.5.12). A segment with both of the first
// two is declarative.
const (
	elementPassive     = 1 // or declarative
	elementExplicit    = 2 // an explicit table index, or declarative
	elementExpressions = 4 // constant expressions in place of function indices
)

func (m *Module) readElements(r *wasm.Reader) {
	for range r.Count("element segments", 2, maxSegments) {
		flags := r.U32()
		if flags > 7 {
			r.Failf("malformed: element segment flags %d", flags)
		}
		if flags&elementPassive == 0 {
			if flags&elementExplicit != 0 {
				r.U32()
			}
			m.readExpression(r)
		}
		if flags&(elementPassive|elementExplicit) != 0 {
			checkElementType(r, flags)
		}
		m.Elements = append(m.Elements, m.readSegment(r, flags&elementExpressions != 0))
	}
}

// checkElementType reads the type of elements that are expressions, or the
// kind of others, which is 0 for functions.
func checkElementType(r *wasm.Reader, flags uint32) {
	t := r.Byte()
	if expressions := flags&elementExpressions != 0; expressions && !wasm.ValueType(t).Reference() || !expressions && t != 0 {
		r.Failf("malformed: elements of type %#x are not in WebAssembly 2.0", t)
	}
}

// readSegment reads the elements of a segment and returns their number.
func (m *Module) readSegment(r *wasm.Reader, expressions bool) uint32 {
	n := r.Count("elements", 1, maxElements-m.elements)
	m.elements += n
	for range n {
		if expressions {
			m.readExpression(r)
		} else {
			m.readReference(r, r.U32())
		}
	}
	return uint32(n)
}

func (m *Module) readData(r *wasm.Reader) {
	for range r.Count("data segments", 2, maxSegments) {
		switch mode := r.U32(); mode {
		case 0:
			m.readExpression(r)
		case 1: // passive
		case 2:
			r.U32()
			m.readExpression(r)
		default:
			r.Failf("malformed: data segment mode %d", mode)
		}
		m.Data = append(m.Data, uint32(len(r.Bytes(r.U32()))))
	}
}

// readExpression reads a constant expression. It cannot contain blocks, so
// that the first end instruction ends it.
func (m *Module) readExpression(r *wasm.Reader) {
	for in := (wasm.Instruction{}); r.Err() == nil; {
		r.Instruction(&in)
		switch in.Op {
		case wasm.OpEnd:
			return
		case wasm.OpRefFunc:
			m.readReference(r, in.A)
		case wasm.OpGlobalGet:
			m.checkIndex(r, wasm.KindGlobal, in.A)
		default:
		}
	}
}

// check checks what needs more than one section.
func (m *Module) check() error {
	if defined := len(m.Functions) - m.Imported; defined != len(m.Bodies) {
		return fmt.Errorf("malformed: %d bodies for %d functions", len(m.Bodies), defined)
	}
	for _, e := range m.Exports {
		if uint64(e.Index) >= uint64(m.length(e.Kind)) {
			return fmt.Errorf("export %q: malformed: there is no %s %d", e.Name, e.Kind, e.Index)
		}
	}
	if m.Start && m.Functions[m.StartFunction] != (wasm.FuncType{}) {
		return fmt.Errorf("malformed: the start function %d has parameters or results", m.StartFunction)
	}
	if len(m.Referenced) > maxReferenced {
		return fmt.Errorf("too large: code refers to %d functions by ref.func, the limit is %d", len(m.Referenced), maxReferenced)
	}
	if !m.Effects.GrowsTables {
		return nil
	}
	for i, t := range m.Tables {
		if !t.HasMax || t.Max > maxGrownTable {
			return fmt.Errorf("too large: table %d may grow beyond the limit of %d elements: declare a maximum", i, maxGrownTable)
		}
	}
	return nil
}
