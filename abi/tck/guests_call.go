package tck

import "github.com/thole-dev/thole/abi"

// wasi is the import module of the system interface.
const wasi = "wasi_snapshot_preview1"

func callCases() []Case {
	return []Case{
		fails("trap", abi.ClassPanic, "executes unreachable", func(*guest) []byte { return Unreachable }),
		fails("divide-by-zero", abi.ClassPanic, "divides by zero", divide),
		fails("wild-pointer", abi.ClassPanic, "reads beyond its memory", wildPointer),
		fails("exit", abi.ClassPanic, "calls proc_exit, as a runtime does after a fatal error", exit),
		spins("infinite-loop", "never returns", infiniteLoop),
		fails("deep-recursion", abi.ClassStackOverflow, "calls itself without end", deepRecursion),
		fails("memory-bomb", abi.ClassOutOfMemory, "grows memory until the host refuses, then traps", memoryBomb),
		fails("output-never", abi.ClassABI, "answers 0 without a result", func(*guest) []byte { return I32Const(0) }),
		fails("output-garbage", abi.ClassABI, "writes a result that is not JSON",
			func(g *guest) []byte { return join(g.say([]byte("\x00garbage")), I32Const(0)) }),
		fails("output-unknown-field", abi.ClassABI, "writes an intent that the host does not know",
			func(g *guest) []byte { return join(g.say([]byte(`{"result":"success","aply":[]}`)), I32Const(0)) }),
		fails("output-oversize", abi.ClassABI, "writes results without end", outputBomb),
		fails("unknown-code", abi.ClassABI, "answers a code that the ABI does not have",
			func(g *guest) []byte { return join(g.say(success()), I32Const(7)) }),
		fails("input-past-end", abi.ClassABI, "asks for more of the request than there is",
			func(g *guest) []byte {
				return join(I32Const(scratch), LocalGet(0), I32Const(1), I32Add, Call(g.input), g.ok())
			}),
	}
}

// fails is a case whose reconcile has that body.
func fails(name string, class abi.Class, explain string, body func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageCall, Class: class, Explain: explain,
		Wasm: func() []byte {
			g := newGuest(name)
			return g.finish(nil, body(g))
		},
	}
}

func divide(*guest) []byte { return join(I32Const(1), I32Const(0), I32DivS) }

func wildPointer(*guest) []byte { return join(I32Const(-4), I32Load) }

func exit(g *guest) []byte {
	f := g.Import(wasi, "proc_exit", i32Only, noTypes)
	return join(I32Const(2), Call(f), Unreachable)
}

func infiniteLoop(*guest) []byte { return join(Loop, Branch(0), End, I32Const(0)) }

func deepRecursion(g *guest) []byte {
	self := Func(len(g.imports) + len(g.funcs))
	g.Func(noTypes, i32Only, nil, Call(self), I32Const(1), I32Add)
	return Call(self)
}

// memoryBomb asks for 16 pages at a time.
func memoryBomb(*guest) []byte {
	return join(
		Loop,
		trapIf(I32Const(16), MemoryGrow, I32Const(-1), I32Eq),
		Branch(0),
		End,
		I32Const(0),
	)
}

func outputBomb(g *guest) []byte {
	return join(Loop, I32Const(0), I32Const(pages<<16), Call(g.output), Branch(0), End, I32Const(0))
}

func pointerCases() []Case {
	return []Case{
		fails("input-out-of-range", abi.ClassABI, "input to an address beyond the memory",
			func(g *guest) []byte { return join(outside(), Call(g.input), g.ok()) }),
		fails("output-out-of-range", abi.ClassABI, "output from an address beyond the memory",
			func(g *guest) []byte { return join(outside(), Call(g.output), g.ok()) }),
		fails("output-length-overflow", abi.ClassABI, "output of 4 GiB from the last byte on",
			func(g *guest) []byte { return join(I32Const(pages<<16-1), I32Const(-1), Call(g.output), g.ok()) }),
		fails("log-out-of-range", abi.ClassABI, "log of a message beyond the memory", func(g *guest) []byte {
			log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
			return join(I32Const(abi.LogInfo), outside(), Call(log), g.ok())
		}),
		fails("get-out-of-range", abi.ClassABI, "get with a message beyond the memory", func(g *guest) []byte {
			get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
			return join(outside(), Call(get), Drop, g.ok())
		}),
		fails("list-out-of-range", abi.ClassABI, "list with a message beyond the memory", func(g *guest) []byte {
			list := g.Import(abi.ImportModule, abi.ImportList, pointer, capability)
			return join(outside(), Call(list), Drop, g.ok())
		}),
	}
}

// outside pushes an address inside and a length that ends one byte outside,
// whatever size the host gave the memory.
func outside() []byte {
	return join(I32Const(scratch), MemorySize, I32Const(16), I32Shl, I32Const(1-scratch), I32Add)
}
