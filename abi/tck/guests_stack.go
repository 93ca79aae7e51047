package tck

import (
	"strings"

	"github.com/thole-dev/thole/abi"
)

// This file has guests that exhaust stacks and memory.

func stackCases() []Case {
	return []Case{
		fails("deep-recursion-frames", abi.ClassStackOverflow, "calls itself without end with two thousand values in each frame", func(g *guest) []byte {
			self := g.next()
			return Call(g.Func(noTypes, i32Only, nil, repeated(2_000, I32Const(1)), Call(self), repeated(2_000, I32Add)))
		}),
		fails("deep-recursion-table", abi.ClassStackOverflow, "calls itself through a table without end", func(g *guest) []byte {
			self := g.next()
			g.Func(noTypes, i32Only, nil, I32Const(0), g.CallIndirect(), I32Const(1), I32Add)
			g.Table(1)
			g.Elements(0, self)
			return Call(self)
		}),
		fails("deep-trap", abi.ClassPanic, "traps ten thousand calls deep", func(g *guest) []byte {
			return join(I32Const(10_000), Call(g.nested(Unreachable, nil)), g.ok())
		}),
		failing("long-names", abi.ClassPanic, "traps forty calls deep in functions whose names have a hundred thousand bytes", longNames),
		timesOut("deep-recursion-tails", "nests five thousand calls in a loop, each with twenty thousand instructions after the call it makes", func(g *guest) []byte {
			return forever(I32Const(5_000), Call(g.nested(nil, g.work(20_000))))
		}),
		timesOut("deep-recursion-loop", "nests ten thousand calls in a loop", func(g *guest) []byte {
			return forever(I32Const(10_000), Call(g.nested(nil, nil)))
		}),
		timesOut("deep-recursion-bulk", "nests ten thousand calls, each of which fills all memory after the call it makes", func(g *guest) []byte {
			return join(g.growsToHuge(), I32Const(10_000), Call(g.nested(nil, fillsHuge())), g.ok())
		}),
	}
}

// nested adds a function that calls itself as often as its parameter is, with
// instructions for the innermost call and for after each call.
func (g *guest) nested(innermost, after []byte) Func {
	self := g.next()
	return g.Func(i32Only, noTypes, nil,
		LocalGet(0), I32Eqz, If, innermost, Return, End,
		LocalGet(0), I32Const(1), I32Sub, Call(self),
		after)
}

func longNames(g *guest) []byte {
	names := map[Func]string{}
	f := g.Func(noTypes, noTypes, nil, Unreachable)
	for i := range byte(40) {
		names[f] = string('a'+i%26) + strings.Repeat("n", 100_000)
		f = g.Func(noTypes, noTypes, nil, Call(f))
	}
	g.finish(nil, Call(f), g.ok())
	g.Names(names)
	return g.Bytes()
}

func memoryCases() []Case {
	return []Case{
		fails("memory-bomb-at-once", abi.ClassOutOfMemory, "asks for 4 GiB less two pages, then traps", func(*guest) []byte {
			return join(trapIfRefused(I32Const(1<<16-pages), MemoryGrow), I32Const(0))
		}),
		fails("memory-bomb-touched", abi.ClassOutOfMemory, "writes into every page that it gets", func(*guest) []byte {
			return forever(
				trapIfRefused(I32Const(1), MemoryGrow),
				MemorySize, I32Const(1), I32Sub, I32Const(16), I32Shl, I32Const(7), I32Const(1<<16), MemoryFill)
		}),
		fails("memory-bomb-doubling", abi.ClassOutOfMemory, "doubles its memory, as allocators do", func(*guest) []byte {
			return forever(trapIfRefused(MemorySize, MemoryGrow))
		}),
		fails("table-bomb", abi.ClassPanic, "grows its table until the host refuses, then traps", func(g *guest) []byte {
			g.TableUpTo(0, 10_000)
			return forever(trapIfRefused(NullFunc, I32Const(1_000), TableGrow))
		}),
	}
}
