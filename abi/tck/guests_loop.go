package tck

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
)

// This file has guests that nothing but a limit ends: loops of every form, call
// trees without a loop, and single instructions that move megabytes.

// shortDeadline is the deadline of guests that only their deadline ends.
const shortDeadline = 50 * time.Millisecond

// timesOut is a case whose reconcile runs until its deadline.
func timesOut(name, explain string, body func(*guest) []byte) Case {
	c := fails(name, abi.ClassTimeout, explain, body)
	c.Limits = Limits{Deadline: shortDeadline, MemoryBytes: hugeBytes}
	return c
}

// loopCases jump backwards without end, by every kind of jump.
func loopCases() []Case {
	return []Case{
		timesOut("loop-branch-if", "loops by br_if", func(*guest) []byte {
			return join(Loop, I32Const(1), BranchIf(0), End, I32Const(0))
		}),
		timesOut("loop-branch-table", "loops by the default of a br_table", func(*guest) []byte {
			return join(Block, Loop, I32Const(9), BranchTable(1, 1, 0), End, End, I32Const(0))
		}),
		timesOut("loop-of-values", "loops by a br that carries values", func(g *guest) []byte {
			return join(
				I32Const(0), I64Const(0), LoopOf(g.Type(types{i32, i64}, i32Only)),
				Drop, I32Const(1), I32Add, I64Const(7), Branch(0),
				End,
			)
		}),
		timesOut("loop-from-inside", "loops by a br out of eight nested blocks", func(*guest) []byte {
			return join(Loop, repeated(8, Block), Branch(8), repeated(8, End), End, I32Const(0))
		}),
		timesOut("loop-nest", "loops twice in each of sixty nested loops", loopNest),
		timesOut("loop-heavy", "loops over twenty thousand instructions without a jump",
			func(g *guest) []byte { return forever(g.work(20_000)) }),
		timesOut("loop-of-calls", "loops over calls of functions without a loop", func(g *guest) []byte {
			leaf := g.Func(noTypes, noTypes, nil, g.work(5_000))
			return forever(repeated(100, Call(leaf)))
		}),
	}
}

// work is about that many instructions whose effect a compiler must keep.
func (g *guest) work(instructions int) []byte {
	counter := g.Global(0)
	return repeated(instructions/4, join(GlobalGet(counter), I32Const(1), I32Add, GlobalSet(counter)))
}

// loopNest has one counter for each loop: no single loop header runs often.
func loopNest(g *guest) []byte {
	const depth = 60
	var open, closing []byte
	for range depth {
		counter := g.Global(0)
		open = join(open, I32Const(2), GlobalSet(counter), Loop)
		closing = join(
			GlobalGet(counter), I32Const(1), I32Sub, GlobalSet(counter),
			GlobalGet(counter), BranchIf(0), End, closing,
		)
	}
	return join(open, closing, I32Const(0))
}

// callTreeCases run for years without a loop: every level calls the next one
// twice.
func callTreeCases() []Case {
	return []Case{
		timesOut("recursion-exponential", "calls itself twice, to a depth of 60", func(g *guest) []byte {
			self := g.next()
			g.Func(i32Only, i32Only, nil, twiceUnlessZero(Call(self)))
			return join(I32Const(60), Call(self))
		}),
		timesOut("recursion-exponential-table", "calls itself twice through a table", func(g *guest) []byte {
			self := g.next()
			throughTable := join(I32Const(0), CallIndirect(g.Type(i32Only, i32Only)))
			g.Func(i32Only, i32Only, nil, twiceUnlessZero(throughTable))
			g.Table(1)
			g.Elements(0, self)
			return join(I32Const(60), Call(self))
		}),
		timesOut("recursion-exponential-mutual", "three functions call each other twice", func(g *guest) []byte {
			first := g.next()
			for i := range Func(3) {
				g.Func(i32Only, i32Only, nil, twiceUnlessZero(Call(first+(i+1)%3)))
			}
			return join(I32Const(60), Call(first))
		}),
		timesOut("recursion-escaped-reference", "puts itself into a table at run time, by ref.func", func(g *guest) []byte {
			self := g.next()
			g.Declare(self)
			return g.recursesThroughTable(RefFunc(self))
		}),
		timesOut("recursion-escaped-global", "puts itself into a table at run time, from a global", func(g *guest) []byte {
			reference := g.GlobalOf(wasm.FuncRef, RefFunc(g.next()))
			return g.recursesThroughTable(GlobalGet(reference))
		}),
		timesOut("call-tree", "sixty functions without a loop or recursion, each of which calls the next one twice",
			func(g *guest) []byte { return Call(g.callTree(Call)) }),
		timesOut("call-tree-table", "the same through a table",
			func(g *guest) []byte { return Call(g.callTree(g.throughTable(I32Const))) }),
		timesOut("call-tree-table-computed", "the same, with indices that are read from memory", func(g *guest) []byte {
			return Call(g.callTree(g.throughTable(func(element int32) []byte {
				g.Data(scratch+4*element, []byte{byte(element), 0, 0, 0})
				return join(I32Const(scratch+4*element), I32Load)
			})))
		}),
		timesOut("call-fan", "a thousand calls of a function with a thousand calls of one with a thousand instructions", func(g *guest) []byte {
			leaf := g.Func(noTypes, noTypes, nil, g.work(1_000))
			middle := g.Func(noTypes, noTypes, nil, repeated(1_000, Call(leaf)))
			return join(repeated(1_000, Call(middle)), I32Const(0))
		}),
	}
}

