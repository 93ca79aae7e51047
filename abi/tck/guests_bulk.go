package tck

// hugePages is the memory of guests that move much of it at once: 16 MiB.
const hugePages = 256

const hugeBytes = hugePages << 16

// bulkCases move megabytes by single instructions. Those without a loop are
// one instruction after the other.
func bulkCases() []Case {
	const many = 500
	fill := join(I32Const(0), I32Const(7), I32Const(hugeBytes), MemoryFill)
	up := join(I32Const(1), I32Const(0), I32Const(hugeBytes-1), MemoryCopy)
	down := join(I32Const(0), I32Const(1), I32Const(hugeBytes-1), MemoryCopy)
	return []Case{
		spins("fill-loop", "fills all of its memory in a loop", func(g *guest) []byte {
			return join(g.grown(), Loop, fill, Branch(0), End, I32Const(0))
		}),
		spins("fill-straight", "fills all of its memory five hundred times, without a loop",
			func(g *guest) []byte { return join(g.grown(), repeated(many, fill), I32Const(0)) }),
		spins("copy-straight", "moves all of its memory by a byte and back, without a loop",
			func(g *guest) []byte { return join(g.grown(), repeated(many/2, join(up, down)), I32Const(0)) }),
		spins("fill-tree", "fills all of its memory in each leaf of a call tree", func(g *guest) []byte {
			f := g.Func(noTypes, noTypes, nil, fill)
			for range 20 {
				f = g.Func(noTypes, noTypes, nil, Call(f), Call(f))
			}
			return join(g.grown(), Call(f), I32Const(0))
		}),
		spins("init-loop", "copies a segment into memory in a loop", func(g *guest) []byte {
			segment := g.Passive(make([]byte, 32<<10))
			return join(Loop, I32Const(scratch), I32Const(0), I32Const(32<<10), MemoryInit(segment), Branch(0), End, I32Const(0))
		}),
		spins("table-fill-straight", "fills a table of a hundred thousand twenty thousand times", func(g *guest) []byte {
			g.Table(100_000)
			fill := g.Func(nil, nil, nil, repeated(1_000, join(I32Const(0), NullFunc, I32Const(100_000), TableFill())))
			return join(repeated(20, Call(fill)), I32Const(0))
		}),
		spins("grow-nothing", "asks for no memory in a loop", func(*guest) []byte {
			return join(Loop, I32Const(0), MemoryGrow, Drop, Branch(0), End, I32Const(0))
		}),
		spins("grow-refused", "goes on asking for memory that it does not get", func(g *guest) []byte {
			return join(g.grown(), Loop, I32Const(1), MemoryGrow, Drop, Branch(0), End, I32Const(0))
		}),
		spins("table-grow-refused", "goes on asking for a larger table", func(g *guest) []byte {
			g.TableUpTo(0, 10_000)
			return join(Loop, NullFunc, I32Const(1_000), TableGrow(), Drop, Branch(0), End, I32Const(0))
		}),
	}
}

// grown gives the guest hugePages of memory, or traps.
func (g *guest) grown() []byte {
	return join(
		I32Const(hugePages), MemorySize, I32Sub, MemoryGrow, I32Const(-1), I32Eq, If, Unreachable, End,
	)
}
