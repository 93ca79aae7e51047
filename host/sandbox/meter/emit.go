package meter

import (
	"fmt"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// emitter writes a module with the checks of its plan.
type emitter struct {
	plan    *plan
	plain   bool
	fuel    uint32 // the added global
	refuel  uint32 // the added function that calls tick
	helpers []helper
	index   map[helper]uint32 // of its function
	err     error
}

func newEmitter(p *plan) *emitter {
	return &emitter{
		plan:   p,
		fuel:   uint32(len(p.m.Globals)),
		refuel: uint32(len(p.m.Functions)) + imports,
		index:  map[helper]uint32{},
	}
}

// imports is how many functions are added as imports.
const imports = 1

var tickType = module.Signature([]module.ValueType{module.I64}, []module.ValueType{module.I64})

func (e *emitter) write(exports []module.Export) ([]byte, error) {
	bodies := e.collect()
	return e.plan.m.Write(module.Additions{
		Imports:   []module.Import{{Module: ImportModule, Name: ImportTick, Kind: module.Function, Type: tickType}},
		Globals:   []module.Init{{Type: module.I64, Value: zero()}},
		Functions: bodies,
		Exports:   append([]module.Export{{Name: FuelExport, Kind: module.GlobalKind, Index: e.fuel}}, exports...),
		Body:      e.body,
	})
}

func zero() []byte {
	var c code
	c.i64(0)
	return c
}

// collect finds the helpers that the code needs, and lists the functions that
// are added.
func (e *emitter) collect() []module.Defined {
	var in, last module.Instruction
	for i := range e.plan.m.Bodies {
		for s := e.plan.m.Bodies[i].Instructions(); s.Next(&in); last = in {
			if _, ok := small(&in, &last); ok || !isBulk(in.Op) {
				continue
			}
			if h := helperOf(&in); e.index[h] == 0 {
				e.helpers = append(e.helpers, h)
				e.index[h] = e.refuel + uint32(len(e.helpers))
			}
		}
	}
	out := []module.Defined{{Name: framePrefix + "refuel", Type: module.Signature(nil, nil), Code: e.refuelCode()}}
	for _, h := range e.helpers {
		out = append(out, e.define(h))
	}
	return out
}

func (e *emitter) refuelCode() []byte {
	var c code
	c.index(module.OpGlobalGet, e.fuel)
	c.index(module.OpCall, uint32(e.plan.m.Imported))
	c.index(module.OpGlobalSet, e.fuel)
	c.end()
	return c
}

// body writes a function with its checks.
func (e *emitter) body(i int, out []byte) []byte {
	b := &e.plan.m.Bodies[i]
	checks := e.plan.checks[i]
	e.plan.report.Before += b.Size()
	start := len(out)
	c := code(out)
	var in, last module.Instruction
	for s := b.Instructions(); s.Next(&in); last = in {
		for len(checks) > 0 && checks[0].at == in.At {
			e.check(&c, checks[0].amount)
			checks = checks[1:]
		}
		e.instruction(&c, in, &last)
	}
	if len(checks) > 0 { // it would be a mistake of this package
		e.err = fmt.Errorf("function %d: no place for the check at byte %d", e.plan.m.Imported+i, checks[0].at)
	}
	e.plan.report.After += len(c) - start
	return c
}

func (e *emitter) instruction(c *code, in module.Instruction, last *module.Instruction) {
	switch {
	case in.Op == module.OpCall, in.Op == module.OpRefFunc:
		in.A = e.plan.m.Moved(in.A, imports)
	case isBulk(in.Op) && !e.plain:
		if _, ok := small(&in, last); !ok {
			c.index(module.OpCall, e.index[helperOf(&in)])
			return
		}
	}
	*c = in.Append(*c)
}

// check pays an amount in advance.
func (e *emitter) check(c *code, amount int64) {
	c.index(module.OpGlobalGet, e.fuel)
	c.i64(max(1, amount))
	c.op(opI64Sub)
	e.pay(c)
}

// pay stores the fuel on the stack, and calls for more if it is negative. The
// engine knows what is in the global then, and does not load it.
func (e *emitter) pay(c *code) {
	c.index(module.OpGlobalSet, e.fuel)
	c.index(module.OpGlobalGet, e.fuel)
	c.i64(0)
	c.op(opI64LtS)
	c.when()
	c.index(module.OpCall, e.refuel)
	c.end()
}
