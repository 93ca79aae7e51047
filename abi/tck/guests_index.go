package tck

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
)

// This file has guests that use indices and names that they do not have. A host
// that adds functions, globals or types of its own to a module must not let the
// guest reach them by their numbers or names.

func indexCases() []Case {
	out := []Case{
		refusedBefore("reserved-export", "exports a name that is reserved for the host", func(g *guest) []byte {
			g.Export(reservedName, g.Func(noTypes, noTypes, nil))
			return g.finish(nil, g.ok())
		}, reservedName),
		refusedBefore("same-export-twice", "exports two functions as reconcile", func(g *guest) []byte {
			g.Export(abi.ExportReconcile, g.Func(i32Only, i32Only, nil, infiniteLoop(g)))
			return g.finish(nil, g.ok())
		}),
		failing("reconcile-is-imported", abi.ClassABI, "exports a function of the host as reconcile", func(g *guest) []byte {
			g.export(abi.ExportReconcile, g.Import(wasi, "fd_close", i32Only, i32Only))
			return g.finishWithoutReconcile()
		}),
		fails("null-in-table", abi.ClassPanic, "calls a null reference in its table, by a type that a function of the host may have", func(g *guest) []byte {
			g.Table(10)
			return join(I32Const(9), CallIndirect(g.Type(noTypes, noTypes)), g.ok())
		}),
		fails("wrong-type-in-table", abi.ClassPanic, "calls a function in its table by another type", func(g *guest) []byte {
			g.Table(1)
			g.Elements(0, g.output)
			return join(I32Const(0), g.CallIndirect())
		}),
		succeeds("every-index", "reaches functions, globals and types by every kind of index", 3, success(), everyIndex),
	}
	for _, b := range beyondCases() {
		for offset := range uint32(3) {
			out = append(out, b.reaching(offset))
		}
	}
	return out
}

// reservedName begins as all names do that a host may add to a module.
const reservedName = "thole.fuel"

// beyondCase uses the index that is offset further than the first one that the
// module does not have.
type beyondCase struct {
	name, explain string
	use           func(g *guest, offset uint32) (body []byte)
}

func (b beyondCase) reaching(offset uint32) Case {
	name := fmt.Sprintf("%s-beyond-%d", b.name, offset)
	return refusedBefore(name, b.explain+" that the module does not have", func(g *guest) []byte {
		g.addRequired() // so that the indices are known
		g.Type(i32Only, i32Only)
		g.Global(0)
		g.Table(4)
		body := b.use(g, offset)
		g.Export(abi.ExportReconcile, g.Func(i32Only, i32Only, nil, body, I32Const(0)))
		return g.Bytes()
	})
}

