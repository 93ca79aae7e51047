package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// This file searches for guests that run for long between two ticks. A guest is
// made of a genome: how much memory, stack, code and tables it uses, and a list
// of steps, each a few instructions that take the processor as long as possible
// for what they cost. The search changes those that took longest so far.

// maxGap is what a guest may use of a processor between two ticks.
const maxGap = 5 * time.Millisecond

// gapFuel ends a run: some hundred slices.
const gapFuel = 5_000_000

// genome describes a guest.
type genome struct {
	pages  uint8 // of memory, as an index into pageCounts
	slots  uint8 // places of a chain of pointers in memory, as a power of two
	stride uint8 // from one place to the next, as an index into strides
	offset uint8 // of what is at a place, as an index into offsets
	big    uint8 // functions and elements behind tables, as a power of two
	reps   uint8 // how often the steps are written into the loop
	steps  []step
}

type step struct{ kind, value uint8 }

var (
	pageCounts = []uint32{2, 4, 8, 9, 16, 32, 64, 128, 256, 512, 1000}
	strides    = []int32{64, 128, 192, 4096, 4160, 65536, 320}
	offsets    = []int32{0, 62, 60, 4094, 4092, 32}
)

func (g *genome) String() string {
	var steps []string
	for _, s := range g.steps {
		steps = append(steps, fmt.Sprintf("{%d, %d}", s.kind, s.value))
	}
	return fmt.Sprintf("{%d, %d, %d, %d, %d, %d, []step{%s}}", g.pages, g.slots, g.stride, g.offset, g.big, g.reps, strings.Join(steps, ", "))
}

// gapGuest is a guest that is being made of a genome. Local 0 is the length of
// the request, chain a pointer, and random a random number.
type gapGuest struct {
	testGuest
	genome
	size             int32 // of memory, in bytes
	mask             int32 // of addresses that are a power of two below size
	write, poll, rnd tck.Func
	clock, log, list tck.Func
	leaf, deep       tck.Func
	many, cold       tck.Func
	wideBlock        uint32
	wide             tck.Func
	callType         uint32
	elements         int32
	globals          uint32
	passive          uint32
	wideValues       int
}

const (
	chain  = 1
	random = 2
	float  = 3
	long   = 4
)

var gapLocals = types{wasm.I32, wasm.I32, wasm.F64, wasm.I64}

// scratchAt is where guests write what nobody reads.
const scratchAt = 96 << 10

func newGapGuest(g *genome) *gapGuest {
	gg := &gapGuest{testGuest: *newTestGuest("gap"), genome: *g}
	gg.size = int32(pageCounts[int(g.pages)%len(pageCounts)] << 16)
	gg.mask = 1<<16 - 1
	for gg.mask*2+1 < gg.size {
		gg.mask = gg.mask*2 + 1
	}
	gg.write = gg.Import(wasi.ImportModule, "fd_write", types{i32, i32, i32, i32}, i32Only)
	gg.poll = gg.Import(wasi.ImportModule, "poll_oneoff", types{i32, i32, i32, i32}, i32Only)
	gg.rnd = gg.Import(wasi.ImportModule, "random_get", ptrLen, i32Only)
	gg.clock = gg.Import(wasi.ImportModule, "clock_time_get", types{i32, i64, i32}, i32Only)
	gg.log = gg.Import(abi.ImportModule, abi.ImportLog, levelPtrLen, noTypes)
	gg.list = gg.Import(abi.ImportModule, abi.ImportList, ptrLen, i64Only)
	return gg
}

