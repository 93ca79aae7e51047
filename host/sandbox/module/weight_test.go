package module

import (
	"bytes"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

// TestHeavyFunctionsAreRefused: each is a few ten thousand bytes that would
// keep the engine busy for a minute, or fill gigabytes of its memory.
func TestHeavyFunctionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		heavy func(m *tck.Module) []byte // the instructions, which may repeat
		fits  int                        // how many times
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
			many := make([]tck.Type, 512)
			for i := range many {
				many[i] = tck.I32
			}
			return tck.Call(m.Func(many, many, nil, tck.Unreachable))
		}, maxWeight / (1024 / valuesPerWeight)},
		"wide loops": {func(m *tck.Module) []byte {
			many := make([]tck.Type, 508)
			for i := range many {
				many[i] = tck.I32
			}
			return join(tck.LoopOf(m.Type(many, many)), tck.End)
		}, maxWeight / (1 + 1016/valuesPerWeight)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, times := range []int{c.fits, c.fits + 1} {
				var m tck.Module
				m.Memory(1)
				m.Table(1)
				body := bytes.Repeat(c.heavy(&m), times)
				m.Func([]tck.Type{tck.I32}, nil, nil, body)
				_, err := Parse(m.Bytes())
				if heavy := err != nil && strings.Contains(err.Error(), "weighs"); heavy != (times > c.fits) {
					t.Errorf("%d times: %v", times, err)
				}
			}
		})
	}
}

func TestAllLocalsAndElementsAreBounded(t *testing.T) {
	locals := make([]tck.Type, 10_000)
	for i := range locals {
		locals[i] = tck.I32
	}
	var m tck.Module
	for range maxAllLocals/len(locals) + 1 {
		m.Func(nil, nil, locals)
	}
	if _, err := Parse(m.Bytes()); err == nil || !strings.Contains(err.Error(), "in all functions together") {
		t.Errorf("locals: %v", err)
	}
	var e tck.Module
	e.Table(1)
	f := e.Func(nil, nil, nil)
	for range 3 {
		e.Elements(0, make([]tck.Func, maxElements/2)...)
	}
	if _, err := Parse(e.Bytes()); err == nil || !strings.Contains(err.Error(), "elements") || f != 0 {
		t.Errorf("elements: %v", err)
	}
}

// TestNamesThatClaimMore: names are never a reason to refuse a module, but a
// bomb is.
func TestNamesThatClaimMore(t *testing.T) {
	for section, refused := range map[string]bool{
		"\x01\x05\xff\xff\xff\xff\x0f":                       true,
		"\x02\x05\xff\xff\xff\xff\x0f":                       true,
		"\x02\x07\x01\x00\xff\xff\xff\xff\x0f":               true,
		"\x01\x04\x01\x00\x01a\x02\x06\x01\x00\x01\x00\x01b": false,
		"\x01\x03\x01\x00\x09":                               false, // cut off
		"\x01\x7f":                                           false,
		"\x09\x01a":                                          false, // a subsection that is not known
	} {
		var m tck.Module
		m.Func(nil, nil, nil)
		m.Custom("name", []byte(section))
		if _, err := Parse(m.Bytes()); (err != nil) != refused {
			t.Errorf("%x: %v", section, err)
		}
	}
}

func join(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }
