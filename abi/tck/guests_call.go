package tck

import "github.com/thole-dev/thole/abi"

// This file has guests that load and whose reconcile must fail with a class,
// and guests that pass the host ranges at the edges of their memory.

// wasi is the import module of the system interface.
const wasi = "wasi_snapshot_preview1"

func callCases() []Case {
	return []Case{
		fails("trap", abi.ClassPanic, "executes unreachable", func(*guest) []byte { return Unreachable }),
		fails("divide-by-zero", abi.ClassPanic, "divides by zero",
			func(*guest) []byte { return join(I32Const(1), I32Const(0), I32DivS) }),
		fails("wild-pointer", abi.ClassPanic, "reads beyond its memory",
			func(*guest) []byte { return join(I32Const(-4), I32Load) }),
		hiding("panic-text", "prints what it has read as the text of a panic, with a stack, and traps", "s3cr3t",
			"panic: s3cr3t\n\ngoroutine 1 [running]:\ns3cr3t(0x1)\n\t/main.go:1\n"),
		fails("exit", abi.ClassPanic, "calls proc_exit, as a language's runtime does after a fatal error", exit),
		timesOut("infinite-loop", "never returns", infiniteLoop),
		fails("deep-recursion", abi.ClassStackOverflow, "calls itself without end", deepRecursion),
		fails("memory-bomb", abi.ClassOutOfMemory, "grows its memory until the host refuses, then traps", memoryBomb),
		fails("output-missing", abi.ClassABI, "returns 0 without a result", func(*guest) []byte { return I32Const(0) }),
		fails("output-not-json", abi.ClassABI, "writes a result that is not JSON",
			func(g *guest) []byte { return join(g.writes([]byte("\x00garbage")), I32Const(0)) }),
		fails("output-unknown-field", abi.ClassABI, "writes a result with a field that does not exist",
			func(g *guest) []byte { return join(g.writes([]byte(`{"result":"success","aply":[]}`)), I32Const(0)) }),
		fails("output-oversize", abi.ClassABI, "writes results without end, all of its memory each time", func(g *guest) []byte {
			return forever(I32Const(0), I32Const(pages<<16), Call(g.output))
		}),
		fails("unknown-code", abi.ClassABI, "returns a code that the ABI does not define",
			func(g *guest) []byte { return join(g.writes(success()), I32Const(7)) }),
		fails("input-past-end", abi.ClassABI, "reads more of the request than there is",
			func(g *guest) []byte {
				return join(I32Const(scratch), LocalGet(0), I32Const(1), I32Add, Call(g.input), g.ok())
			}),
	}
}

// fails is a case that loads and whose reconcile, with the given body, must
// fail with a class.
func fails(name string, class abi.Class, explain string, body func(*guest) []byte) Case {
	return failing(name, class, explain, func(g *guest) []byte { return g.finish(nil, body(g)) })
}

// hiding is a case that prints a text to stderr and stdout and traps. The error must not hold
// a part of it.
func hiding(name, explain, part, text string) Case {
	c := fails(name, abi.ClassPanic, explain, func(g *guest) []byte {
		write := g.fdWrite()
		body := join(
			I32Const(scratch), g.constant([]byte(text)), Drop, I32Store,
			I32Const(scratch+4), I32Const(int32(len(text))), I32Store,
		)
		for _, to := range []int32{1, 2} {
			body = join(body, I32Const(to), I32Const(scratch), I32Const(1), I32Const(scratch+8), Call(write), Drop)
		}
		return join(body, Unreachable)
	})
	c.Hides = part
	return c
}

// failing is fails for a case that adds reconcile itself.
func failing(name string, class abi.Class, explain string, build func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageCall, Class: class, Calls: 2, Explain: explain,
		Wasm: func() []byte { return build(newGuest(name)) },
	}
}

func exit(g *guest) []byte {
	f := g.Import(wasi, "proc_exit", i32Only, noTypes)
	return join(I32Const(2), Call(f), Unreachable)
}

func infiniteLoop(*guest) []byte { return forever() }

