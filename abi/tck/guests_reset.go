package tck

import "github.com/thole-dev/thole/abi"

// resetCases leave something behind in every call and answer [leaked] when
// they find it in the next one.
func resetCases() []Case {
	return []Case{
		resets("reset-global", "counts calls in a global that it does not export", resetGlobal),
		resets("reset-memory", "counts calls in memory", resetMemory),
		resets("reset-grown-memory", "grows its memory in every call", resetGrownMemory),
		resets("reset-high-memory", "counts calls in the last word of its memory", resetHighMemory),
		resets("reset-table", "replaces a function in its table", resetTable),
		resets("reset-dropped-segment", "drops a data segment that it needs in every call", resetSegment),
		resets("reset-false-arena", "claims that it allocated nothing, and did", resetFalseArena),
	}
}

func resets(name, explain string, body func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageOK, Calls: 4, Explain: explain, Output: always(success()),
		Wasm: func() []byte {
			g := newGuest(name)
			return g.finish(nil, body(g))
		},
	}
}

// freshOrLeaked answers success if the i32 that the instructions leave is
// zero, else that something leaked.
func (g *guest) freshOrLeaked(instructions ...[]byte) []byte {
	return join(join(instructions...), If, g.say(leaked()), Else, g.say(success()), End)
}

func resetGlobal(g *guest) []byte {
	calls := g.Global(0)
	return join(
		g.freshOrLeaked(GlobalGet(calls)),
		GlobalGet(calls), I32Const(1), I32Add, GlobalSet(calls),
		I32Const(0),
	)
}

func resetMemory(g *guest) []byte { return g.countAt(scratch) }

func resetHighMemory(g *guest) []byte { return g.countAt(pages<<16 - 4) }

// countAt counts calls in the word at an address.
func (g *guest) countAt(address int32) []byte {
	return join(
		g.freshOrLeaked(I32Const(address), I32Load),
		I32Const(address), I32Const(1), I32Store,
		I32Const(0),
	)
}

// resetGrownMemory counts calls in a global and in the first word of the
// page that it adds, which must be zero as new memory is.
func resetGrownMemory(g *guest) []byte {
	calls, page := g.Global(0), g.Global(0)
	return join(
		I32Const(1), MemoryGrow, I32Const(16), I32Shl, GlobalSet(page),
		g.freshOrLeaked(GlobalGet(calls), GlobalGet(page), I32Load, I32Add),
		I32Const(1), GlobalSet(calls),
		GlobalGet(page), I32Const(1), I32Store,
		I32Const(0),
	)
}

func resetTable(g *guest) []byte {
	first := g.Func(noTypes, i32Only, nil, I32Const(0))
	second := g.Func(noTypes, i32Only, nil, I32Const(1))
	g.Table(2)
	g.Elements(0, first, second)
	return join(
		g.freshOrLeaked(I32Const(0), g.CallIndirect()),
		I32Const(0), RefFunc(second), TableSet(),
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

func resetFalseArena(g *guest) []byte {
	g.export(abi.ExportArenaTop, g.Func(noTypes, i32Only, nil, I32Const(0)))
	return g.countAt(scratch)
}
