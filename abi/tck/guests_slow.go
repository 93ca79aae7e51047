package tck

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/wasm"
)

// This file has guests that keep a processor busy for long with few
// instructions: a host that counts instructions alone does not get to stop them
// for that long.

func slowCases() []Case {
	out := []Case{
		timesOut("cache-misses", "reads its memory in an order that no cache foresees, without end", func(g *guest) []byte {
			return join(g.growsToHuge(), forever(readsAnywhere()))
		}),
		timesOut("page-misses", "writes across the ends of pages in such an order, without end", func(g *guest) []byte {
			return join(g.growsToHuge(), forever(somewhere(hugeBytes/2-pageSize), I64Const(1), op(wasm.OpI64Store, 0, pageSize-4)))
		}),
		fails("first-touches", abi.ClassPanic, "writes to each page of a memory that has just grown, then traps", func(g *guest) []byte {
			return join(
				g.growsToHuge(), Loop,
				I32Const(scratch), I32Const(scratch), I32Load, I32Const(pageSize), I32Add, I32Store,
				I32Const(scratch), I32Load, I32Const(scratch), I32Load, I32Store,
				I32Const(scratch), I32Load, I32Const(hugeBytes-pageSize), I32LtU, BranchIf(0),
				End, Unreachable)
		}),
		timesOut("vectors-empty", "writes a thousand ranges of no bytes to stdout, without end", func(g *guest) []byte {
			write := g.fdWrite()
			return forever(I32Const(1), I32Const(scratch), I32Const(maxVectors), I32Const(constants), Call(write), Drop)
		}),
		timesOut("subscriptions", "waits for as many events as it may, without end", func(g *guest) []byte {
			poll := g.pollOneoff()
			return forever(I32Const(scratch), I32Const(scratch+8<<10), I32Const(64), I32Const(constants), Call(poll), Drop)
		}),
		timesOut("denormal-numbers", "divides numbers that are too small to be normal, without end", func(*guest) []byte {
			smallest := join(I64Const(3), op(0xbf)) // f64.reinterpret_i64
			return forever(smallest, smallest, op(0xa3), Drop)
		}),
		timesOut("pages-one-by-one", "asks for memory a page at a time, and begins anew once it is refused", func(g *guest) []byte {
			return forever(I32Const(1), MemoryGrow, I32Const(-1), I32Eq, If, End)
		}),
	}
	touches := slices.IndexFunc(out, func(c Case) bool { return c.Name == "first-touches" })
	out[touches].Limits.MemoryBytes = hugeBytes
	return append(out, succeedsSlowly())
}

// succeedsSlowly is a guest that a breaker of failing plugins does not stop.
func succeedsSlowly() Case {
	c := succeeds("cache-misses-ok", "reads its memory a hundred thousand times in an order that no cache foresees, and succeeds",
		2, success(), func(g *guest) []byte {
			return g.finish(types{i32}, g.growsToHuge(),
				Loop, readsAnywhere(), LocalGet(1), I32Const(1), I32Add, LocalTee(1), I32Const(100_000), I32LtU, BranchIf(0), End,
				g.ok())
		})
	c.Limits.MemoryBytes = hugeBytes
	return c
}

const pageSize = 4 << 10

// somewhere pushes an address below a limit. Each depends on the one before.
func somewhere(limit int32) []byte {
	const state = scratch
	return join(
		I32Const(state),
		I32Const(state), I32Load, I32Const(1664525), I32Mul, I32Const(1013904223), I32Add,
		I32Store,
		I32Const(state), I32Load, I32Const(8), op(0x76), I32Const(limit), op(wasm.OpI32RemU),
	)
}

// readsAnywhere reads 16 times, each at an address that depends on what was read
// before.
func readsAnywhere() []byte {
	return join(somewhere(hugeBytes/2), repeated(16, join(I32Load, I32Const(2654435), I32Add, I32Const(hugeBytes/2), op(wasm.OpI32RemU))), Drop)
}