func deepRecursion(g *guest) []byte {
	self := g.next()
	g.Func(noTypes, i32Only, nil, Call(self), I32Const(1), I32Add)
	return Call(self)
}

// memoryBomb asks for 16 pages at a time, and traps when it gets none.
func memoryBomb(*guest) []byte { return forever(trapIfRefused(I32Const(16), MemoryGrow)) }

func pointerCases() []Case {
	return []Case{
		fails("input-out-of-range", abi.ClassABI, "input to a range that ends beyond the memory",
			func(g *guest) []byte { return join(outside(), Call(g.input), g.ok()) }),
		fails("output-out-of-range", abi.ClassABI, "output from a range that ends beyond the memory",
			func(g *guest) []byte { return join(outside(), Call(g.output), g.ok()) }),
		fails("output-length-overflow", abi.ClassABI, "output of 4 GiB from the last byte on",
			func(g *guest) []byte { return join(I32Const(pages<<16-1), I32Const(-1), Call(g.output), g.ok()) }),
		fails("log-out-of-range", abi.ClassABI, "log of a message that ends beyond the memory",
			func(g *guest) []byte { return join(I32Const(abi.LogInfo), outside(), Call(g.log()), g.ok()) }),
		fails("get-out-of-range", abi.ClassABI, "get with a message that ends beyond the memory",
			func(g *guest) []byte { return join(outside(), Call(g.get()), Drop, g.ok()) }),
		fails("list-out-of-range", abi.ClassABI, "list with a message that ends beyond the memory", func(g *guest) []byte {
			list := g.Import(abi.ImportModule, abi.ImportList, ptrLen, i64Only)
			return join(outside(), Call(list), Drop, g.ok())
		}),
	}
}

// outside pushes an address within the memory and a length that ends one byte
// beyond it, whatever size the host gave the memory.
func outside() []byte {
	return join(I32Const(scratch), MemorySize, I32Const(16), I32Shl, I32Const(1-scratch), I32Add)
}

func edgeCases() []Case {
	return []Case{
		edgeCase("edge-empty-at-end", "empty ranges at the end of the memory are valid", emptyAtEnd),
		edgeCase("edge-last-byte", "the last byte of the memory is valid for input, output and log", lastByte),
		edgeCase("edge-whole-memory", "the whole memory is a valid range", wholeMemory),
		edgeCase("edge-system-interface", "system calls with addresses beyond the memory return EFAULT", systemEdges),
		beyondEnd("edge-empty-beyond", "an empty output one byte beyond the end", abi.ImportOutput, 1, 0),
		beyondEnd("edge-empty-input-beyond", "an empty input one byte beyond the end", abi.ImportInput, 1, 0),
		beyondEnd("edge-one-byte-beyond", "an output of the byte after the last", abi.ImportOutput, 0, 1),
		beyondEnd("edge-across", "an output from the last byte to the first one after it", abi.ImportOutput, -1, 2),
		fails("edge-wrap-to-zero", abi.ClassABI, "an output of the last byte below 4 GiB and the first one of the memory",
			func(g *guest) []byte { return join(I32Const(-1), I32Const(2), Call(g.output), g.ok()) }),
		fails("edge-wrap-whole", abi.ClassABI, "an output of 4 GiB less one byte from address one on",
			func(g *guest) []byte { return join(I32Const(1), I32Const(-1), Call(g.output), g.ok()) }),
		fails("edge-empty-at-4-gib", abi.ClassABI, "an empty output at the last address below 4 GiB",
			func(g *guest) []byte { return join(I32Const(-1), I32Const(0), Call(g.output), g.ok()) }),
		fails("edge-log-wrap", abi.ClassABI, "a log of 4 GiB less one byte from address two on", func(g *guest) []byte {
			return join(I32Const(abi.LogInfo), I32Const(2), I32Const(-1), Call(g.log()), g.ok())
		}),
		fails("edge-get-wrap", abi.ClassABI, "a get with a message that wraps around at 4 GiB",
			func(g *guest) []byte { return join(I32Const(-8), I32Const(16), Call(g.get()), Drop, g.ok()) }),
		fails("edge-input-too-much", abi.ClassABI, "reads 2 GiB of a short request",
			func(g *guest) []byte { return join(I32Const(0), I32Const(-1<<31), Call(g.input), g.ok()) }),
		fails("edge-input-after-failed-get", abi.ClassABI, "reads a byte after a failed get, which leaves no input", func(g *guest) []byte {
			get := g.get()
			return join(g.constant(getMissing()), Call(get), Drop, I32Const(scratch), I32Const(1), Call(g.input), g.ok())
		}),
	}
}

