package module

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Errors that a caller may want to tell apart.
var (
	ErrNotWasm   = errors.New(`not WebAssembly: the file does not start with "\0asm"`)
	ErrEmpty     = errors.New("not WebAssembly: the file is empty")
	ErrComponent = errors.New("a WebAssembly component, not a core module: build for target wasip1")
)

var (
	magic         = []byte("\x00asm")
	coreVersion   = []byte{1, 0, 0, 0}
	componentLike = []byte{0x0d, 0, 1, 0}
)

type sectionID byte

const (
	customSection sectionID = iota
	typeSection
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
	dataCountSection
)

// section is one section of the input: id and the bytes after its size.
type section struct {
	id   sectionID
	body []byte
}

// place orders the sections: the data count stands between elements and code.
var place = [...]int{
	typeSection: 1, importSection: 2, functionSection: 3, tableSection: 4, memorySection: 5,
	globalSection: 6, exportSection: 7, startSection: 8, elementSection: 9,
	dataCountSection: 10, codeSection: 11, dataSection: 12,
}

var sectionNames = [...]string{
	"custom", "type", "import", "function", "table", "memory", "global",
	"export", "start", "element", "code", "data", "data count",
}

// Parse reads a binary. It keeps slices of the input, which must not change.
func Parse(wasm []byte) (*Module, error) {
	if err := checkHeader(wasm); err != nil {
		return nil, err
	}
	m := &Module{}
	r := &reader{data: wasm, pos: 8}
	last := 0
	for r.left() > 0 {
		s, err := nextSection(r)
		if err != nil {
			return nil, err
		}
		if s.id != customSection {
			if place[s.id] <= last {
				return nil, fmt.Errorf("malformed: section %s is out of order or given twice", sectionNames[s.id])
			}
			last = place[s.id]
		}
		if err := m.read(s); err != nil {
			return nil, fmt.Errorf("section %s: %w", sectionNames[s.id], err)
		}
		m.sections = append(m.sections, s)
	}
	m.escapes()
	return m, m.check()
}

// Damaged says whether an error of [Parse] is about bytes that are missing or
// wrong, and not about a limit.
func Damaged(err error) bool {
	return errors.Is(err, ErrEmpty) || errors.Is(err, errTruncated) || strings.Contains(err.Error(), "malformed: ")
}

func checkHeader(wasm []byte) error {
	switch {
	case len(wasm) > MaxSize:
		return fmt.Errorf("too large: %d bytes, the limit is %d", len(wasm), MaxSize)
	case len(wasm) == 0:
		return ErrEmpty
	case !bytes.HasPrefix(wasm, magic):
		return ErrNotWasm
	case len(wasm) < 8:
		return errTruncated
	case bytes.Equal(wasm[4:8], componentLike):
		return ErrComponent
	case !bytes.Equal(wasm[4:8], coreVersion):
		return fmt.Errorf("binary format version %d is not known: build for version 1", wasm[4])
	}
	return nil
}

func nextSection(r *reader) (section, error) {
	at := r.pos
	id := sectionID(r.byte())
	if int(id) >= len(sectionNames) {
		return section{}, fmt.Errorf("malformed: unknown section %d at byte %d", id, at)
	}
	size := r.u32()
	if r.err == nil && uint64(size) > uint64(r.left()) {
		return section{}, fmt.Errorf("%w in section %s, which has %d bytes: %d are left", errTruncated, sectionNames[id], size, r.left())
	}
	return section{id: id, body: r.bytes(size)}, r.err
}

// read takes one section in. Every reader must use its section up exactly.
func (m *Module) read(s section) error {
	r := &reader{data: s.body}
	switch s.id {
	case customSection:
		return m.readCustom(r)
	case typeSection:
		m.readTypes(r)
	case importSection:
		m.readImports(r)
	case functionSection:
		m.readFunctions(r)
	case tableSection:
		m.readTables(r)
	case memorySection:
		m.readMemories(r)
	case globalSection:
		m.readGlobals(r)
	case exportSection:
		m.readExports(r)
	case startSection:
		m.Start, m.StartFunction = true, r.u32()
		m.checkFunction(r, m.StartFunction)
	case elementSection:
		m.readElements(r)
	case codeSection:
		m.readCode(r)
	case dataSection:
		m.readData(r)
	case dataCountSection:
		r.u32()
	}
	if r.err == nil && r.left() > 0 {
		return fmt.Errorf("malformed: %d bytes are left over", r.left())
	}
	return r.err
}

