package module

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

// TestIndicesThatAreNotThere: what is added behind the module's own functions,
// globals and types must not make a module valid that was not, or let it name
// what was added. Each case has the first index that is not there.
func TestIndicesThatAreNotThere(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(m *tck.Module)
	}{
		{"call", "no function 3", inBody(0x10, 3)},
		{"reference", "no function 3", inBody(0xd2, 3, 0x1a)},
		{"global that is read", "no global 1", inBody(0x23, 1, 0x1a)},
		{"global that is written", "no global 1", inBody(0x41, 0, 0x24, 1)},
		{"local that is read", "no local 2", inBody(0x20, 2, 0x1a)},
		{"local that is written", "no local 2", inBody(0x41, 0, 0x21, 2)},
		{"local that is kept", "no local 2", inBody(0x41, 0, 0x22, 2, 0x1a)},
		{"type of a block", "no type 1", inBody(0x02, 1, 0x0b)},
		{"type of a loop", "no type 1", inBody(0x03, 1, 0x0b)},
		{"type of an if", "no type 1", inBody(0x41, 0, 0x04, 1, 0x0b)},
		{"type of an indirect call", "no type 1", inBody(0x41, 0, 0x11, 1, 0)},
		{"table of an indirect call", "no table 1", inBody(0x41, 0, 0x11, 0, 1)},
		{"table that is read", "no table 1", inBody(0x41, 0, 0x25, 1, 0x1a)},
		{"table that is written", "no table 1", inBody(0x41, 0, 0xd0, 0x70, 0x26, 1)},
		{"table whose size is asked", "no table 1", inBody(0xfc, 16, 1, 0x1a)},
		{"table that is copied from", "no table 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 0, 1)},
		{"table that is copied to", "no table 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 1, 0)},
		{"memory whose size is asked", "no memory 1", inBody(0x3f, 1, 0x1a)},
		{"memory that grows", "no memory 1", inBody(0x41, 0, 0x40, 1, 0x1a)},
		{"memory that is filled", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 1)},
		{"memory that is written from data", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 1)},
		{"memory that is copied from", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 10, 0, 1)},
		{"memory that is copied to", "no memory 1", inBody(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 10, 1, 0)},
		{"export of a function", "no function 2", func(m *tck.Module) { m.Export("x", 2) }},
		{"export of a global", "no global 1", func(m *tck.Module) { m.ExportGlobal("x", 1) }},
		{"start", "no function 2", func(m *tck.Module) { m.Start(2) }},
		{"element", "no function 2", func(m *tck.Module) { m.Elements(0, 2) }},
		{"passive element", "no function 2", func(m *tck.Module) { m.PassiveElements(2) }},
		{"declared element", "no function 2", func(m *tck.Module) { m.Declare(2) }},
		{"element by expression", "no function 2", func(m *tck.Module) { m.Expressions(0, []byte{0xd2, 2}) }},
		{"global by reference", "no function 2", func(m *tck.Module) { m.GlobalOf(0x70, []byte{0xd2, 2}) }},
		{"global by global", "no global 1", func(m *tck.Module) { m.GlobalOf(tck.I32, []byte{0x23, 1}) }},
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

// small is a module with two functions, a global, a table and a type.
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
	return func(m *tck.Module) { m.Func(nil, nil, []tck.Type{tck.I32, tck.I32}, code) }
}