// edgeCase is a case that must succeed; the body writes the result.
func edgeCase(name, explain string, body func(*guest) []byte) Case {
	return succeeds(name, explain, 2, success(), func(g *guest) []byte { return g.finish(nil, body(g), I32Const(0)) })
}

// beyondEnd passes input or output a range that begins at an offset from the
// end of the memory.
func beyondEnd(name, explain, function string, offset, length int32) Case {
	return fails(name, abi.ClassABI, explain, func(g *guest) []byte {
		f := map[string]Func{abi.ImportInput: g.input, abi.ImportOutput: g.output}[function]
		return join(memoryEnd(offset), I32Const(length), Call(f), g.ok())
	})
}

// memoryEnd pushes the address after the last one, plus an offset.
func memoryEnd(offset int32) []byte {
	return join(MemorySize, I32Const(16), I32Shl, I32Const(offset), I32Add)
}

func emptyAtEnd(g *guest) []byte {
	log := g.log()
	empty := join(memoryEnd(0), I32Const(0))
	return join(
		empty, Call(g.input), empty, Call(g.output), I32Const(abi.LogInfo), empty, Call(log),
		g.writes(success()),
	)
}

// lastByte reads the request's first byte, an opening brace, to the last byte
// of memory, and begins the result with it.
func lastByte(g *guest) []byte {
	log := g.log()
	last := join(memoryEnd(-1), I32Const(1))
	return join(
		last, Call(g.input), I32Const(abi.LogInfo), last, Call(log), last, Call(g.output),
		g.writes(success()[1:]),
	)
}

// wholeMemory logs the whole memory, which is beyond every limit, and sends it
// as a message, which is too long to be valid.
func wholeMemory(g *guest) []byte {
	log, get := g.log(), g.get()
	whole := join(I32Const(0), memoryEnd(0))
	return join(
		I32Const(abi.LogInfo), whole, Call(log),
		trapIf(whole, Call(get), I64Const(abi.CodeInvalid), I64Ne),
		g.writes(success()),
	)
}

func systemEdges(g *guest) []byte {
	write := g.fdWrite()
	clock := g.clockTimeGet()
	random := g.Import(wasi, "random_get", types{i32, i32}, i32Only)
	poll := g.pollOneoff()
	args := g.Import(wasi, "args_sizes_get", types{i32, i32}, i32Only)
	return join(
		expectErrno(errnoFault, I32Const(1), memoryEnd(-4), I32Const(1), I32Const(firstWord), Call(write)),
		expectErrno(errnoFault, I32Const(1), I32Const(-8), I32Const(4), I32Const(firstWord), Call(write)),
		I32Const(scratch), I32Const(-1), I32Store, I32Const(scratch+4), I32Const(-1), I32Store,
		expectErrno(errnoFault, I32Const(1), I32Const(scratch), I32Const(1), I32Const(firstWord), Call(write)),
		expectErrno(errnoFault, I32Const(clockMonotonic), I64Const(1), memoryEnd(-7), Call(clock)),
		expectErrno(errnoFault, memoryEnd(-1), I32Const(2), Call(random)),
		expectErrno(errnoSuccess, memoryEnd(0), I32Const(0), Call(random)),
		expectErrno(errnoFault, memoryEnd(-47), I32Const(0), I32Const(1), I32Const(firstWord), Call(poll)),
		expectErrno(errnoFault, I32Const(-1), I32Const(firstWord), Call(args)),
		g.writes(success()),
	)
}
