package tck

import "github.com/thole-dev/thole/abi"

// stormCases call the host as often as they can.
func stormCases() []Case {
	return []Case{
		fails("get-storm", abi.ClassABI, "asks for objects without end", func(g *guest) []byte {
			return g.asksForever(abi.ImportGet, abi.EncodeGetCall(&abi.GetCall{Ref: present()}))
		}),
		fails("list-storm", abi.ClassABI, "asks for lists without end", func(g *guest) []byte {
			return g.asksForever(abi.ImportList, abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "ConfigMap"}))
		}),
		fails("get-storm-garbage", abi.ClassABI, "asks without end for what cannot be understood",
			func(g *guest) []byte { return g.asksForever(abi.ImportGet, []byte("\x00?")) }),
		fails("get-storm-huge", abi.ClassABI, "asks without end, with all of its memory as the message", func(g *guest) []byte {
			get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
			return join(g.grown(), forever(I32Const(0), I32Const(hugeBytes), Call(get), Drop))
		}).within(Limits{MemoryBytes: hugeBytes}),
		spins("log-bomb", "logs without end", func(g *guest) []byte {
			message := g.put([]byte(`{"message":"the tck was here, again and again"}`))
			return g.logsForever(message)
		}),
		spins("log-bomb-huge", "logs all of its memory without end", func(g *guest) []byte {
			return join(g.grown(), g.logsForever(join(I32Const(0), I32Const(hugeBytes))))
		}),
		spins("log-bomb-empty", "logs nothing without end",
			func(g *guest) []byte { return g.logsForever(join(I32Const(0), I32Const(0))) }),
		fails("output-bomb-bytes", abi.ClassABI, "writes a result without end, sixteen bytes at a time", func(g *guest) []byte {
			return forever(I32Const(constants), I32Const(16), Call(g.output))
		}),
		spins("output-nothing", "writes nothing without end", func(g *guest) []byte {
			return forever(I32Const(0), I32Const(0), Call(g.output))
		}),
		spins("input-nothing", "reads nothing without end", func(g *guest) []byte {
			return forever(I32Const(0), I32Const(0), Call(g.input))
		}),
		spins("clock-storm", "reads the clock without end", func(g *guest) []byte {
			clock := g.Import(wasi, "clock_time_get", []Type{I32, I64, I32}, i32Only)
			return forever(I32Const(clockMono), I64Const(1), I32Const(scratch), Call(clock), Drop)
		}),
		spins("random-storm", "asks for a mebibyte of random bytes without end", func(g *guest) []byte {
			random := g.Import(wasi, "random_get", []Type{I32, I32}, i32Only)
			return join(g.grown(), forever(I32Const(0), I32Const(1<<20), Call(random), Drop))
		}),
		spins("sleep-storm", "sleeps an hour without end", func(g *guest) []byte {
			poll := g.Import(wasi, "poll_oneoff", []Type{I32, I32, I32, I32}, i32Only)
			return join(hourOfSleep(), forever(
				I32Const(subscribed), I32Const(happened), I32Const(1), I32Const(firstWord), Call(poll), Drop))
		}),
		spins("stdout-bomb", "writes a thousand times its memory to stdout in one call, without end", stdoutBomb),
		spins("stdout-straight", "does so a thousand times without a loop", func(g *guest) []byte {
			return join(g.vectors(), repeated(1_000, g.writesVectors()), I32Const(0))
		}),
		fails("trap-after-output", abi.ClassPanic, "writes much to output, log and stderr, then traps", trapAfterOutput),
	}
}

// within sets a case's limits.
func (c Case) within(limits Limits) Case {
	c.Limits = limits
	return c
}

// forever repeats instructions that leave nothing.
func forever(instructions ...[]byte) []byte {
	return join(Loop, join(instructions...), Branch(0), End, I32Const(0))
}

func (g *guest) asksForever(function string, call []byte) []byte {
	f := g.Import(abi.ImportModule, function, pointer, capability)
	return forever(g.put(call), Call(f), Drop)
}

func (g *guest) logsForever(message []byte) []byte {
	log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
	return forever(I32Const(abi.LogError), message, Call(log))
}

const mostVectors = 1024

// vectors writes mostVectors times the range of the whole memory to scratch.
func (g *guest) vectors() []byte {
	at := g.Global(scratch)
	return join(
		g.grown(),
		Loop,
		GlobalGet(at), I32Const(0), I32Store,
		GlobalGet(at), I32Const(4), I32Add, I32Const(hugeBytes), I32Store,
		GlobalGet(at), I32Const(8), I32Add, GlobalSet(at),
		GlobalGet(at), I32Const(scratch+8*mostVectors), I32Ne, BranchIf(0),
		End,
	)
}

// writesVectors writes what vectors has prepared to stdout.
func (g *guest) writesVectors() []byte {
	return join(I32Const(1), I32Const(scratch), I32Const(mostVectors), I32Const(0), Call(g.fdWrite()), Drop)
}

// fdWrite imports fd_write once; no function may have been added before.
func (g *guest) fdWrite() Func {
	if g.write == 0 {
		g.write = g.Import(wasi, "fd_write", []Type{I32, I32, I32, I32}, i32Only)
	}
	return g.write
}

func stdoutBomb(g *guest) []byte {
	return join(g.vectors(), forever(g.writesVectors()))
}

func trapAfterOutput(g *guest) []byte {
	log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
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