// functions adds what the steps call.
func (gg *gapGuest) functions() {
	gg.elements = 1 << (3 + gg.big%14)
	gg.Table(uint32(gg.elements))
	gg.TableUpTo(100, 10_000)
	gg.globals = uint32(max(gg.ifUsed(stepGlobals, 10_000), gg.ifUsed(stepReload, 10_000)))
	for range gg.globals {
		gg.Global(1)
	}
	gg.Declare(gg.list + 1)
	gg.passive = gg.Passive(make([]byte, 200_000))
	gg.callType = gg.Type(i32Only, i32Only)
	gg.leaf = gg.Func(i32Only, i32Only, nil, tck.LocalGet(0), tck.I32Const(7), tck.I32Add)
	many := gg.callees()
	first := gg.leaf
	for i := range many {
		f := gg.Func(i32Only, i32Only, nil, tck.LocalGet(0), tck.I32Const(i*64), tck.I32Add)
		gg.Elements(i, f)
		first = min(first, f)
	}
	// A chain of calls without a cycle, each with a frame that is hardly used.
	frame := func(next []byte, n int) []byte {
		body := slices.Concat(tck.LocalGet(0), tck.I32Const(-1), tck.I32Eq, tck.If, tck.Loop)
		for i := range n {
			body = append(body, tck.LocalGet(0)...)
			body = append(body, tck.I32Const(int32(i)*2654435)...)
			body = append(body, tck.I32Mul...)
		}
		for range n - 1 {
			body = append(body, tck.I32Add...)
		}
		body = slices.Concat(body, tck.LocalSet(0), tck.End, tck.End)
		return slices.Concat(body, next)
	}
	gg.many = gg.Func(i32Only, i32Only, nil, tck.LocalGet(0))
	for range gg.ifUsed(stepChain, 1<<(gg.big%10)) {
		gg.many = gg.Func(i32Only, i32Only, nil, frame(slices.Concat(tck.LocalGet(0), tck.Call(gg.many)), 40+int(gg.big)*2))
	}
	// Recursion: its depth is its parameter.
	gg.deep = gg.many + 1
	gg.Func(i32Only, i32Only, slices.Repeat(i32Only, int(gg.big)),
		tck.LocalGet(0), tck.I32Eqz, tck.If, tck.I32Const(1), tck.Return, tck.End,
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(gg.deep), tck.LocalGet(0), tck.I32Add)
	// Code that jumps over code.
	var jumps []byte
	for i := range gg.ifUsed(stepCold, 1<<(gg.big%12)) {
		jumps = slices.Concat(jumps, tck.Block, tck.LocalGet(0), tck.BranchIf(0),
			tck.LocalGet(0), tck.I32Const(int32(i)), tck.I32DivS, tck.LocalSet(1), tck.LocalGet(0), tck.I32Const(int32(i)), tck.I32Mul, tck.LocalSet(1), tck.End)
	}
	gg.cold = gg.Func(i32Only, i32Only, i32Only, jumps, tck.LocalGet(1))
	gg.wideValues = 1 + int(gg.big)*3
	wide := slices.Repeat(i32Only, gg.wideValues)
	gg.wideBlock = gg.Type(wide, wide)
	var all []byte
	for i := range wide {
		all = append(all, tck.LocalGet(uint32(i))...)
	}
	gg.wide = gg.Func(wide, wide, nil, all)
}

func (gg *gapGuest) callees() int32 {
	return min(gg.elements, int32(gg.ifUsed(stepIndirect, 1<<11)))
}

// The kinds of steps that call many functions, or large ones.
const (
	stepIndirect = 13
	stepChain    = 15
	stepCold     = 17
	stepGlobals  = 20
	stepReload   = 36
)

// ifUsed returns n if a step is of that kind, else 1: a guest is compiled faster
// without what it does not use.
func (gg *gapGuest) ifUsed(kind, n int) int {
	for _, s := range gg.steps {
		if int(s.kind) == kind {
			return n
		}
	}
	return 1
}

func (gg *gapGuest) nextRandom() []byte {
	return slices.Concat(tck.LocalGet(random), tck.I32Const(1664525), tck.I32Mul, tck.I32Const(1013904223), tck.I32Add, tck.LocalTee(random))
}

// somewhere pushes a random address. It is below size - 128 KiB of a memory that
// is large enough.
func (gg *gapGuest) somewhere() []byte {
	return slices.Concat(gg.nextRandom(), tck.I32Const(7), opcode(0x76), tck.I32Const(gg.mask>>1), opcode(0x71))
}

func opcode(op wasm.Opcode, immediates ...uint32) []byte {
	return wasm.AppendOp(nil, op, immediates...)
}

