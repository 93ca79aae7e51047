package sandbox

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/wasi"
)

// This file has guests that are made for one test: a body of reconcile, and
// around it what thole/v1 requires.

type types = []wasm.ValueType

var (
	noTypes     types
	i32Only     = types{i32}
	i64Only     = types{i64}
	ptrLen      = types{i32, i32}
	levelPtrLen = types{i32, i32, i32}
)

// resultText is the result of the guests, which is in their memory at 0.
const resultText = `{"result":"success"}`

// scratch is where 64 KiB of free memory begin.
const scratch = 64 << 10

// An instance of these guests has 128 KiB, and its image 4 KiB.
const (
	testInstanceBytes = 128 << 10
	testImageBytes    = 4 << 10
)

type testGuest struct {
	tck.Module
	name    string
	maximum uint32 // pages of memory; 0: none
	waits   bool   // its manifest has the capability [waiting]
	output  tck.Func
}

func newTestGuest(name string) *testGuest {
	tg := &testGuest{name: name}
	tg.output = tg.Import(abi.ImportModule, abi.ImportOutput, ptrLen, noTypes)
	return tg
}

// writes appends a range of memory to the output.
func (tg *testGuest) writes(at, length int32) []byte {
	return slices.Concat(tck.I32Const(at), tck.I32Const(length), tck.Call(tg.output))
}

// ok writes the result and returns 0.
func (tg *testGuest) ok() []byte {
	return append(tg.writes(0, int32(len(resultText))), tck.I32Const(0)...)
}

// get imports get. Like all imports it must come before the first function.
func (tg *testGuest) get() tck.Func {
	return tg.Import(abi.ImportModule, abi.ImportGet, ptrLen, i64Only)
}

// getCall calls get with a message that tests do not look at.
func getCall(get tck.Func) []byte {
	return slices.Concat(tck.I32Const(0), tck.I32Const(4), tck.Call(get))
}

// trapUnless traps unless the instructions push the i32 n.
func trapUnless(n int32, instructions ...[]byte) []byte {
	return slices.Concat(slices.Concat(instructions...), tck.I32Const(n), tck.I32Ne, tck.If, tck.Unreachable, tck.End)
}

func (tg *testGuest) build(locals types, body ...[]byte) []byte {
	m := &abi.Manifest{Name: tg.name, Version: "1", Controllers: []abi.Controller{
		{Name: "c", For: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}.All()},
	}}
	if tg.waits {
		m.Controllers[0].Sections = []abi.Section{{Name: waiting().Name, Value: []byte("[]")}}
	}
	manifest := abi.EncodeManifest(m)
	if tg.maximum > 0 {
		tg.MemoryUpTo(2, tg.maximum)
	} else {
		tg.Memory(2)
	}
	tg.Data(0, []byte(resultText))
	tg.Data(512, manifest)
	tg.ExportMemory(abi.ExportMemory)
	tg.Export(abi.ExportMarker, tg.Func(noTypes, noTypes, nil))
	tg.Export(abi.ExportDescribe, tg.Func(noTypes, i32Only, nil, tg.writes(512, int32(len(manifest))), tck.I32Const(0)))
	tg.Export(abi.ExportReconcile, tg.Func(i32Only, i32Only, locals, body...))
	return tg.Bytes()
}

// succeeding returns a guest that does nothing but succeed.
func succeeding(name string) []byte { return callingGet(name, 0) }

// callingGet returns a guest that calls get n times and succeeds.
func callingGet(name string, n int) []byte {
	tg := newTestGuest(name)
	get := tg.get()
	var body [][]byte
	for range n {
		body = append(body, getCall(get), tck.Drop)
	}
	return tg.build(nil, append(body, tg.ok())...)
}

// trappingOnOneByte returns a guest that traps for requests of one byte.
func trappingOnOneByte(name string) []byte {
	tg := newTestGuest(name)
	return tg.build(nil, tck.LocalGet(0), tck.I32Const(1), tck.I32Ne, tck.If, tck.Else, tck.Unreachable, tck.End, tg.ok())
}

