package tck

import "github.com/thole-dev/thole/abi"

// edgeCases give the host ranges at the edges of memory.
func edgeCases() []Case {
	return []Case{
		edge("edge-empty-at-end", "empty ranges at the end of the memory are inside of it", emptyAtEnd),
		edge("edge-last-byte", "the last byte of the memory is inside of it, for input, output and log", lastByte),
		edge("edge-everything", "the whole memory is one range", everything),
		edge("edge-system-interface", "system calls with addresses beyond the memory answer EFAULT", systemEdges),
		beyond("edge-empty-beyond", "an empty output one byte beyond the end", abi.ImportOutput, 1, 0),
		beyond("edge-empty-input-beyond", "an empty input one byte beyond the end", abi.ImportInput, 1, 0),
		beyond("edge-one-byte-beyond", "an output of the byte after the last", abi.ImportOutput, 0, 1),
		beyond("edge-across", "an output from the last byte to the first one after it", abi.ImportOutput, -1, 2),
		fails("edge-wrap-to-zero", abi.ClassABI, "an output of the last byte below 4 GiB and the first one of the memory",
			func(g *guest) []byte { return join(I32Const(-1), I32Const(2), Call(g.output), g.ok()) }),
		fails("edge-wrap-whole", abi.ClassABI, "an output of 4 GiB less one byte from address one on",
			func(g *guest) []byte { return join(I32Const(1), I32Const(-1), Call(g.output), g.ok()) }),
		fails("edge-empty-at-4-gib", abi.ClassABI, "an empty output at the last address there is",
			func(g *guest) []byte { return join(I32Const(-1), I32Const(0), Call(g.output), g.ok()) }),
		fails("edge-log-wrap", abi.ClassABI, "a log of 4 GiB less one byte from address two on", func(g *guest) []byte {
			log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
			return join(I32Const(abi.LogInfo), I32Const(2), I32Const(-1), Call(log), g.ok())
		}),
		fails("edge-get-wrap", abi.ClassABI, "a get with a message that wraps around", func(g *guest) []byte {
			get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
			return join(I32Const(-8), I32Const(16), Call(get), Drop, g.ok())
		}),
		fails("edge-input-too-much", abi.ClassABI, "asks for 2 GiB of a request that is short",
			func(g *guest) []byte { return join(I32Const(0), I32Const(-1<<31), Call(g.input), g.ok()) }),
		fails("edge-input-of-nothing", abi.ClassABI, "reads the request after a failed get took it away", inputOfNothing),
	}
}

func edge(name, explain string, body func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageOK, Calls: 2, Explain: explain, Output: always(success()),
		Wasm: func() []byte {
			g := newGuest(name)
			return g.finish(nil, body(g), I32Const(0))
		},
	}
}

// beyond is a case that gives input or output that address, from the end of
// the memory on, and that length.
func beyond(name, explain, function string, address, length int32) Case {
	return fails(name, abi.ClassABI, explain, func(g *guest) []byte {
		f := map[string]Func{abi.ImportInput: g.input, abi.ImportOutput: g.output}[function]
		return join(memoryEnd(address), I32Const(length), Call(f), g.ok())
	})
}

// memoryEnd is the address after the last one, and so many bytes further.
func memoryEnd(further int32) []byte {
	return join(MemorySize, I32Const(16), I32Shl, I32Const(further), I32Add)
}

func emptyAtEnd(g *guest) []byte {
	log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
	empty := join(memoryEnd(0), I32Const(0))
	return join(
		empty, Call(g.input), empty, Call(g.output), I32Const(abi.LogInfo), empty, Call(log),
		g.say(success()),
	)
}

// lastByte reads the request's first byte, an opening brace, to the last byte
// of memory, and begins the result with it.
func lastByte(g *guest) []byte {
	log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
	last := join(memoryEnd(-1), I32Const(1))
	return join(
		last, Call(g.input), I32Const(abi.LogInfo), last, Call(log), last, Call(g.output),
		g.say(success()[1:]),
	)
}

// everything logs the whole memory, which no limit lets through, and sends it
// as a message, which no host understands.
func everything(g *guest) []byte {
	log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
	get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
	all := join(I32Const(0), memoryEnd(0))
	return join(
		I32Const(abi.LogInfo), all, Call(log),
		trapIf(all, Call(get), I64Const(abi.CodeInvalid), I64Ne),
		g.say(success()),
	)
}

func systemEdges(g *guest) []byte {
	write := g.fdWrite()
	clock := g.Import(wasi, "clock_time_get", []Type{I32, I64, I32}, i32Only)
	random := g.Import(wasi, "random_get", []Type{I32, I32}, i32Only)
	poll := g.Import(wasi, "poll_oneoff", []Type{I32, I32, I32, I32}, i32Only)
	args := g.Import(wasi, "args_sizes_get", []Type{I32, I32}, i32Only)
	return join(
		answers(errnoFault, I32Const(1), memoryEnd(-4), I32Const(1), I32Const(firstWord), Call(write)),
		answers(errnoFault, I32Const(1), I32Const(-8), I32Const(4), I32Const(firstWord), Call(write)),
		I32Const(scratch), I32Const(-1), I32Store, I32Const(scratch+4), I32Const(-1), I32Store,
		answers(errnoFault, I32Const(1), I32Const(scratch), I32Const(1), I32Const(firstWord), Call(write)),
		answers(errnoFault, I32Const(clockMono), I64Const(1), memoryEnd(-7), Call(clock)),
		answers(errnoFault, memoryEnd(-1), I32Const(2), Call(random)),
		answers(errnoSuccess, memoryEnd(0), I32Const(0), Call(random)),
		answers(errnoFault, memoryEnd(-47), I32Const(0), I32Const(1), I32Const(firstWord), Call(poll)),
		answers(errnoFault, I32Const(-1), I32Const(firstWord), Call(args)),
		g.say(success()),
	)
}

func inputOfNothing(g *guest) []byte {
	get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
	call := g.put(missing())
	return join(call, Call(get), Drop, I32Const(scratch), I32Const(1), Call(g.input), g.ok())
}
