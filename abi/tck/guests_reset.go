package tck

import (
	"encoding/binary"
	"math"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
)

// This file has guests that leave something behind in every call and report it
// if they find it in the next one: what a call leaves must not be visible to
// the next. Their result is [leaked] in that case, else [success].

// resetCases leave something in memory or in a global that holds a number.
func resetCases() []Case {
	return []Case{
		resetCase("reset-global", "counts calls in a global that it does not export", resetGlobal),
		resetCase("reset-memory", "counts calls in memory", func(g *guest) []byte { return g.countsAt(scratch) }),
		resetCase("reset-grown-memory", "grows its memory in every call", resetGrownMemory),
		resetCase("reset-high-memory", "counts calls in the last word of its memory",
			func(g *guest) []byte { return g.countsAt(pages<<16 - 4) }),
		resetCase("reset-all-memory", "fills all of its free memory", resetAllMemory),
		resetCase("reset-wide-globals", "leaves numbers of 64 bits in globals", resetWideGlobals),
		resetCase("reset-initialized", "overwrites what _initialize wrote for every call", resetInitialized),
		calledOften(resetCase("reset-memory-size", "grows its memory in every call, and looks at its size before", resetMemorySize)),
		calledOften(resetNamespaces()),
		resetCase("reset-arena-top", "claims to use no memory, by an export that hosts no longer call", func(g *guest) []byte {
			g.export(arenaTop, g.Func(noTypes, i32Only, nil, I32Const(0)))
			return g.countsAt(scratch)
		}),
		resetCase("reset-arena-top-traps", "traps if that export is called", func(g *guest) []byte {
			g.export(arenaTop, g.Func(noTypes, i32Only, nil, Unreachable))
			return g.countsAt(scratch)
		}),
	}
}

// calledOften is for hosts that change something after several calls.
func calledOften(c Case) Case {
	c.Calls = 20
	return c
}

// resetMemorySize expects the size that memory had in _initialize.
func resetMemorySize(g *guest) []byte {
	size := g.Global(0)
	g.export(abi.ExportInitialize, g.Func(noTypes, noTypes, nil, MemorySize, GlobalSet(size)))
	return join(
		g.reportsLeak(MemorySize, GlobalGet(size), I32Ne),
		I32Const(16), MemoryGrow, Drop,
	)
}

// resetNamespaces is a guest of which a host may keep the state from one call to the
// next in the same namespace.
func resetNamespaces() Case {
	c := resetCase("reset-namespaces", "has the mark of standard Go, and counts calls for objects in different namespaces in a global, in memory and by the size of that",
		func(g *guest) []byte {
			g.Custom(standardGo, nil)
			calls, size := g.Global(0), g.Global(0)
			g.export(abi.ExportInitialize, g.Func(noTypes, noTypes, nil, MemorySize, GlobalSet(size)))
			return join(
				g.reportsLeak(GlobalGet(calls), I32Const(scratch), I32Load, I32Add, MemorySize, GlobalGet(size), I32Sub, I32Add),
				I32Const(1), GlobalSet(calls),
				I32Const(scratch), I32Const(1), I32Store,
				I32Const(1), MemoryGrow, Drop,
			)
		})
	c.Namespaces = true
	return c
}

// standardGo is a section of every module that the standard Go linker writes.
const standardGo = "go:buildid"

// arenaTop was an export by which a guest stated how much memory it had used.
const arenaTop = "arena_top"

// stateCases leave something that is neither in memory nor in a global that
// holds a number.
func stateCases() []Case {
	return []Case{
		resetCase("reset-vector-global", "leaves a v128 in a global", resetVectorGlobal),
		resetCase("reset-reference-global", "leaves a reference in a global", resetReferenceGlobal),
		resetCase("reset-table", "replaces a function in its table", func(g *guest) []byte {
			_, one := g.twoFunctions()
			return g.changesTable(I32Const(0), RefFunc(one), TableSet)
		}),
		resetCase("reset-table-grown", "grows its table", resetTableGrown),
		resetCase("reset-table-filled", "fills its table", func(g *guest) []byte {
			_, one := g.twoFunctions()
			return g.changesTable(I32Const(0), RefFunc(one), I32Const(2), TableFill)
		}),
		resetCase("reset-table-copied", "copies one function of its table over another", func(g *guest) []byte {
			g.twoFunctions()
			return g.changesTable(I32Const(0), I32Const(1), I32Const(1), op(wasm.OpTableCopy, 0, 0))
		}),
		resetCase("reset-table-init", "copies a segment into its table", func(g *guest) []byte {
			_, one := g.twoFunctions()
			return g.changesTable(I32Const(0), I32Const(0), I32Const(1), TableInit(g.PassiveElements(one)))
		}),
		resetCase("reset-dropped-segment", "drops a data segment that every call needs", resetSegment),
		resetCase("reset-dropped-elements", "drops an element segment that every call needs", resetElements),
	}
}

// resetCase has a reconcile with two locals and the given body.
func resetCase(name, explain string, body func(*guest) []byte) Case {
	return succeeds(name, explain, 4, success(), func(g *guest) []byte {
		return g.finish(types{i32, i32}, body(g), I32Const(0))
	})
}

// reportsLeak writes the result: that of a leak if the instructions push an i32 that is
// not zero, else the other one.
func (g *guest) reportsLeak(instructions ...[]byte) []byte {
	return join(join(instructions...), If, g.writes(g.leaked), Else, g.writes(g.clean), End)
}