// twiceUnlessZero makes a call twice, with its parameter less one, until that
// is zero.
func twiceUnlessZero(call []byte) []byte {
	less := join(LocalGet(0), I32Const(1), I32Sub, call)
	return join(LocalGet(0), I32Eqz, If, I32Const(1), Return, End, less, less, I32Add)
}

// recursesThroughTable adds a function that calls element 0 of the table twice,
// and puts the reference, which is to that function, there first.
func (g *guest) recursesThroughTable(reference []byte) []byte {
	g.Table(1)
	typ := g.Type(i32Only, i32Only)
	self := g.Func(i32Only, i32Only, nil, twiceUnlessZero(join(I32Const(0), CallIndirect(typ))))
	return join(I32Const(0), reference, TableSet, I32Const(60), Call(self))
}

const treeDepth = 60

// callTree adds the functions of a call tree, the leaf first, and returns the
// root.
func (g *guest) callTree(call func(next Func) []byte) Func {
	f := g.Func(noTypes, i32Only, nil, I32Const(1))
	for range treeDepth - 1 {
		twice := join(call(f), call(f), I32Add)
		f = g.Func(noTypes, i32Only, nil, twice)
	}
	return f
}

// throughTable puts the functions of a call tree, which are added next, into a
// table, and calls them by their index in it, which index pushes.
func (g *guest) throughTable(index func(element int32) []byte) func(Func) []byte {
	first := g.next()
	elements := make([]Func, treeDepth)
	for i := range elements {
		elements[i] = first + Func(i)
	}
	g.Table(treeDepth)
	g.Elements(0, elements...)
	return func(next Func) []byte { return join(index(int32(next-first)), g.CallIndirect()) }
}

// hugePages is the memory of guests that move much of it at once: 16 MiB.
const hugePages = 256

const hugeBytes = hugePages << 16

// bulkCases move megabytes by single instructions. Those without a loop are a
// sequence of such instructions.
func bulkCases() []Case {
	const many = 500
	up := join(I32Const(1), I32Const(0), I32Const(hugeBytes-1), MemoryCopy)
	down := join(I32Const(0), I32Const(1), I32Const(hugeBytes-1), MemoryCopy)
	return []Case{
		timesOut("fill-loop", "fills all of its memory in a loop", func(g *guest) []byte {
			return join(g.growsToHuge(), forever(fillsHuge()))
		}),
		timesOut("fill-straight", "fills all of its memory five hundred times, without a loop",
			func(g *guest) []byte { return join(g.growsToHuge(), repeated(many, fillsHuge()), I32Const(0)) }),
		timesOut("copy-straight", "moves all of its memory by a byte and back, without a loop",
			func(g *guest) []byte { return join(g.growsToHuge(), repeated(many/2, join(up, down)), I32Const(0)) }),
		timesOut("fill-tree", "fills all of its memory in each leaf of a call tree", func(g *guest) []byte {
			f := g.Func(noTypes, noTypes, nil, fillsHuge())
			for range 20 {
				f = g.Func(noTypes, noTypes, nil, Call(f), Call(f))
			}
			return join(g.growsToHuge(), Call(f), I32Const(0))
		}),
		timesOut("init-loop", "copies a segment into memory in a loop", func(g *guest) []byte {
			segment := g.Passive(make([]byte, 32<<10))
			return forever(I32Const(scratch), I32Const(0), I32Const(32<<10), MemoryInit(segment))
		}),
		timesOut("table-fill-straight", "fills a table of a hundred thousand elements twenty thousand times", func(g *guest) []byte {
			g.Table(100_000)
			fill := g.Func(nil, nil, nil, repeated(1_000, join(I32Const(0), NullFunc, I32Const(100_000), TableFill)))
			return join(repeated(20, Call(fill)), I32Const(0))
		}),
		timesOut("grow-nothing", "grows its memory by nothing in a loop", func(*guest) []byte {
			return forever(I32Const(0), MemoryGrow, Drop)
		}),
		timesOut("grow-refused", "keeps asking for memory beyond its limit", func(g *guest) []byte {
			return join(g.growsToHuge(), forever(I32Const(1), MemoryGrow, Drop))
		}),
		timesOut("table-grow-refused", "keeps asking for a larger table", func(g *guest) []byte {
			g.TableUpTo(0, 10_000)
			return forever(NullFunc, I32Const(1_000), TableGrow, Drop)
		}),
	}
}

// growsToHuge grows the memory to hugePages, or traps.
func (g *guest) growsToHuge() []byte {
	return trapIfRefused(I32Const(hugePages), MemorySize, I32Sub, MemoryGrow)
}

// fillsHuge fills all of that memory.
func fillsHuge() []byte { return join(I32Const(0), I32Const(7), I32Const(hugeBytes), MemoryFill) }