// needingInitialize returns a guest that traps unless _initialize has run.
func needingInitialize(name string) []byte {
	tg := newTestGuest(name)
	tg.Export(abi.ExportInitialize, tg.Func(noTypes, noTypes, nil, tck.I32Const(scratch), tck.I32Const(5), tck.I32Store))
	return tg.build(nil, trapUnless(5, tck.I32Const(scratch), tck.I32Load), tg.ok())
}

// returningRandomAndTime returns a guest whose output is 16 random bytes and the
// time.
func returningRandomAndTime(name string) []byte {
	tg := newTestGuest(name)
	random := tg.Import(wasi.ImportModule, "random_get", ptrLen, i32Only)
	clock := tg.Import(wasi.ImportModule, "clock_time_get", types{i32, i64, i32}, i32Only)
	return tg.build(nil,
		tck.I32Const(scratch), tck.I32Const(16), tck.Call(random), tck.Drop,
		tck.I32Const(0), tck.I64Const(0), tck.I32Const(scratch+16), tck.Call(clock), tck.Drop,
		tg.writes(scratch, 24), tck.I32Const(0))
}

// succeedingIfSeven returns a guest that succeeds if n is 7, and traps otherwise.
// Such guests differ in their code only.
func succeedingIfSeven(name string, n int32) []byte {
	tg := newTestGuest(name)
	return tg.build(nil, trapUnless(7, tck.I32Const(n)), tg.ok())
}

// loopingInInitialize returns a guest whose _initialize never returns.
func loopingInInitialize(name string) []byte {
	tg := newTestGuest(name)
	tg.Export(abi.ExportInitialize, tg.Func(noTypes, noTypes, nil, tck.Loop, tck.Branch(0), tck.End))
	return tg.build(nil, tg.ok())
}

// overflowingInInitialize returns a guest whose own stack grows below address zero in _initialize: its stack pointer
// is in the first global, as LLVM has it.
func overflowingInInitialize(name string) []byte {
	tg := newTestGuest(name)
	top := tg.Global(1024)
	tg.Export(abi.ExportInitialize, tg.Func(noTypes, noTypes, nil,
		tck.GlobalGet(top), tck.I32Const(2048), tck.I32Sub, tck.GlobalSet(top), tck.GlobalGet(top), tck.I32Load, tck.Drop))
	return tg.build(nil, tg.ok())
}

// spinningAfterGet returns a guest that calls get and then loops without end.
func spinningAfterGet(name string) []byte {
	tg := newTestGuest(name)
	get := tg.get()
	return tg.build(nil, getCall(get), tck.Drop, tck.Loop, tck.Branch(0), tck.End, tck.I32Const(0))
}

// nestingCalls returns a guest that nests as many calls as its request has bytes.
func nestingCalls(name string) []byte {
	tg := newTestGuest(name)
	self := tg.output + 1
	tg.Func(i32Only, noTypes, nil,
		tck.LocalGet(0), tck.If,
		tck.LocalGet(0), tck.I32Const(1), tck.I32Sub, tck.Call(self),
		tck.End)
	return tg.build(nil, tck.LocalGet(0), tck.Call(self), tg.ok())
}

// growingBy returns a guest that grows by pages. It traps if it cannot, or if
// what it wrote before is lost.
func growingBy(name string, pages int32) []byte {
	tg := newTestGuest(name)
	return tg.build(nil,
		tck.I32Const(scratch), tck.I32Const(7), tck.I32Store,
		tck.I32Const(pages), tck.MemoryGrow, tck.I32Const(-1), tck.I32Eq, tck.If, tck.Unreachable, tck.End,
		trapUnless(7, tck.I32Const(scratch), tck.I32Load),
		tg.ok())
}

// takingAllMemory returns a guest that takes all the memory that it gets, and
// then calls get.
func takingAllMemory(name string) []byte {
	tg := newTestGuest(name)
	get := tg.get()
	return tg.build(nil,
		tck.Block, tck.Loop, tck.I32Const(1), tck.MemoryGrow, tck.I32Const(-1), tck.I32Eq, tck.BranchIf(1), tck.Branch(0), tck.End, tck.End,
		getCall(get), tck.Drop, tg.ok())
}

// withCustomSection returns a guest that succeeds and has a custom section.
func withCustomSection(name, section string) []byte {
	tg := newTestGuest(name)
	tg.Custom(section, nil)
	return tg.build(nil, tg.ok())
}