func resetGlobal(g *guest) []byte {
	calls := g.Global(0)
	return join(
		g.reportsLeak(GlobalGet(calls)),
		GlobalGet(calls), I32Const(1), I32Add, GlobalSet(calls),
	)
}

// countsAt expects zero in the word at an address, and changes it.
func (g *guest) countsAt(address int32) []byte {
	return join(
		g.reportsLeak(I32Const(address), I32Load),
		I32Const(address), I32Const(1), I32Store,
	)
}

// resetAllMemory reads one word in each page of 4 KiB.
func resetAllMemory(g *guest) []byte {
	const at, found, step, end = 1, 2, 4 << 10, pages << 16
	look := join(
		I32Const(scratch), LocalSet(at), Loop,
		LocalGet(found), LocalGet(at), I32Load, I32Add, LocalSet(found),
		LocalGet(at), I32Const(step), I32Add, LocalTee(at), I32Const(end), I32Ne, BranchIf(0), End,
	)
	return join(
		look, g.reportsLeak(LocalGet(found)),
		I32Const(scratch), I32Const(0x55), I32Const(end-scratch), MemoryFill,
	)
}

// resetGrownMemory counts calls in a global, and in the first word of the page
// that it adds, which must be zero as new memory is.
func resetGrownMemory(g *guest) []byte {
	calls, page := g.Global(0), g.Global(0)
	return join(
		I32Const(1), MemoryGrow, I32Const(16), I32Shl, GlobalSet(page),
		g.reportsLeak(GlobalGet(calls), GlobalGet(page), I32Load, I32Add),
		I32Const(1), GlobalSet(calls),
		GlobalGet(page), I32Const(1), I32Store,
	)
}

func resetWideGlobals(g *guest) []byte {
	f64Const := func(v float64) []byte {
		return binary.LittleEndian.AppendUint64(op(wasm.OpF64Const), math.Float64bits(v))
	}
	whole, float := g.GlobalOf(i64, I64Const(-5)), g.GlobalOf(wasm.F64, f64Const(1))
	return join(
		g.reportsLeak(
			GlobalGet(whole), I64Const(-5), I64Ne,
			GlobalGet(float), f64Const(1), op(wasm.OpF64Ne), I32Add,
		),
		I64Const(1<<40), GlobalSet(whole), f64Const(2), GlobalSet(float),
	)
}

// resetInitialized has memory and a global in which every call must find what
// _initialize wrote.
func resetInitialized(g *guest) []byte {
	global := g.Global(0)
	g.export(abi.ExportInitialize, g.Func(noTypes, noTypes, nil,
		I32Const(scratch), I32Const(5), I32Store, I32Const(5), GlobalSet(global)))
	return join(
		g.reportsLeak(
			I32Const(scratch), I32Load, I32Const(5), I32Ne,
			GlobalGet(global), I32Const(5), I32Ne, I32Add,
		),
		I32Const(scratch), I32Const(0), I32Store, I32Const(6), GlobalSet(global),
	)
}

func resetVectorGlobal(g *guest) []byte {
	v128Const := func(first byte) []byte { return join(op(wasm.OpV128Const), []byte{first}, make([]byte, 15)) }
	global := g.GlobalOf(wasm.V128, v128Const(0))
	return join(
		g.reportsLeak(GlobalGet(global), op(wasm.OpV128AnyTrue)),
		v128Const(1), GlobalSet(global),
	)
}

func resetReferenceGlobal(g *guest) []byte {
	f := g.Func(noTypes, i32Only, nil, I32Const(0))
	g.Declare(f)
	global := g.GlobalOf(wasm.FuncRef, NullFunc)
	return join(
		g.reportsLeak(GlobalGet(global), op(wasm.OpRefIsNull), I32Eqz),
		RefFunc(f), GlobalSet(global),
	)
}

// twoFunctions puts a function that returns 0 and one that returns 1 into a
// table.
func (g *guest) twoFunctions() (zero, one Func) {
	zero = g.Func(noTypes, i32Only, nil, I32Const(0))
	one = g.Func(noTypes, i32Only, nil, I32Const(1))
	g.TableUpTo(2, 100)
	g.Elements(0, zero, one)
	return zero, one
}

// changesTable calls the first function of the table, which must return 0, and
// then runs instructions after which it would return 1.
func (g *guest) changesTable(instructions ...[]byte) []byte {
	return join(g.reportsLeak(I32Const(0), g.CallIndirect()), join(instructions...))
}

func resetTableGrown(g *guest) []byte {
	_, one := g.twoFunctions()
	return join(
		g.reportsLeak(op(wasm.OpTableSize, 0), I32Const(2), I32Ne),
		RefFunc(one), I32Const(1), TableGrow, Drop,
	)
}

// resetSegment copies from its segment and drops it: a second call on the same
// instance traps.
func resetSegment(g *guest) []byte {
	segment := g.Passive([]byte("needed"))
	return join(
		I32Const(scratch), I32Const(0), I32Const(6), MemoryInit(segment),
		DataDrop(segment),
		g.writes(g.clean),
	)
}

// resetElements is resetSegment for a table.
func resetElements(g *guest) []byte {
	zero, _ := g.twoFunctions()
	segment := g.PassiveElements(zero)
	return join(
		I32Const(1), I32Const(0), I32Const(1), TableInit(segment),
		op(wasm.OpElemDrop, segment),
		g.writes(g.clean),
	)
}