func (m *Module) readCustom(r *reader) error {
	name := r.name()
	if len(m.Custom) == maxCustom {
		r.failf("too large: more than %d custom sections", maxCustom)
	}
	if len(name) <= maxNameLength {
		m.Custom = append(m.Custom, name)
	}
	if name == nameSection {
		checkNames(r)
	}
	return r.err
}

func (m *Module) readTypes(r *reader) {
	n := r.count("types", 3, maxTypes)
	m.types = make([]FuncType, 0, n)
	for range n {
		if form := r.byte(); r.err == nil && form != 0x60 {
			r.failf("malformed: type %#x is not a function", form)
		}
		m.types = append(m.types, FuncType{Params: readValueTypes(r), Results: readValueTypes(r)})
	}
}

func readValueTypes(r *reader) string {
	n := r.count("parameters or results", 1, maxParams)
	types := r.bytes(uint32(n))
	for _, t := range types {
		checkValueType(r, ValueType(t))
	}
	return string(types)
}

func checkValueType(r *reader, t ValueType) {
	if r.err == nil && t.String() == "unknown" {
		r.failf("malformed: value type %#x is not in WebAssembly 2.0", byte(t))
	}
}

func (m *Module) typeAt(r *reader, index uint32) FuncType {
	if uint64(index) >= uint64(len(m.types)) {
		r.failf("malformed: there is no type %d", index)
		return FuncType{}
	}
	return m.types[index]
}

func (m *Module) readFunctions(r *reader) {
	for range r.count("functions", 1, MaxFunctions-len(m.Functions)) {
		m.Functions = append(m.Functions, m.typeAt(r, r.u32()))
	}
}

func (m *Module) readMemories(r *reader) {
	for range r.count("memories", 2, 1) {
		m.Memories = append(m.Memories, readLimits(r))
	}
}

func (m *Module) readTables(r *reader) {
	for range r.count("tables", 3, maxTables) {
		m.Tables = append(m.Tables, readTable(r))
	}
}

func readTable(r *reader) Table {
	t := Table{Type: ValueType(r.byte())}
	if r.err == nil && t.Type != FuncRef && t.Type != ExternRef {
		r.failf("malformed: tables of type %#x are not in WebAssembly 2.0", byte(t.Type))
	}
	t.Limits = readLimits(r)
	if t.Min > MaxTableSize {
		r.failf("too large: a table of %d elements, the limit is %d", t.Min, MaxTableSize)
	}
	return t
}

func readLimits(r *reader) (l Limits) {
	flags := r.byte()
	if r.err == nil && flags > 1 {
		r.failf("malformed: limits %#x (shared or 64-bit memory) are not in WebAssembly 2.0", flags)
	}
	l.Min = r.u32()
	if l.HasMax = flags == 1; l.HasMax {
		l.Max = r.u32()
	}
	return l
}

func readGlobalType(r *reader) Global {
	g := Global{Type: ValueType(r.byte())}
	checkValueType(r, g.Type)
	mutability := r.byte()
	if mutability > 1 {
		r.failf("malformed: mutability %d of a global", mutability)
	}
	g.Mutable = mutability == 1
	return g
}

func (m *Module) readGlobals(r *reader) {
	for range r.count("globals", 4, maxGlobals-len(m.Globals)) {
		g := readGlobalType(r)
		m.readExpression(r)
		m.Globals = append(m.Globals, g)
	}
}

// check looks at what only the whole module shows.
func (m *Module) check() error {
	if defined := len(m.Functions) - m.Imported; defined != len(m.Bodies) {
		return fmt.Errorf("malformed: %d bodies for %d functions", len(m.Bodies), defined)
	}
	for _, e := range m.Exports {
		if e.Kind == Function && uint64(e.Index) >= uint64(len(m.Functions)) {
			return fmt.Errorf("export %q: malformed: there is no function %d", e.Name, e.Index)
		}
		if e.Kind == GlobalKind && uint64(e.Index) >= uint64(len(m.Globals)) {
			return fmt.Errorf("export %q: malformed: there is no global %d", e.Name, e.Index)
		}
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
