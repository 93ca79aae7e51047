package tck

import "github.com/thole-dev/thole/abi"

// This file has guests that call the host as often as they can, each with as
// much work for it as one call allows.

func stormCases() []Case {
	return []Case{
		fails("get-storm", abi.ClassABI, "calls get without end",
			func(g *guest) []byte { return g.callsForever(abi.ImportGet, getObject()) }),
		fails("list-storm", abi.ClassABI, "calls list without end",
			func(g *guest) []byte { return g.callsForever(abi.ImportList, listObjects()) }),
		fails("get-storm-invalid", abi.ClassABI, "calls get without end with a message that cannot be decoded",
			func(g *guest) []byte { return g.callsForever(abi.ImportGet, []byte("\x00?")) }),
		getStormHuge(),
		timesOut("log-bomb", "logs without end", func(g *guest) []byte {
			return g.logsForever(g.constant([]byte(`{"message":"the tck was here, again and again"}`)))
		}),
		timesOut("log-bomb-huge", "logs all of its memory without end", func(g *guest) []byte {
			return join(g.growsToHuge(), g.logsForever(join(I32Const(0), I32Const(hugeBytes))))
		}),
		timesOut("log-bomb-empty", "logs empty messages without end",
			func(g *guest) []byte { return g.logsForever(join(I32Const(0), I32Const(0))) }),
		fails("output-bomb-bytes", abi.ClassABI, "writes a result without end, sixteen bytes at a time", func(g *guest) []byte {
			return forever(I32Const(constants), I32Const(16), Call(g.output))
		}),
		timesOut("output-empty", "writes no bytes to the result, without end", func(g *guest) []byte {
			return forever(I32Const(0), I32Const(0), Call(g.output))
		}),
		timesOut("input-empty", "reads no bytes of the request, without end", func(g *guest) []byte {
			return forever(I32Const(0), I32Const(0), Call(g.input))
		}),
		timesOut("clock-storm", "reads the clock without end", func(g *guest) []byte {
			clock := g.clockTimeGet()
			return forever(I32Const(clockMonotonic), I64Const(1), I32Const(scratch), Call(clock), Drop)
		}),
		timesOut("random-storm", "reads a mebibyte of random bytes without end", func(g *guest) []byte {
			random := g.Import(wasi, "random_get", types{i32, i32}, i32Only)
			return join(g.growsToHuge(), forever(I32Const(0), I32Const(1<<20), Call(random), Drop))
		}),
		timesOut("reference-storm", "makes references to a function without end", func(g *guest) []byte {
			f := g.Func(noTypes, noTypes, nil)
			g.Declare(f)
			return forever(RefFunc(f), Drop, RefFunc(f), Drop)
		}),
		timesOut("sleep-storm", "sleeps an hour without end", func(g *guest) []byte {
			poll := g.pollOneoff()
			return join(subscribesToAnHour(), forever(
				I32Const(subscriptions), I32Const(events), I32Const(1), I32Const(firstWord), Call(poll), Drop))
		}),
		timesOut("stdout-bomb", "writes a thousand times its memory to stdout in one call, without end", func(g *guest) []byte {
			return join(g.preparesVectors(), forever(g.writesVectors()))
		}),
		timesOut("stdout-straight", "writes that a hundred thousand times without a loop", func(g *guest) []byte {
			writes := repeated(1_000, g.writesVectors())
			return join(g.preparesVectors(), repeated(100, Call(g.Func(noTypes, noTypes, nil, writes))), I32Const(0))
		}),
		fails("trap-after-output", abi.ClassPanic, "writes much to output, log and stderr, then traps", trapAfterOutput),
	}
}

func (g *guest) callsForever(function string, call []byte) []byte {
	f := g.Import(abi.ImportModule, function, ptrLen, i64Only)
	return forever(g.constant(call), Call(f), Drop)
}

func getStormHuge() Case {
	c := fails("get-storm-huge", abi.ClassABI, "calls get without end, with all of its memory as the message", func(g *guest) []byte {
		get := g.get()
		return join(g.growsToHuge(), forever(I32Const(0), I32Const(hugeBytes), Call(get), Drop))
	})
	c.Limits = Limits{MemoryBytes: hugeBytes}
	return c
}

func (g *guest) logsForever(message []byte) []byte {
	log := g.log()
	return forever(I32Const(abi.LogError), message, Call(log))
}

// maxVectors is how many ranges of memory one write can have.
const maxVectors = 1024

// preparesVectors grows the memory and writes maxVectors times the range of all
// of it to scratch.
func (g *guest) preparesVectors() []byte {
	at := g.Global(scratch)
	return join(
		g.growsToHuge(),
		Loop,
		GlobalGet(at), I32Const(0), I32Store,
		GlobalGet(at), I32Const(4), I32Add, I32Const(hugeBytes), I32Store,
		GlobalGet(at), I32Const(8), I32Add, GlobalSet(at),
		GlobalGet(at), I32Const(scratch+8*maxVectors), I32Ne, BranchIf(0),
		End,
	)
}

// writesVectors writes the prepared ranges to stdout.
func (g *guest) writesVectors() []byte {
	return join(I32Const(1), I32Const(scratch), I32Const(maxVectors), I32Const(0), Call(g.fdWrite()), Drop)
}

func trapAfterOutput(g *guest) []byte {
	log := g.log()
	write := g.fdWrite()
	return join(
		I32Const(0), I32Const(pages<<16), Call(g.output),
		I32Const(abi.LogError), I32Const(0), I32Const(32<<10), Call(log),
		I32Const(scratch), I32Const(0), I32Store,
		I32Const(scratch+4), I32Const(pages<<16), I32Store,
		I32Const(2), I32Const(scratch), I32Const(1), I32Const(scratch+8), Call(write), Drop,
		Unreachable,
	)
}
