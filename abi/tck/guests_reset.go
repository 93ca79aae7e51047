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
		resets("reset-all-memory", "fills all that it does not need of its memory", resetAllMemory),
		resets("reset-wide-globals", "leaves numbers of 64 bits in globals", resetWideGlobals),
		resets("reset-initialized", "overwrites what _initialize left for every call", resetInitialized),
		resets("reset-false-arena", "says that it has used no memory, by the export that hosts once asked", resetFalseArena),
		resets("reset-trapping-arena", "traps if it is asked how much memory it has used", resetTrappingArena),
	}
}

func resets(name, explain string, body func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageOK, Calls: 4, Explain: explain, Output: always(success()),
		Wasm: func() []byte {
			g := newGuest(name)
			return g.finish([]Type{I32, I32}, body(g))
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

// resetAllMemory looks at one word in each page of 4 KiB.
func resetAllMemory(g *guest) []byte {
	const at, found, step, end = 1, 2, 4 << 10, pages << 16
	look := join(
		I32Const(scratch), LocalSet(at), Loop,
		LocalGet(found), LocalGet(at), I32Load, I32Add, LocalSet(found),
		LocalGet(at), I32Const(step), I32Add, LocalTee(at), I32Const(end), I32Ne, BranchIf(0), End,
	)
	return join(
		look, g.freshOrLeaked(LocalGet(found)),
		I32Const(scratch), I32Const(0x55), I32Const(end-scratch), MemoryFill,
		I32Const(0),
	)
}

func resetWideGlobals(g *guest) []byte {
	f64 := func(v byte) []byte { return []byte{0x44, 0, 0, 0, 0, 0, 0, v, 0x40} }
	f64Ne := []byte{0x62}
	whole, real := g.GlobalOf(I64, I64Const(-5)), g.GlobalOf(F64, f64(1))
	return join(
		g.freshOrLeaked(
			GlobalGet(whole), I64Const(-5), I64Ne,
			GlobalGet(real), f64(1), f64Ne, I32Add,
		),
		I64Const(1<<40), GlobalSet(whole), f64(2), GlobalSet(real),
		I32Const(0),
	)
}

// resetInitialized has memory and a global of which every call must find what
// _initialize wrote.
func resetInitialized(g *guest) []byte {
	global := g.Global(0)
	g.export(abi.ExportInitialize, g.Func(noTypes, noTypes, nil,
		I32Const(scratch), I32Const(5), I32Store, I32Const(5), GlobalSet(global)))
	return join(
		g.freshOrLeaked(
			I32Const(scratch), I32Load, I32Const(5), I32Ne,
			GlobalGet(global), I32Const(5), I32Ne, I32Add,
		),
		I32Const(scratch), I32Const(0), I32Store, I32Const(6), GlobalSet(global),
		I32Const(0),
	)
}

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

// resetFalseArena answers how much memory it has used, as hosts once asked:
// what a guest says of itself is no reason to restore less.
func resetFalseArena(g *guest) []byte {
	g.export("arena_top", g.Func(noTypes, i32Only, nil, I32Const(0)))
	return g.countAt(scratch)
}

func resetTrappingArena(g *guest) []byte {
	g.export("arena_top", g.Func(noTypes, i32Only, nil, Unreachable))
	return g.countAt(scratch)
}
