package module

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// sample is a module with a part of everything that the tests look at.
func sample() []byte {
	m := &tck.Module{}
	m.Import("thole/v1", "get", i32s(2), []wasm.ValueType{wasm.I64})
	m.Memory(3)
	g := m.Global(7)
	f := m.Func(nil, i32s(1), nil, tck.GlobalGet(g))
	m.Table(1)
	m.Elements(0, f)
	m.Export("run", f)
	m.ExportMemory("memory")
	m.Data(16, []byte("data"))
	m.Custom("name", []byte("\x01\x0e\x01\x01\x0btheFunction\x02\x0e\x01\x01\x01\x00\x08theLocal"))
	m.Custom("producers", []byte("\x00"))
	return m.Bytes()
}

func i32s(n int) []wasm.ValueType {
	types := make([]wasm.ValueType, n)
	for i := range types {
		types[i] = wasm.I32
	}
	return types
}

func parse(t testing.TB, binary []byte) *Module {
	t.Helper()
	m, err := Parse(binary)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseReadsTheModule(t *testing.T) {
	m := parse(t, sample())
	if want := (wasm.Import{Module: "thole/v1", Name: "get", Kind: wasm.KindFunction, Type: wasm.Signature(i32s(2), wasm.I64)}); m.Imports[0] != want {
		t.Errorf("import = %+v, want %+v", m.Imports[0], want)
	}
	if e, ok := m.ExportOf("run"); !ok || e.Kind != wasm.KindFunction || m.Functions[e.Index] != wasm.Signature(nil, wasm.I32) {
		t.Errorf("export run = %+v, %v", e, ok)
	}
	if len(m.Memories) != 1 || m.Memories[0].Min != 3 {
		t.Errorf("memories = %+v", m.Memories)
	}
	if got := m.MutableNumbers(); len(got) != 1 || got[0] != 0 {
		t.Errorf("mutable globals = %v", got)
	}
	if !m.HasCustom("producers") || m.HasCustom("other") {
		t.Error("custom sections are not the module's")
	}
}

// TestParseRefusesTruncatedModules cuts a module at every byte: what is left is
// refused or, between two sections, a smaller module.
func TestParseRefusesTruncatedModules(t *testing.T) {
	whole := sample()
	for n := range whole {
		if m, err := Parse(whole[:n]); err == nil && len(m.sections) >= len(parse(t, whole).sections) {
			t.Fatalf("%d of %d bytes were accepted as the whole", n, len(whole))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const header = wasm.Header
	for _, c := range []struct{ name, binary, want string }{
		{"empty", "", "not WebAssembly"},
		{"text", "apiVersion: v1", "not WebAssembly"},
		{"only magic", "\x00asm", "truncated"},
		{"component", "\x00asm\x0d\x00\x01\x00", "a WebAssembly component (of the component model"},
		{"component of an older version", "\x00asm\x0a\x00\x01\x00\x01\x02", "component model"},
		{"other version", "\x00asm\x02\x00\x00\x00", "version 2"},
		{"unknown section", header + "\x0d\x00", "unknown section 13 at byte 8"},
		{"section beyond the end", header + "\x01\x05\x00", "truncated"},
		{"section twice", header + "\x01\x01\x00\x01\x01\x00", "twice"},
		{"section out of order", header + "\x03\x01\x00\x01\x01\x00", "out of order"},
		{"bytes left over", header + "\x01\x02\x00\x00", "left over"},
		{"count bomb", header + "\x03\x05\xff\xff\xff\xff\x0f", "do not fit"},
		{"number too long", header + "\x03\x06\xff\xff\xff\xff\xff\x0f", "32 bits"},
		{"type that is not a function", header + "\x01\x04\x01\x5f\x00\x00", "not a function"},
		{"too many parameters", string(withType(i32s(maxParams + 1))), "limit is 1000"},
		{"too many values of types", string(withTypes(maxTypeValues/maxParams+1, i32s(maxParams))), "more than 20000 parameters and results of all types"},
		{"too many values of functions", string(withFunctions(maxFunctionValues/maxParams+1, i32s(maxParams))), "more than 1000000 parameters and results of all functions"},
		{"function of no type", header + "\x03\x02\x01\x07", "no type 7"},
		{"export of no function", header + "\x07\x05\x01\x01a\x00\x09", "no function 9"},
		{"shared memory", header + "\x05\x04\x01\x03\x01\x01", "shared"},
		{"huge table", header + "\x04\x07\x01\x70\x00\xff\xff\xff\x7f", "limit is 100000"},
		{"typed reference table", header + "\x04\x04\x01\x63\x00\x00", "tables of type"},
		{"locals bomb", withBody("\x01\xff\xff\xff\xff\x0f\x7f\x0b"), "locals"},
		{"locals bomb in groups", withBody("\x02\xc0\x9a\x0c\x7f\xc0\x9a\x0c\x7f\x0b"), "400000 locals"},
		{"unknown instruction", withBody("\x00\x06\x0b"), "instruction 0x6"},
		{"unknown misc instruction", withBody("\x00\xfc\x12\x0b"), "0xfc 18"},
		{"unknown vector instruction", withBody("\x00\xfd\x80\x02\x0b"), "0xfd 256"},
		{"immediate cut off", withBody("\x00\x41"), "truncated"},
		{"large file", string(make([]byte, MaxSize+1)), "limit is 16777216"},
		{"large function", withBody("\x00" + strings.Repeat("\x01", MaxBody) + "\x0b"), "limit is 262144"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.binary))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestALargerLimitIsForTheFileAndEachOfItsFunctions(t *testing.T) {
	jumps := strings.Repeat("\x02\x40\x0b", maxWeight+1) // as many blocks
	for name, body := range map[string]string{
		"large function": "\x00" + strings.Repeat("\x01", MaxBody) + "\x0b",
		"heavy function": "\x00" + jumps + "\x0b",
	} {
		for size, fits := range map[int]bool{MaxSize: false, 2*MaxSize - 1: false, 2 * MaxSize: true} {
			if _, err := ParseWithin([]byte(withBody(body)), size); (err == nil) != fits {
				t.Errorf("%s within %d bytes: %v", name, size, err)
			}
		}
	}
	small := []byte(withBody("\x00\x0b"))
	if _, err := ParseWithin(small, len(small)-1); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a file beyond the limit: %v", err)
	}
}

func withTypes(n int, params []wasm.ValueType) []byte {
	entry := wasm.Signature(params).Append(nil)
	return wasm.AppendSection([]byte(wasm.Header), wasm.TypeSection, append(wasm.AppendU32(nil, uint32(n)), bytes.Repeat(entry, n)...))
}

func withFunctions(n int, params []wasm.ValueType) []byte {
	return wasm.AppendSection(withTypes(1, params), wasm.FunctionSection, append(wasm.AppendU32(nil, uint32(n)), make([]byte, n)...))
}

func withType(params []wasm.ValueType) []byte {
	var m tck.Module
	m.Type(params, nil)
	return m.Bytes()
}

// withBody returns a module whose only function has that body, locals included.
func withBody(body string) string {
	out := []byte(wasm.Header)
	out = wasm.AppendSection(out, wasm.TypeSection, wasm.FuncType{}.Append([]byte{1}))
	out = wasm.AppendSection(out, wasm.FunctionSection, []byte{1, 0})
	return string(wasm.AppendSection(out, wasm.CodeSection, wasm.AppendName([]byte{1}, body)))
}

func TestParseOfAnotherFormatIsErrNotWasm(t *testing.T) {
	if _, err := Parse([]byte("no")); !errors.Is(err, ErrNotWasm) {
		t.Errorf("error = %v", err)
	}
}

func TestResettable(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(m *tck.Module)
		want bool
	}{
		{"plain", func(*tck.Module) {}, true},
		{"constant table", func(m *tck.Module) { m.Table(2); m.Elements(0, m.Func(nil, nil, nil)) }, true},
		{"table.set in a constant", func(m *tck.Module) { m.Func(nil, nil, nil, tck.I32Const(0x26), tck.Drop) }, true},
		{"writes a table", func(m *tck.Module) {
			m.Table(2)
			f := m.Func(nil, nil, nil)
			m.Elements(0, f)
			m.Func(nil, nil, nil, tck.I32Const(0), tck.RefFunc(f), tck.TableSet)
		}, false},
		{"copies a passive segment", func(m *tck.Module) {
			s := m.Passive([]byte("abc"))
			m.Func(nil, nil, nil, tck.I32Const(0), tck.I32Const(0), tck.I32Const(3), tck.MemoryInit(s))
		}, true},
		{"drops a segment", func(m *tck.Module) { m.Func(nil, nil, nil, tck.DataDrop(m.Passive([]byte("abc")))) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &tck.Module{}
			m.Memory(1)
			c.add(m)
			if why := parse(t, m.Bytes()).Resettable(); (why == "") != c.want {
				t.Errorf("not resettable because %q, want resettable = %v", why, c.want)
			}
		})
	}
}

func TestResettableByGlobals(t *testing.T) {
	for _, c := range []struct {
		name, global string
		want         bool
	}{
		{"mutable i32", "\x7f\x01\x41\x00\x0b", true},
		{"constant v128", "\x7b\x00\xfd\x0c" + strings.Repeat("\x00", 16) + "\x0b", true},
		{"mutable v128", "\x7b\x01\xfd\x0c" + strings.Repeat("\x00", 16) + "\x0b", false},
		{"mutable externref", "\x6f\x01\xd0\x6f\x0b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			binary := wasm.AppendSection([]byte(wasm.Header), wasm.GlobalSection, []byte("\x01"+c.global))
			if why := parse(t, binary).Resettable(); (why == "") != c.want {
				t.Errorf("not resettable because %q, want resettable = %v", why, c.want)
			}
		})
	}
}

func TestGrowingTableNeedsMaximum(t *testing.T) {
	growing := func(table func(m *tck.Module)) []byte {
		var m tck.Module
		table(&m)
		m.Func(nil, nil, nil, tck.NullFunc, tck.I32Const(1), tck.TableGrow, tck.Drop)
		return m.Bytes()
	}
	if _, err := Parse(growing(func(m *tck.Module) { m.TableWithoutMaximum(1) })); err == nil || !strings.Contains(err.Error(), "declare a maximum") {
		t.Errorf("error = %v", err)
	}
	if _, err := Parse(growing(func(m *tck.Module) { m.TableUpTo(1, 2) })); err != nil {
		t.Errorf("with a maximum: %v", err)
	}
}
