package tck

// stateCases leave something behind that is neither in memory nor in a global
// that holds a number.
func stateCases() []Case {
	return []Case{
		resets("reset-vector-global", "leaves a v128 in a global", resetVectorGlobal),
		resets("reset-reference-global", "leaves a reference in a global", resetReferenceGlobal),
		resets("reset-table", "replaces a function in its table", resetTable),
		resets("reset-table-grown", "grows its table", resetTableGrown),
		resets("reset-table-filled", "fills its table", resetTableFilled),
		resets("reset-table-copied", "copies one function of its table over another", resetTableCopied),
		resets("reset-table-init", "copies a segment into its table", resetTableInit),
		resets("reset-dropped-segment", "drops a data segment that it needs in every call", resetSegment),
		resets("reset-dropped-elements", "drops an element segment that it needs in every call", resetElements),
	}
}

const (
	refNull   = 0xd0
	refIsNull = 0xd1
)

func resetVectorGlobal(g *guest) []byte {
	zero := join([]byte{0xfd, 12}, make([]byte, 16))
	one := join([]byte{0xfd, 12, 1}, make([]byte, 15))
	anyTrue := []byte{0xfd, 0x53}
	global := g.GlobalOf(V128, zero)
	return join(
		g.freshOrLeaked(GlobalGet(global), anyTrue),
		one, GlobalSet(global),
		I32Const(0),
	)
}

func resetReferenceGlobal(g *guest) []byte {
	f := g.Func(noTypes, i32Only, nil, I32Const(0))
	g.Declare(f)
	global := g.GlobalOf(FuncRef, []byte{refNull, byte(FuncRef)})
	return join(
		g.freshOrLeaked(GlobalGet(global), []byte{refIsNull}, I32Eqz),
		RefFunc(f), GlobalSet(global),
		I32Const(0),
	)
}

// twoFunctions puts one that answers 0 and one that answers 1 into a table.
func (g *guest) twoFunctions() (zero, one Func) {
	zero = g.Func(noTypes, i32Only, nil, I32Const(0))
	one = g.Func(noTypes, i32Only, nil, I32Const(1))
	g.TableUpTo(2, 100)
	g.Elements(0, zero, one)
	return zero, one
}

// changesTable calls the table's first function, which answers 0, and then
// runs instructions after which it would answer 1.
func (g *guest) changesTable(instructions ...[]byte) []byte {
	return join(
		g.freshOrLeaked(I32Const(0), g.CallIndirect()),
		join(instructions...),
		I32Const(0),
	)
}

func resetTable(g *guest) []byte {
	_, one := g.twoFunctions()
	return g.changesTable(I32Const(0), RefFunc(one), TableSet())
}

func resetTableFilled(g *guest) []byte {
	_, one := g.twoFunctions()
	return g.changesTable(I32Const(0), RefFunc(one), I32Const(2), TableFill())
}

func resetTableCopied(g *guest) []byte {
	g.twoFunctions()
	tableCopy := []byte{0xfc, 14, 0, 0} // to, from, length
	return g.changesTable(I32Const(0), I32Const(1), I32Const(1), tableCopy)
}

func resetTableInit(g *guest) []byte {
	_, one := g.twoFunctions()
	return g.changesTable(I32Const(0), I32Const(0), I32Const(1), tableInit(g.PassiveElements(one)))
}

func resetTableGrown(g *guest) []byte {
	_, one := g.twoFunctions()
	tableSize := []byte{0xfc, 16, 0}
	return join(
		g.freshOrLeaked(tableSize, I32Const(2), I32Ne),
		RefFunc(one), I32Const(1), TableGrow(), Drop,
		I32Const(0),
	)
}

// resetSegment copies from its segment and drops it: a second call on the
// same instance traps.
func resetSegment(g *guest) []byte {
	segment := g.Passive([]byte("needed"))
	return join(
		I32Const(scratch), I32Const(0), I32Const(6), MemoryInit(segment),
		DataDrop(segment),
		g.ok(),
	)
}

// resetElements is resetSegment for a table.
func resetElements(g *guest) []byte {
	zero, _ := g.twoFunctions()
	segment := g.PassiveElements(zero)
	elemDrop := join([]byte{0xfc, 13}, leb(segment))
	return join(
		I32Const(1), I32Const(0), I32Const(1), tableInit(segment),
		elemDrop,
		g.ok(),
	)
}

// tableInit copies from an element segment into table 0: to, from, length.
func tableInit(segment uint32) []byte { return join([]byte{0xfc, 12}, leb(segment), []byte{0}) }

// PassiveElements adds a segment for table.init and returns its index.
func (m *Module) PassiveElements(funcs ...Func) uint32 {
	entry := append([]byte{1, 0}, leb(uint32(len(funcs)))...)
	for _, f := range funcs {
		entry = append(entry, leb(uint32(f))...)
	}
	m.elems = append(m.elems, entry)
	return uint32(len(m.elems) - 1)
}
