package meter

import (
	"fmt"

	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// emitter writes a module with the checks of its plan.
type emitter struct {
	plan   *plan
	fuel   uint32 // the added global; those that hold references are behind it
	refuel uint32 // the added function that calls tick; the helpers are behind it
}

// imports is the number of functions that are added as imports.
const imports = 1

var tickType = wasm.Signature([]wasm.ValueType{wasm.I64}, wasm.I64)

// write writes the module of a plan.
func write(p *plan, exports []wasm.Export) ([]byte, error) {
	e := &emitter{plan: p, fuel: uint32(len(p.m.Globals)), refuel: uint32(len(p.m.Functions)) + imports}
	functions := []module.Defined{{Name: framePrefix + "refuel", Type: wasm.FuncType{}, Code: e.refuelCode()}}
	for _, h := range p.helpers {
		functions = append(functions, e.define(h))
	}
	return p.m.Write(module.Additions{
		Imports:   []wasm.Import{{Module: ImportModule, Name: ImportTick, Kind: wasm.KindFunction, Type: tickType}},
		Globals:   append([][]byte{wasm.AppendGlobal(nil, wasm.I64, wasm.AppendConst(nil, wasm.OpI64Const, 0))}, e.references()...),
		Functions: functions,
		Exports:   append([]wasm.Export{{Name: FuelExport, Kind: wasm.KindGlobal, Index: e.fuel}}, exports...),
		Body:      e.body,
	})
}

// references returns globals with the references that code makes by ref.func, behind
// that of the fuel. The engine allocates at each ref.func, until the instance is
// closed; in place of it code gets the global.
func (e *emitter) references() [][]byte {
	m := e.plan.m
	globals := make([][]byte, len(m.Referenced))
	for f, i := range m.Referenced {
		globals[i] = wasm.AppendGlobal(nil, wasm.FuncRef, wasm.AppendOp(nil, wasm.OpRefFunc, m.Moved(f, imports)))
	}
	return globals
}

func (e *emitter) refuelCode() []byte {
	var c code
	c.op(wasm.OpGlobalGet, e.fuel)
	c.op(wasm.OpCall, uint32(e.plan.m.Imported))
	c.op(wasm.OpGlobalSet, e.fuel)
	c.op(wasm.OpEnd)
	return c
}

// body writes a function with its checks.
func (e *emitter) body(i int, out []byte) []byte {
	b := &e.plan.m.Bodies[i]
	checks := e.plan.checks[i]
	c := code(out)
	var in, last wasm.Instruction
	for s := b.Instructions(); s.Next(&in); last = in {
		for len(checks) > 0 && checks[0].at == in.At {
			e.check(&c, checks[0].amount)
			checks = checks[1:]
		}
		e.instruction(&c, in, &last)
	}
	if len(checks) > 0 { // a bug in this package
		e.plan.err = fmt.Errorf("function %d: no place for the check at byte %d", e.plan.m.Imported+i, checks[0].at)
	}
	return c
}

func (e *emitter) instruction(c *code, in wasm.Instruction, last *wasm.Instruction) {
	switch {
	case in.Op == wasm.OpRefFunc:
		c.op(wasm.OpGlobalGet, e.fuel+1+uint32(e.plan.m.Referenced[in.A]))
		return
	case in.Op == wasm.OpCall:
		in.A = e.plan.m.Moved(in.A, imports)
	case isBulk(in.Op):
		at, planned := e.plan.index[helperOf(&in)]
		if _, small := smallLength(&in, last); planned && !small {
			c.op(wasm.OpCall, e.refuel+1+uint32(at))
			return
		}
	case e.plan.remainders && isRemainder(in.Op):
		if at, planned := e.plan.index[helperOf(&in)]; planned {
			c.op(wasm.OpCall, e.refuel+1+uint32(at))
			return
		}
	}
	*c = in.Append(*c)
}

// check pays an amount in advance.
func (e *emitter) check(c *code, amount int64) {
	c.op(wasm.OpGlobalGet, e.fuel)
	c.i64(max(1, amount))
	c.op(wasm.OpI64Sub)
	e.pay(c)
}

// pay stores the fuel that is on the stack, and calls for more if it is
// negative. The global is read back right after it was written because the
// engine then uses the value that it still has in a register.
func (e *emitter) pay(c *code) {
	c.op(wasm.OpGlobalSet, e.fuel)
	c.op(wasm.OpGlobalGet, e.fuel)
	c.i64(0)
	c.op(wasm.OpI64LtS)
	c.block(wasm.OpIf)
	c.op(wasm.OpCall, e.refuel)
	c.op(wasm.OpEnd)
}

// code is WebAssembly that is being written.
type code []byte

func (c *code) op(op wasm.Opcode, immediates ...uint32) { *c = wasm.AppendOp(*c, op, immediates...) }

func (c *code) ops(ops ...wasm.Opcode) {
	for _, op := range ops {
		c.op(op)
	}
}

func (c *code) block(op wasm.Opcode) { *c = wasm.AppendBlock(*c, op) }

func (c *code) i32(v int32) { *c = wasm.AppendConst(*c, wasm.OpI32Const, int64(v)) }

func (c *code) i64(v int64) { *c = wasm.AppendConst(*c, wasm.OpI64Const, v) }

func (c *code) get(locals ...uint32) {
	for _, l := range locals {
		c.op(wasm.OpLocalGet, l)
	}
}