func beyondCases() []beyondCase {
	// reconcile is the last function, and is added after the case's use.
	function := func(g *guest, offset uint32) Func { return g.next() + 1 + Func(offset) }
	global := func(g *guest, offset uint32) uint32 { return g.count(wasm.GlobalSection) + offset }
	typ := func(g *guest, offset uint32) uint32 { return uint32(len(g.types)) + offset }
	return []beyondCase{
		{"global-get", "reads a global", func(g *guest, n uint32) []byte { return join(GlobalGet(global(g, n)), Drop) }},
		{"global-set", "writes a global", func(g *guest, n uint32) []byte { return join(I32Const(-1), GlobalSet(global(g, n))) }},
		{"global-set-wide", "writes an i64 into a global", func(g *guest, n uint32) []byte { return join(I64Const(1<<62), GlobalSet(global(g, n))) }},
		{"global-export", "exports a global", func(g *guest, n uint32) []byte { g.ExportGlobal("more", global(g, n)); return nil }},
		{"global-init", "starts a global with the value of one", func(g *guest, n uint32) []byte { g.GlobalOf(i32, GlobalGet(global(g, n)+1)); return nil }},
		{"call", "calls a function", func(g *guest, n uint32) []byte { return Call(function(g, n)) }},
		{"ref-func", "takes a reference to a function", func(g *guest, n uint32) []byte {
			return join(I32Const(0), RefFunc(function(g, n)), TableSet)
		}},
		{"ref-func-global", "keeps a reference to a function", func(g *guest, n uint32) []byte { g.GlobalOf(wasm.FuncRef, RefFunc(function(g, n))); return nil }},
		{"function-export", "exports a function", func(g *guest, n uint32) []byte { g.Export("more", function(g, n)); return nil }},
		{"element", "places a function in its table", func(g *guest, n uint32) []byte { g.Elements(0, function(g, n)); return nil }},
		{"element-expression", "places a function in its table by an expression", func(g *guest, n uint32) []byte { g.Expressions(0, RefFunc(function(g, n))); return nil }},
		{"element-declared", "declares a reference to a function", func(g *guest, n uint32) []byte { g.Declare(function(g, n)); return nil }},
		{"start", "starts with a function", func(g *guest, n uint32) []byte { g.Start(function(g, n)); return nil }},
		{"call-indirect-type", "calls through its table by a type", func(g *guest, n uint32) []byte { return join(I32Const(0), CallIndirect(typ(g, n))) }},
		{"block-type", "opens a loop of a type", func(g *guest, n uint32) []byte { return join(LoopOf(typ(g, n)), End) }},
		{"function-type", "has a function of a type", func(g *guest, n uint32) []byte { g.FuncOf(typ(g, n)); return nil }},
		{"table", "calls through a table", func(g *guest, n uint32) []byte {
			return join(I32Const(0), op(wasm.OpCallIndirect, g.Type(noTypes, i32Only), 1+n), Drop)
		}},
		{"memory-segment", "copies from a segment", func(_ *guest, n uint32) []byte {
			return join(I32Const(0), I32Const(0), I32Const(0), MemoryInit(100+n))
		}},
		{"local", "reads a local", func(_ *guest, n uint32) []byte { return join(LocalGet(1+n), Drop) }},
		{"label", "jumps to a block", func(_ *guest, n uint32) []byte { return Branch(1 + n) }},
	}
}

// everyIndex traps unless each index still means what it meant in the module: a
// host may rewrite a module, but not change what it does.
func everyIndex(g *guest) []byte {
	log := g.log()
	constant := func(v int32) Func { return g.Func(noTypes, i32Only, nil, I32Const(v)) }
	first, second, third, fourth := constant(11), constant(22), constant(33), constant(44)
	started, other := g.Global(0), g.Global(5)
	reference := g.GlobalOf(wasm.FuncRef, RefFunc(fourth))
	g.Start(g.Func(noTypes, noTypes, nil, I32Const(99), GlobalSet(started)))
	g.Table(8)
	g.Elements(0, first, second)
	g.Expressions(2, RefFunc(third), NullFunc)
	g.Declare(second)
	g.Elements(4, g.output, log)
	g.Export("other_name", third)
	g.ExportGlobal("other_global", other)
	logType, outputType := g.Type(levelPtrLen, noTypes), g.Type(ptrLen, noTypes)
	empty := join(I32Const(0), I32Const(0))
	return g.finish(nil,
		trapIf(GlobalGet(started), I32Const(99), I32Ne),
		trapIf(GlobalGet(other), I32Const(5), I32Ne),
		g.expectElement(0, 11), g.expectElement(1, 22), g.expectElement(2, 33),
		I32Const(6), GlobalGet(reference), TableSet, g.expectElement(6, 44),
		I32Const(7), RefFunc(second), TableSet, g.expectElement(7, 22),
		trapIf(Call(first), I32Const(11), I32Ne),
		I32Const(abi.LogInfo), empty, I32Const(5), CallIndirect(logType),
		empty, I32Const(4), CallIndirect(outputType),
		LoopOf(g.Type(noTypes, i32Only)), I32Const(1), End, Drop,
		g.ok(),
	)
}

// expectElement traps unless the function at that index of the table returns
// want.
func (g *guest) expectElement(index, want int32) []byte {
	return trapIf(I32Const(index), g.CallIndirect(), I32Const(want), I32Ne)
}
