package meter

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// This file generates valid modules: the instructions are drawn at random, and
// the types of operands are respected.

type types []wasm.ValueType

var (
	i32s = types{wasm.I32}
	i64s = types{wasm.I64}
)

// signatures are the types of the generated functions.
var signatures = []struct{ params, results types }{
	{nil, nil},
	{nil, i32s},
	{i32s, i32s},
	{types{wasm.I32, wasm.I64}, i64s},
	{i64s, types{wasm.I32, wasm.I64}},
}

// generator writes one module.
type generator struct {
	t       *rapid.T
	m       tck.Module
	kinds   []int // signature of each function, the imported one first
	globals types
	segment uint32
	tables  uint32
	left    int // instructions that may still be added
}

// generate draws a module. Its function "run" takes nothing and returns an i32;
// the imported function "same" returns its argument.
func generate(t *rapid.T) []byte {
	g := &generator{t: t, globals: types{wasm.I32, wasm.I64, wasm.I32}}
	g.m.Import("env", "same", i32s, i32s)
	g.kinds = []int{2, 1} // run is the first
	for range g.number(0, 6) {
		g.kinds = append(g.kinds, g.number(0, len(signatures)-1))
	}
	g.state()
	for _, kind := range g.kinds[1:] {
		g.function(kind)
	}
	g.m.Export("run", 1)
	return g.m.Bytes()
}

func (g *generator) number(low, high int) int { return rapid.IntRange(low, high).Draw(g.t, "n") }

// one is true one in n times.
func (g *generator) one(n int) bool { return g.number(1, n) == 1 }

// state adds memory, tables, globals and segments.
func (g *generator) state() {
	g.m.Memory(1)
	g.m.ExportMemory("memory")
	g.m.Data(0, pattern(60_000))
	g.tables = 2
	g.m.TableUpTo(uint32(g.number(1, 200)), 300)
	g.m.TableUpTo(200, 200)
	g.m.Elements(0, 1)
	for i := range g.kinds {
		if g.one(2) {
			g.m.Elements(0, tck.Func(i))
		}
	}
	g.m.GlobalOf(wasm.I32, tck.I32Const(int32(g.number(0, 5))))
	g.m.GlobalOf(wasm.I64, tck.I64Const(7))
	g.m.GlobalOf(wasm.I32, tck.I32Const(int32(g.number(5, 3000))))
	for i := range g.globals {
		g.m.ExportGlobal(string(rune('a'+i)), uint32(i))
	}
	g.segment = g.m.Passive(pattern(g.number(0, 3000)))
}

// pattern returns bytes of which no two near ones are equal.
func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	return out
}

// steps is the global that counts down in functions and loops: at zero they
// return, so that most generated modules end.
const steps = 2

// body writes one function.
type body struct {
	*generator
	code   []byte
	locals types // parameters first
	labels []label
}

// label is a block that is open. A branch to a loop carries no values.
type label struct {
	types types
	loop  bool
}

func (g *generator) function(kind int) {
	s := signatures[kind]
	own := types{wasm.I32, wasm.I64, wasm.I32}
	b := &body{generator: g, locals: append(slices.Clone(s.params), own...)}
	b.labels = []label{{types: s.results}}
	g.left = g.number(1, 120)
	if !g.one(4) {
		b.guard(func() {
			b.values(s.results)
			b.emit(tck.Return)
		})
	}
	b.statements()
	b.exprs(s.results)
	g.m.Func(s.params, s.results, own, b.code)
}

func (b *body) emit(instructions ...[]byte) {
	for _, i := range instructions {
		b.code = append(b.code, i...)
		b.left--
	}
}

// guard counts a step, and runs leave when there are none left.
func (b *body) guard(leave func()) {
	b.emit(tck.GlobalGet(steps), tck.I32Eqz, tck.If)
	leave()
	b.emit(tck.End, tck.GlobalGet(steps), tck.I32Const(1), tck.I32Sub, tck.GlobalSet(steps))
}

// values pushes constants.
func (b *body) values(ts types) {
	for _, t := range ts {
		b.constant(t)
	}
}

func (b *body) constant(t wasm.ValueType) {
	if t == wasm.I64 {
		b.emit(tck.I64Const(int64(b.number(-3, 300))))
		return
	}
	b.emit(tck.I32Const(int32(b.number(-3, 300))))
}

// statements writes statements, which leave the stack as it is. Some of them
// come after a jump and are never executed.
func (b *body) statements() {
	for range b.number(0, 5) {
		if b.left <= 0 {
			return
		}
		b.statement()
	}
}

