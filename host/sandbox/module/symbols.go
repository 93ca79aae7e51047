package module

func (m *Module) readImports(r *reader) {
	for range r.count("imports", 4, maxImports) {
		in := Import{Module: symbol(r), Name: symbol(r), Kind: Kind(r.byte())}
		switch in.Kind {
		case Function:
			in.Type = m.typeAt(r, r.u32())
			m.Functions = append(m.Functions, in.Type)
			m.Imported++
		case TableKind:
			m.Tables = append(m.Tables, readTable(r))
			m.importedTables++
		case Memory:
			readLimits(r)
		case GlobalKind:
			m.Globals = append(m.Globals, readGlobalType(r))
		default:
			r.failf("malformed: import %q.%q of kind %d", in.Module, in.Name, in.Kind)
		}
		m.Imports = append(m.Imports, in)
	}
}

func (m *Module) readExports(r *reader) {
	for range r.count("exports", 3, maxExports) {
		e := Export{Name: symbol(r), Kind: Kind(r.byte()), Index: r.u32()}
		if e.Kind > GlobalKind {
			r.failf("malformed: export %q of kind %d", e.Name, e.Kind)
		}
		m.Exports = append(m.Exports, e)
	}
}

// symbol reads the name of an import or export, bounded, as it ends up in
// messages.
func symbol(r *reader) string {
	name := r.name()
	if len(name) > maxNameLength {
		r.failf("too large: a name of %d bytes, the limit is %d", len(name), maxNameLength)
		return ""
	}
	return name
}

// Flags of an element segment: bit 0 passive or declarative, bit 1 an
// explicit table or declarative, bit 2 expressions instead of indices.
const (
	elementPassive     = 1
	elementExplicit    = 2
	elementExpressions = 4
)

func (m *Module) readElements(r *reader) {
	for range r.count("element segments", 2, maxSegments) {
		flags := r.u32()
		if flags > 7 {
			r.failf("malformed: element segment flags %d", flags)
		}
		if flags&elementPassive == 0 {
			if flags&elementExplicit != 0 {
				r.u32()
			}
			m.readExpression(r)
		}
		if flags&(elementPassive|elementExplicit) != 0 {
			checkElementType(r, flags)
		}
		n := m.readSegment(r, flags&elementExpressions != 0)
		m.Elements = append(m.Elements, uint32(n))
	}
}

// checkElementType reads the kind of elements, which is zero for functions,
// or their type.
func checkElementType(r *reader, flags uint32) {
	t := ValueType(r.byte())
	if flags&elementExpressions == 0 && t != 0 || flags&elementExpressions != 0 && t != FuncRef && t != ExternRef {
		r.failf("malformed: elements of type %#x are not in WebAssembly 2.0", byte(t))
	}
}

func (m *Module) readSegment(r *reader, expressions bool) int {
	n := r.count("elements", 1, maxElements-m.elements)
	m.elements += n
	for range n {
		if expressions {
			m.readExpression(r)
		} else {
			index := r.u32()
			m.checkFunction(r, index)
			m.escape(index)
		}
	}
	return n
}

func (m *Module) readData(r *reader) {
	for range r.count("data segments", 2, maxSegments) {
		switch mode := r.u32(); mode {
		case 0:
			m.readExpression(r)
		case 1: // passive
		case 2:
			r.u32()
			m.readExpression(r)
		default:
			r.failf("malformed: data segment mode %d", mode)
		}
		m.Data = append(m.Data, uint32(len(r.bytes(r.u32()))))
	}
}
