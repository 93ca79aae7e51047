package module

import (
	"bytes"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// TestIndexBeyondTheModulesOwnIsRefused: what is added behind a module's own
// functions, globals and types must not make a module valid that was not, or
// let it name what was added. Each case has the first index that does not exist.
func TestIndexBeyondTheModulesOwnIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(m *tck.Module)
	}{
		{"call", "no function 3", inBody(0x10, 3)},
		{"ref.func", "no function 3", inBody(0xd2, 3, 0x1a)},
		{"global.get", "no global 1", inBody(0x23, 1, 0x1a)},
		{"global.set", "no global 1", inBody(0x41, 0, 0x24, 1)},
		{"local.get", "no local 2", inBody(0x20, 2, 0x1a)},
		{"local.set", "no local 2", inBody(0x41, 0, 0x21, 2)},
		{"local.tee", "no local 2", inBody(0x41, 0, 0x22, 2, 0x1a)},
		{"type of a block", "no type 1", inBody(0x02, 1, 0x0b)},
		{"type of a loop", "no type 1", inBody(0x03, 1, 0x0b)},
		{"type of an if", "no type 1", inBody(0x41, 0, 0x04, 1, 0x0b)},
		{"type of call_indirect", "no type 1", inBody(0x41, 0, 0x11, 1, 0)},
		{"table of call_indirect", "no table 1", inBody(0x41, 0, 0x11, 0, 1)},
		{"table.get", "no table 1", inBody(0x41, 0, 0x25, 1, 0x1a)},
		{"table.set", "no table 1", inBody(0x41, 0, 0xd0, 0x70, 0x26, 1)},
		{"table.size", "no table 1", inBody(0xfc, 16, 1, 0x1a)},
		{"source of table.copy", "no table 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 0, 1)},
		{"destination of table.copy", "no table 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 1, 0)},
		{"memory.size", "no memory 1", inBody(0x3f, 1, 0x1a)},
		{"memory.grow", "no memory 1", inBody(0x41, 0, 0x40, 1, 0x1a)},
		{"memory.fill", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 1)},
		{"memory.init", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 1)},
		{"source of memory.copy", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 10, 0, 1)},
		{"destination of memory.copy", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 10, 1, 0)},
		{"export of a function", "no function 2", func(m *tck.Module) { m.Export("x", 2) }},
		{"export of a global", "no global 1", func(m *tck.Module) { m.ExportGlobal("x", 1) }},
		{"start", "no function 2", func(m *tck.Module) { m.Start(2) }},
		{"start with a result", "start function 2 has parameters or results", func(m *tck.Module) { m.Start(m.Func(nil, []wasm.ValueType{wasm.I32}, nil, tck.I32Const(1))) }},
		{"element", "no function 2", func(m *tck.Module) { m.Elements(0, 2) }},
		{"passive element", "no function 2", func(m *tck.Module) { m.PassiveElements(2) }},
		{"declared element", "no function 2", func(m *tck.Module) { m.Declare(2) }},
		{"element by expression", "no function 2", func(m *tck.Module) { m.Expressions(0, tck.RefFunc(2)) }},
		{"global that starts with a reference", "no function 2", func(m *tck.Module) { m.GlobalOf(wasm.FuncRef, tck.RefFunc(2)) }},
		{"global that starts with a global", "no global 1", func(m *tck.Module) { m.GlobalOf(wasm.I32, tck.GlobalGet(1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse(small(nil)); err != nil {
				t.Fatalf("without the change: %v", err)
			}
			if _, err := Parse(small(c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// small returns a module with two functions, a global, a table and a type.
func small(change func(m *tck.Module)) []byte {
	var m tck.Module
	m.Import("thole/v1", "nothing", nil, nil)
	m.Func(nil, nil, nil)
	m.Table(1)
	m.Memory(1)
	m.Global(0)
	if change != nil {
		change(&m)
	}
	return m.Bytes()
}

// inBody adds a function with two locals.
func inBody(code ...byte) func(m *tck.Module) {
	return func(m *tck.Module) { m.Func(nil, nil, i32s(2), code) }
}

func TestNestingOfBlocksIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		body []byte // without the function's own end
		want string // in the error; "" is none
	}{
		"nested":             {join(tck.Block, tck.Loop, tck.I32Const(1), tck.If, tck.Else, tck.End, tck.End, tck.End), ""},
		"stray else":         {tck.Else, "an else without an if"},
		"else in a loop":     {join(tck.Loop, tck.Else, tck.End), "an else without an if"},
		"two elses":          {join(tck.I32Const(1), tck.If, tck.Else, tck.Else, tck.End), "an else without an if"},
		"stray end":          {tck.End, "behind the function's end"},
		"code after the end": {join(tck.End, tck.Nop), "behind the function's end"},
		"open block":         {tck.Block, "the function has no end"},
	} {
		t.Run(name, func(t *testing.T) {
			var m tck.Module
			m.Func(nil, nil, nil, c.body)
			_, err := Parse(m.Bytes())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// TestHeavyFunctionsAreRefused: each is a few ten thousand bytes that would
// keep the engine busy for a minute, or fill gigabytes of its memory.
func TestHeavyFunctionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		heavy func(m *tck.Module) []byte // instructions that can be repeated
		fits  int                        // how many times they are accepted
	}{
		"blocks":    {func(*tck.Module) []byte { return join(tck.Block, tck.End) }, maxWeight},
		"loops":     {func(*tck.Module) []byte { return join(tck.Loop, tck.End) }, maxWeight},
		"ifs":       {func(*tck.Module) []byte { return join(tck.LocalGet(0), tck.If, tck.Else, tck.End) }, maxWeight / 2},
		"jumps":     {func(*tck.Module) []byte { return join(tck.LocalGet(0), tck.BranchIf(0)) }, maxWeight},
		"divisions": {func(*tck.Module) []byte { return join(tck.LocalGet(0), tck.LocalGet(0), tck.I32DivS, tck.Drop) }, maxWeight},
		"growth":    {func(*tck.Module) []byte { return join(tck.LocalGet(0), tck.MemoryGrow, tck.Drop) }, maxWeight},
		"fills": {func(*tck.Module) []byte {
			return join(tck.LocalGet(0), tck.LocalGet(0), tck.LocalGet(0), tck.MemoryFill)
		}, maxWeight / bulkWeight},
		"branch tables": {func(*tck.Module) []byte {
			return join(tck.Block, tck.LocalGet(0), tck.BranchTable(make([]uint32, 1023)...), tck.End)
		}, maxWeight / 1024},
		"indirect calls": {func(m *tck.Module) []byte {
			return join(tck.LocalGet(0), m.CallIndirect(), tck.Drop)
		}, maxWeight / indirectWeight},
		"wide calls": {func(m *tck.Module) []byte {
			return tck.Call(m.Func(i32s(512), i32s(512), nil, tck.Unreachable))
		}, maxWeight / (1024 / valuesPerWeight)},
		"wide loops": {func(m *tck.Module) []byte {
			return join(tck.LoopOf(m.Type(i32s(508), i32s(508))), tck.End)
		}, maxWeight / (1 + 1016/valuesPerWeight)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, times := range []int{c.fits, c.fits + 1} {
				var m tck.Module
				m.Memory(1)
				m.Table(1)
				body := bytes.Repeat(c.heavy(&m), times)
				m.Func(i32s(1), nil, nil, body)
				_, err := Parse(m.Bytes())
				if heavy := err != nil && strings.Contains(err.Error(), "weighs"); heavy != (times > c.fits) {
					t.Errorf("%d times: %v", times, err)
				}
			}
		})
	}
}

func TestLocalsOfAllFunctionsAreBounded(t *testing.T) {
	locals := i32s(10_000)
	var m tck.Module
	for range maxAllLocals/len(locals) + 1 {
		m.Func(nil, nil, locals)
	}
	if _, err := Parse(m.Bytes()); err == nil || !strings.Contains(err.Error(), "in all functions together") {
		t.Errorf("error = %v", err)
	}
}

func TestElementsOfAllSegmentsAreBounded(t *testing.T) {
	var m tck.Module
	m.Table(1)
	m.Func(nil, nil, nil)
	for range 3 {
		m.Elements(0, make([]tck.Func, maxElements/2)...)
	}
	if _, err := Parse(m.Bytes()); err == nil || !strings.Contains(err.Error(), "elements") {
		t.Errorf("error = %v", err)
	}
}

func TestReferencesOfCodeAreBounded(t *testing.T) {
	var m tck.Module
	var body []byte
	for i := range maxReferenced + 1 {
		f := m.Func(nil, nil, nil)
		if body = append(body, join(tck.RefFunc(f), tck.Drop)...); i%1000 == 0 || i == maxReferenced {
			m.Func(nil, nil, nil, body)
			body = nil
		}
	}
	if _, err := Parse(m.Bytes()); err == nil || !strings.Contains(err.Error(), "ref.func") {
		t.Errorf("error = %v", err)
	}
}

func join(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }
