package tck

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// stopped is the deadline of guests that nothing else ends.
const stopped = 50 * time.Millisecond

// spins is a case that runs until its deadline.
func spins(name, explain string, body func(*guest) []byte) Case {
	c := fails(name, abi.ClassTimeout, explain, body)
	c.Limits = Limits{Deadline: stopped, MemoryBytes: hugePages << 16}
	return c
}

// loopCases jump backwards without end, in every way that code can.
func loopCases() []Case {
	return []Case{
		spins("loop-branch-if", "loops by br_if", func(*guest) []byte {
			return join(Loop, I32Const(1), BranchIf(0), End, I32Const(0))
		}),
		spins("loop-branch-table", "loops by br_table, by its default", func(*guest) []byte {
			return join(Block, Loop, I32Const(9), BranchTable(1, 1, 0), End, End, I32Const(0))
		}),
		spins("loop-of-values", "loops by a br that carries values", loopOfValues),
		spins("loop-from-inside", "loops from eight blocks further inside", func(*guest) []byte {
			return join(Loop, repeated(8, Block), Branch(8), repeated(8, End), End, I32Const(0))
		}),
		spins("loop-nest", "loops twice in each of sixty nested loops", loopNest),
		spins("loop-heavy", "loops over twenty thousand instructions without a jump",
			func(g *guest) []byte { return join(Loop, g.work(20_000), Branch(0), End, I32Const(0)) }),
		spins("loop-of-calls", "loops over calls of functions without a loop", func(g *guest) []byte {
			leaf := g.Func(noTypes, noTypes, nil, g.work(5_000))
			return join(Loop, repeated(100, Call(leaf)), Branch(0), End, I32Const(0))
		}),
	}
}

// work is about that many instructions that no compiler can leave out.
func (g *guest) work(instructions int) []byte {
	counter := g.Global(0)
	return repeated(instructions/4, join(GlobalGet(counter), I32Const(1), I32Add, GlobalSet(counter)))
}

func loopOfValues(g *guest) []byte {
	index := g.Type([]Type{I32, I64}, i32Only)
	return join(
		I32Const(0), I64Const(0), LoopOf(index),
		Drop, I32Const(1), I32Add, I64Const(7), Branch(0),
		End,
	)
}

// loopNest has one counter for each loop: only all headers together tell how
// long it runs.
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

// callTreeCases run for years without a loop: what calls twice doubles.
func callTreeCases() []Case {
	return []Case{
		spins("recursion-exponential", "calls itself twice, to a depth of 60", func(g *guest) []byte {
			self := g.nextFunc()
			g.Func(i32Only, i32Only, nil, twiceUnlessZero(Call(self)))
			return join(I32Const(60), Call(self))
		}),
		spins("recursion-exponential-table", "calls itself twice through a table", func(g *guest) []byte {
			self := g.nextFunc()
			throughTable := join(I32Const(0), CallIndirect(g.Type(i32Only, i32Only)))
			g.Func(i32Only, i32Only, nil, twiceUnlessZero(throughTable))
			g.Table(1)
			g.Elements(0, self)
			return join(I32Const(60), Call(self))
		}),
		spins("recursion-exponential-mutual", "three functions call each other twice", mutual),
		spins("recursion-escaped-reference", "puts itself into a table at run time, by ref.func", func(g *guest) []byte {
			self := g.nextFunc()
			g.Declare(self)
			return g.recursesThroughTable(RefFunc(self))
		}),
		spins("recursion-escaped-global", "puts itself into a table at run time, from a global", func(g *guest) []byte {
			reference := g.GlobalOf(FuncRef, RefFunc(g.nextFunc()))
			return g.recursesThroughTable(GlobalGet(reference))
		}),
		spins("call-tree", "sixty functions without a loop or recursion, each calling the next twice",
			func(g *guest) []byte { return Call(g.callTree(func(next Func) []byte { return Call(next) })) }),
		spins("call-tree-table", "the same through a table", func(g *guest) []byte {
			return Call(g.callTree(g.throughTable(func(slot int32) []byte { return I32Const(slot) })))
		}),
		spins("call-tree-table-computed", "the same, by indices from memory", func(g *guest) []byte {
			return Call(g.callTree(g.throughTable(func(slot int32) []byte {
				g.Data(scratch+4*slot, []byte{byte(slot), 0, 0, 0})
				return join(I32Const(scratch+4*slot), I32Load)
			})))
		}),
		spins("call-fan", "a thousand calls of a function with a thousand calls of one with a thousand instructions", func(g *guest) []byte {
			leaf := g.Func(noTypes, noTypes, nil, g.work(1_000))
			middle := g.Func(noTypes, noTypes, nil, repeated(1_000, Call(leaf)))
			return join(repeated(1_000, Call(middle)), I32Const(0))
		}),
	}
}

// nextFunc is the function that is added next.
func (g *guest) nextFunc() Func { return Func(len(g.imports) + len(g.funcs)) }

// twiceUnlessZero makes a call twice with its parameter less one.
func twiceUnlessZero(call []byte) []byte {
	less := join(LocalGet(0), I32Const(1), I32Sub, call)
	return join(LocalGet(0), I32Eqz, If, I32Const(1), Return, End, less, less, I32Add)
}

func mutual(g *guest) []byte {
	first := g.nextFunc()
	for i := range Func(3) {
		g.Func(i32Only, i32Only, nil, twiceUnlessZero(Call(first+(i+1)%3)))
	}
	return join(I32Const(60), Call(first))
}

// recursesThroughTable adds a function that calls table 0 twice, and puts the
// reference, which is to it, there first.
func (g *guest) recursesThroughTable(reference []byte) []byte {
	g.Table(1)
	typ := g.Type(i32Only, i32Only)
	self := g.Func(i32Only, i32Only, nil, twiceUnlessZero(join(I32Const(0), CallIndirect(typ))))
	return join(I32Const(0), reference, TableSet(), I32Const(60), Call(self))
}

const treeDepth = 60

// callTree adds the functions, the last one first, and answers the first.
func (g *guest) callTree(call func(next Func) []byte) Func {
	f := g.Func(noTypes, i32Only, nil, I32Const(1))
	for range treeDepth - 1 {
		twice := join(call(f), call(f), I32Add)
		f = g.Func(noTypes, i32Only, nil, twice)
	}
	return f
}

// throughTable calls functions by their place in a table.
func (g *guest) throughTable(index func(slot int32) []byte) func(Func) []byte {
	first := g.nextFunc()
	slots := make([]Func, treeDepth)
	for i := range slots {
		slots[i] = first + Func(i)
	}
	g.Table(treeDepth)
	g.Elements(0, slots...)
	return func(next Func) []byte { return join(index(int32(next-first)), g.CallIndirect()) }
}