// stepKinds are the steps. Each leaves the stack as it was.
var stepKinds = []func(gg *gapGuest, v int32) []byte{
	func(gg *gapGuest, v int32) []byte { // follows the chain
		return slices.Concat(tck.LocalGet(chain), bytesOf(1+int(v)%16, opcode(wasm.OpI32Load, 0, 0)), tck.LocalSet(chain))
	},
	func(gg *gapGuest, v int32) []byte { // loads that do not wait for each other
		return slices.Concat(gg.somewhere(), opcode(wasm.OpI64Load, 0, uint32(v)), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), tck.I64Const(int64(v)), opcode(wasm.OpI64Store, 0, uint32(v)))
	},
	func(gg *gapGuest, v int32) []byte { // a copy of a constant length
		return slices.Concat(gg.somewhere(), gg.somewhere(), tck.I32Const(v*4), tck.MemoryCopy)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), tck.I32Const(0), tck.I32Const(v), tck.MemoryFill)
	},
	func(gg *gapGuest, v int32) []byte { // a copy of another length
		return slices.Concat(tck.I32Const(scratchAt), gg.somewhere(), tck.LocalGet(0), tck.I32Const(v*100), tck.I32Add, tck.MemoryCopy)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), tck.I32Const(0), tck.LocalGet(0), tck.I32Const(v*200), tck.I32Add, tck.MemoryFill)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), tck.I32Const(0), tck.LocalGet(0), tck.I32Const(v*200), tck.I32Add, tck.MemoryInit(gg.passive))
	},
	func(gg *gapGuest, v int32) []byte { // division
		return slices.Concat(tck.LocalGet(long), bytesOf(1+int(v)%8, slices.Concat(tck.I64Const(3), opcode(wasm.OpI64RemU), tck.I64Const(-3), tck.I64Add)), tck.LocalSet(long))
	},
	func(gg *gapGuest, v int32) []byte { // denormal numbers
		return slices.Concat(tck.LocalGet(float), bytesOf(1+int(v)%16, slices.Concat(f64(5e-324*float64(v+1)), opcode(0xa0+wasm.Opcode(v%4)))), tck.LocalSet(float))
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(tck.LocalGet(float), bytesOf(1+int(v)%16, opcode(0x99+wasm.Opcode(v%7))), tck.LocalSet(float))
	},
	func(gg *gapGuest, v int32) []byte { // a jump that cannot be predicted
		n := 2 + int(v)
		labels := make([]uint32, n)
		for i := range labels {
			labels[i] = uint32(i % n)
		}
		return slices.Concat(bytesOf(n, tck.Block), gg.nextRandom(), tck.I32Const(11), opcode(0x76), tck.I32Const(int32(n)), opcode(wasm.OpI32RemU),
			tck.BranchTable(labels...), bytesOf(n, slices.Concat(tck.End, tck.LocalGet(chain), tck.Drop)))
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.nextRandom(), tck.I32Const(v%31), opcode(0x76), tck.I32Const(1), opcode(0x71), tck.If, tck.LocalGet(long), tck.I64Const(1), tck.I64Add, tck.LocalSet(long), tck.End)
	},
	func(gg *gapGuest, v int32) []byte { // calls through the table
		return slices.Concat(tck.I32Const(v), gg.nextRandom(), tck.I32Const(9), opcode(0x76), tck.I32Const(gg.callees()-1), opcode(0x71), tck.CallIndirect(gg.callType), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte { return slices.Concat(tck.I32Const(v), tck.Call(gg.leaf), tck.Drop) },
	func(gg *gapGuest, v int32) []byte { return slices.Concat(tck.I32Const(v), tck.Call(gg.many), tck.Drop) },
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(tck.I32Const(v*v*int32(1+gg.big%16)), tck.Call(gg.deep), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte { return slices.Concat(tck.I32Const(v), tck.Call(gg.cold), tck.Drop) },
	func(gg *gapGuest, v int32) []byte { // elements of tables
		return slices.Concat(gg.nextRandom(), tck.I32Const(9), opcode(0x76), tck.I32Const(gg.elements-1), opcode(0x71), opcode(wasm.OpTableGet, 0), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.nextRandom(), tck.I32Const(9), opcode(0x76), tck.I32Const(gg.elements-1), opcode(0x71), tck.NullFunc, opcode(wasm.OpRefIsNull), tck.Drop, tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte { // globals, each in another line of the cache
		var out []byte
		for i := range uint32(1 + v%32) {
			out = slices.Concat(out, tck.GlobalGet((uint32(v)*997+i*331)%gg.globals), tck.GlobalSet((uint32(v)*131+i*337)%gg.globals))
		}
		return out
	},
	func(gg *gapGuest, v int32) []byte { // many values
		args := bytesOf(gg.wideValues, tck.LocalGet(0))
		return slices.Concat(args, tck.Call(gg.wide), bytesOf(gg.wideValues, tck.Drop))
	},
	func(gg *gapGuest, v int32) []byte {
		args := bytesOf(gg.wideValues, tck.LocalGet(random))
		block := wasm.Instruction{Op: wasm.OpBlock, Value: int64(gg.wideBlock)}
		return slices.Concat(args, bytesOf(1+int(v)%4, slices.Concat(block.Append(nil), tck.LocalGet(0), tck.BranchIf(0), tck.Drop, tck.LocalGet(chain), tck.End)), bytesOf(gg.wideValues, tck.Drop))
	},
	func(gg *gapGuest, v int32) []byte { return slices.Concat(tck.I32Const(v%4), tck.MemoryGrow, tck.Drop) },
	func(gg *gapGuest, v int32) []byte { // tables
		return slices.Concat(tck.NullFunc, tck.I32Const(v), opcode(wasm.OpTableGrow, 1), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(tck.I32Const(0), tck.I32Const(0), tck.LocalGet(0), tck.I32Const(1), tck.I32Add, opcode(wasm.OpTableCopy, 0, 0))
	},
	func(gg *gapGuest, v int32) []byte { return slices.Concat(tck.RefFunc(gg.list+1), tck.Drop) },
	func(gg *gapGuest, v int32) []byte { // the host
		return slices.Concat(tck.I32Const(1), gg.somewhere(), tck.I32Const(v*4), tck.I32Const(scratchAt), tck.Call(gg.write), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(tck.I32Const(1), tck.I32Const(scratchAt), tck.I32Const(v*4), tck.I32Const(scratchAt-8), tck.Call(gg.write), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), gg.somewhere(), tck.I32Const(1+v%64), tck.I32Const(scratchAt), tck.Call(gg.poll), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), tck.I32Const(v*v), tck.Call(gg.rnd), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(tck.I32Const(0), tck.I64Const(1), gg.somewhere(), tck.Call(gg.clock), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(tck.I32Const(v%4), gg.somewhere(), tck.I32Const(v*v), tck.Call(gg.log))
	},
	func(gg *gapGuest, v int32) []byte {
		return slices.Concat(gg.somewhere(), tck.I32Const(v*v), tck.Call(gg.list), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte { // the first use of pages, one by one
		return slices.Concat(tck.LocalGet(chain), tck.I32Const(4096), tck.I32Add, tck.I32Const(gg.mask>>1), opcode(0x71), tck.LocalTee(chain), tck.I32Const(1), opcode(wasm.OpI32Store, 0, 4093))
	},
	func(gg *gapGuest, v int32) []byte { // vectors
		const load = wasm.PrefixVector << 16
		combine := load | []wasm.Opcode{0x60, 0x6b, 0xb5, 0xd5, 0xe3, 0xe4, 0xf0}[v%7]
		return slices.Concat(gg.somewhere(), opcode(load, 0, uint32(v)),
			bytesOf(1+int(v)%8, slices.Concat(gg.somewhere(), opcode(load, 0, 1), opcode(combine))), tck.Drop)
	},
	func(gg *gapGuest, v int32) []byte { // calls, behind which globals may be used but are not
		var uses []byte
		for i := range gg.globals / 5 * uint32(1+v%5) {
			uses = slices.Concat(uses, tck.GlobalGet(i), tck.I32Add)
		}
		uses = slices.Concat(tck.LocalGet(0), uses, tck.LocalSet(0))
		return slices.Concat(bytesOf(1+int(v)%8, slices.Concat(tck.LocalGet(0), tck.Call(gg.leaf), tck.Drop)),
			tck.LocalGet(0), tck.I32Const(-1), tck.I32Eq, tck.If, uses, tck.End)
	},
}

func bytesOf(n int, code []byte) []byte { return slices.Concat(slices.Repeat([][]byte{code}, n)...) }

func f64(v float64) []byte {
	bits := *(*[8]byte)(unsafe.Pointer(&v))
	return append([]byte{byte(wasm.OpF64Const)}, bits[:]...)
}

// wasm returns the module.
func (g *genome) wasm() []byte {
	gg := newGapGuest(g)
	gg.functions()
	return gg.build()
}

func (gg *gapGuest) build() []byte {
	slots := int32(1) << (4 + gg.slots%18)
	stride := strides[int(gg.stride)%len(strides)]
	offset := offsets[int(gg.offset)%len(offsets)]
	for int64(slots)*int64(stride)+int64(offset) > int64(gg.size)-(256<<10) && slots > 1 {
		slots /= 2
	}
	at := func() []byte {
		return slices.Concat(tck.I32Const(slots-1), opcode(0x71), tck.I32Const(stride), tck.I32Mul, tck.I32Const(scratchAt+64<<10+offset), tck.I32Add)
	}
	if int64(slots)*int64(stride) > int64(gg.size)-(256<<10) {
		at = func() []byte { return slices.Concat(tck.Drop, tck.I32Const(scratch)) }
	}
	var steps []byte
	for range 1 + gg.reps%16 {
		for _, s := range gg.steps {
			if len(steps) < 20_000 {
				steps = append(steps, stepKinds[s.kind](gg, int32(s.value))...)
			}
		}
	}
	body := slices.Concat(
		tck.I32Const(0), tck.LocalSet(random),
		tck.Loop, // makes the chain: place i points to place 5 i + 12345
		tck.LocalGet(random), at(),
		tck.LocalGet(random), tck.I32Const(5), tck.I32Mul, tck.I32Const(12345), tck.I32Add, at(), opcode(wasm.OpI32Store, 0, 0),
		tck.LocalGet(random), tck.I32Const(1), tck.I32Add, tck.LocalTee(random), tck.I32Const(slots), tck.I32LtU, tck.BranchIf(0),
		tck.End,
		tck.I32Const(0), at(), tck.LocalSet(chain),
		tck.Loop, steps, tck.Branch(0), tck.End,
		tck.I32Const(0),
	)
	manifest := abi.EncodeManifest(&abi.Manifest{Name: gg.name, Version: "1", Controllers: []abi.Controller{
		{Name: "c", For: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}.All()},
	}})
	gg.Memory(uint32(gg.size >> 16))
	gg.Data(512, manifest)
	gg.ExportMemory(abi.ExportMemory)
	gg.Export(abi.ExportMarker, gg.Func(noTypes, noTypes, nil))
	gg.Export(abi.ExportDescribe, gg.Func(noTypes, i32Only, nil, gg.writes(512, int32(len(manifest))), tck.I32Const(0)))
	gg.Export(abi.ExportReconcile, gg.Func(i32Only, i32Only, gapLocals, body))
	return gg.Bytes()
}

// gapMeter measures how much of a processor slices use. It is for one thread.
type gapMeter struct {
	began   time.Duration
	longest time.Duration
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

func (m *gapMeter) onSlice(begins bool) {
	now := threadTime()
	if begins {
		m.began = now
	} else if m.began > 0 {
		m.longest = max(m.longest, now-m.began)
	}
}

// gapOf runs a guest and returns the longest time between two of its ticks.
func gapOf(t testing.TB, s *Sandbox, g *genome) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	guest, err := s.Load(t.Context(), Plugin{Name: "gap", Wasm: g.wasm(), Limits: Limits{Fuel: gapFuel}})
	if err != nil {
		return 0 // too large, or not valid
	}
	defer func() { _ = guest.Close(t.Context()) }()
	var m gapMeter
	onSlice = m.onSlice
	defer func() { onSlice = nil }()
	_, _ = guest.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}, Now: callTime, Host: silent{}})
	return m.longest
}

// silent is a host that answers and keeps nothing.
type silent struct{}

func (silent) Get(context.Context, ReadCall) (Reply, int64) { return Reply{}, abi.CodeNotFound }

func (silent) List(context.Context, ReadCall) (Reply, int64) { return Reply{}, abi.CodeNotFound }
func (silent) Import(context.Context, string, ReadCall) (Reply, int64) {
	return Reply{}, abi.CodeDenied
}
func (silent) Log(int32, []byte) {}

// mutated returns a changed copy.
func (g *genome) mutated(r *rand.Rand) genome {
	out := *g
	out.steps = slices.Clone(g.steps)
	for range 1 + r.IntN(3) {
		switch n := r.IntN(12); {
		case n == 0:
			out.pages = uint8(r.Uint32())
		case n == 1:
			out.slots = uint8(r.Uint32())
		case n == 2:
			out.stride = uint8(r.Uint32())
		case n == 3:
			out.offset = uint8(r.Uint32())
		case n == 4:
			out.big = uint8(r.Uint32())
		case n == 5:
			out.reps = uint8(r.Uint32())
		case n < 8 && len(out.steps) < 12:
			out.steps = slices.Insert(out.steps, r.IntN(len(out.steps)+1), step{uint8(r.IntN(len(stepKinds))), uint8(r.Uint32())})
		case n == 8 && len(out.steps) > 1:
			i := r.IntN(len(out.steps))
			out.steps = slices.Delete(out.steps, i, i+1)
		case len(out.steps) > 0:
			out.steps[r.IntN(len(out.steps))].value = uint8(r.Uint32())
		}
	}
	return out
}

// gapSearch keeps the guests that took longest so far.
type gapSearch struct {
	sandbox *Sandbox
	random  *rand.Rand
	steps   uint64
	best    []foundGap // the longest first
}

type foundGap struct {
	genome genome
	gap    time.Duration
}

const keptGaps = 24

// next runs one more guest and returns what was found.
func (s *gapSearch) next(t testing.TB) foundGap {
	f := foundGap{genome: s.candidate()}
	s.steps++
	f.gap = gapOf(t, s.sandbox, &f.genome)
	for range 3 { // a busy machine disturbs one run, not all
		if f.gap > s.longest()/2 {
			f.gap = min(f.gap, gapOf(t, s.sandbox, &f.genome))
		}
	}
	s.best = append(s.best, f)
	slices.SortFunc(s.best, func(a, b foundGap) int { return cmp.Compare(b.gap, a.gap) })
	s.best = s.best[:min(len(s.best), keptGaps)]
	return f
}

// candidate returns the next guest to try: each kind of step alone at first, with a
// small memory and a large one, and then a change of one that took long.
func (s *gapSearch) candidate() genome {
	n := len(s.best)
	switch first := int(s.steps); {
	case first < 2*len(stepKinds):
		return genome{pages: 2 + 8*uint8(first%2), slots: 17, stride: 2, offset: 1, big: 200, reps: 3, steps: []step{{uint8(first / 2), 255}}}
	case s.random.IntN(12) == 0:
		g := genome{steps: []step{{uint8(s.random.IntN(len(stepKinds))), uint8(s.random.Uint32())}}}
		return g.mutated(s.random)
	default:
		return s.best[min(s.random.IntN(n), s.random.IntN(n))].genome.mutated(s.random)
	}
}

func (s *gapSearch) longest() time.Duration {
	if len(s.best) == 0 {
		return 0
	}
	return s.best[0].gap
}

// FuzzTickGap looks for a guest that runs for longer than maxGap between two ticks.
// Each input is one more step of a search that goes on from the guests which took
// longest so far: a guest that is found is in the message, not in the input.
func FuzzTickGap(f *testing.F) {
	s := gapSearch{sandbox: newSandbox(f, Config{})}
	limit := time.Duration(float64(maxGap) * slowness())
	f.Fuzz(func(t *testing.T, seed uint64) {
		s.random = rand.New(rand.NewPCG(seed, s.steps))
		if found := s.next(t); found.gap > limit {
			t.Fatalf("%v between two ticks, the limit is %v: %s", found.gap, limit, &found.genome)
		}
	})
}

// BenchmarkTickGap is the same search. It reports the longest time between two ticks
// that it finds, and how much longer a cache miss takes than 200 ns.
func BenchmarkTickGap(b *testing.B) {
	s := gapSearch{sandbox: newSandbox(b, Config{}), random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))}
	for b.Loop() {
		s.next(b)
	}
	b.ReportMetric(float64(s.longest())/float64(time.Millisecond), "longest-ms")
	b.ReportMetric(slowness(), "slowness")
	for _, f := range s.best[:min(3, len(s.best))] {
		b.Logf("%v %s", f.gap, &f.genome)
	}
}

// slowness returns how much longer than 200 ns a cache miss takes on this machine: at
// least 1.
func slowness() float64 {
	const line, lines, reads = 64, 1 << 20, 1 << 18
	memory := make([]uint32, lines*line/4)
	for i := range uint32(lines) {
		memory[i*line/4] = (i*1664525 + 1013904223) % lines // each line once, in an order that is not foreseen
	}
	at := uint32(0)
	began := threadTime()
	for range reads {
		at = memory[at*line/4]
	}
	took := threadTime() - began + time.Duration(at&1)
	return max(1, float64(took)/reads/200)
}