func (b *body) statement() {
	choices := []func(){
		func() { b.expr(wasm.I32); b.emit(tck.Drop) },
		func() { b.expr(wasm.I64); b.emit(tck.Drop) },
		func() { b.set(wasm.I32) },
		func() { b.set(wasm.I64) },
		func() { b.exprs(types{wasm.I32, wasm.I32}); b.emit(tck.I32Store) },
		b.block, b.block, b.loop, b.loop, b.loop, b.condition, b.condition,
		b.jumpIf, b.jump, b.table, b.leave,
		b.bulk, b.bulkTable, b.call, b.call, b.call, b.indirect, b.indirect,
	}
	choices[b.number(0, len(choices)-1)]()
}

func (b *body) set(t wasm.ValueType) {
	b.expr(t)
	if i := b.local(t); i >= 0 && b.one(2) {
		b.emit(tck.LocalSet(uint32(i)))
		return
	}
	b.emit(tck.GlobalSet(map[wasm.ValueType]uint32{wasm.I32: 0, wasm.I64: 1}[t]))
}

// local draws a local of that type.
func (b *body) local(t wasm.ValueType) int {
	at := b.number(0, len(b.locals)-1)
	for i := range b.locals {
		if j := (at + i) % len(b.locals); b.locals[j] == t {
			return j
		}
	}
	return -1
}

func (b *body) open(l label, start ...[]byte) {
	b.emit(start...)
	b.labels = append(b.labels, l)
}

func (b *body) close() {
	b.emit(tck.End)
	b.labels = b.labels[:len(b.labels)-1]
}

func (b *body) block() {
	b.open(label{}, tck.Block)
	b.statements()
	b.close()
}

// loop runs a number of times, or until no steps are left, or by conditions
// that the statements in it compute.
func (b *body) loop() {
	counter := uint32(b.local(wasm.I32))
	bounded := b.one(2)
	if bounded {
		b.emit(tck.I32Const(int32(b.number(1, 20))), tck.LocalSet(counter))
	}
	b.open(label{}, tck.Block)
	b.open(label{loop: true}, tck.Loop)
	if !b.one(5) {
		b.guard(func() { b.emit(tck.Branch(2)) })
	}
	b.statements()
	if bounded {
		b.emit(tck.LocalGet(counter), tck.I32Const(1), tck.I32Sub, tck.LocalTee(counter), tck.BranchIf(0))
	} else if b.one(2) {
		b.expr(wasm.I32)
		b.emit(tck.BranchIf(0))
	}
	b.close()
	b.close()
}

func (b *body) condition() {
	b.expr(wasm.I32)
	b.open(label{}, tck.If)
	b.statements()
	if b.one(2) {
		b.emit(tck.Else)
		b.statements()
	}
	b.close()
}

// target draws a label and pushes the values that a branch to it carries.
func (b *body) target() uint32 {
	depth := b.number(0, len(b.labels)-1)
	if l := b.labels[len(b.labels)-1-depth]; !l.loop {
		b.values(l.types)
	}
	return uint32(depth)
}

func (b *body) jump() {
	b.emit(tck.Block)
	b.labels = append(b.labels, label{})
	b.emit(tck.Branch(b.target()))
	if b.one(3) {
		b.statements() // never executed
	}
	b.close()
}

func (b *body) leave() {
	b.expr(wasm.I32)
	b.open(label{}, tck.If)
	if b.one(10) {
		b.emit(tck.Unreachable)
	} else {
		b.values(b.labels[0].types)
		b.emit(tck.Return)
	}
	if b.one(3) {
		b.statements()
	}
	b.close()
}

// targetWithoutValues draws a label to which a branch carries no values, if
// there is one.
func (b *body) targetWithoutValues() (depth uint32, ok bool) {
	at := b.number(0, len(b.labels)-1)
	for i := range b.labels {
		depth := (at + i) % len(b.labels)
		if l := b.labels[len(b.labels)-1-depth]; l.loop || len(l.types) == 0 {
			return uint32(depth), true
		}
	}
	return 0, false
}

func (b *body) jumpIf() {
	if depth, ok := b.targetWithoutValues(); ok {
		b.expr(wasm.I32)
		b.emit(tck.BranchIf(depth))
	}
}

func (b *body) table() {
	var depths []uint32
	for range b.number(1, 4) {
		depth, ok := b.targetWithoutValues()
		if !ok {
			return
		}
		depths = append(depths, depth+1)
	}
	b.open(label{}, tck.Block)
	b.expr(wasm.I32)
	b.emit(tck.BranchTable(depths...))
	b.close()
}

// call calls any function and drops its results.
func (b *body) call() {
	i := b.number(0, len(b.kinds)-1)
	s := signatures[b.kinds[i]]
	b.exprs(s.params)
	b.emit(tck.Call(tck.Func(i)))
	for range s.results {
		b.emit(tck.Drop)
	}
}

func (b *body) indirect() {
	s := signatures[b.number(0, len(signatures)-1)]
	b.exprs(s.params)
	b.emit(tck.I32Const(int32(b.number(0, 8))), tck.CallIndirect(b.m.Type(s.params, s.results)))
	for range s.results {
		b.emit(tck.Drop)
	}
}
