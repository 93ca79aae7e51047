package module

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

func TestParse(t *testing.T) {
	m := parse(t, hostile())
	if want := (Import{Module: "thole/v1", Name: "get", Kind: Function, Type: Signature([]ValueType{I32, I32}, []ValueType{I64})}); m.Imports[0] != want {
		t.Errorf("import = %+v, want %+v", m.Imports[0], want)
	}
	if got := m.Imports[0].Type.String(); got != "(i32, i32) -> i64" {
		t.Errorf("signature = %s", got)
	}
	if e, ok := m.ExportOf("run"); !ok || e.Kind != Function || m.Functions[e.Index] != Signature(nil, []ValueType{I32}) {
		t.Errorf("export run = %+v, %v", e, ok)
	}
	if len(m.Memories) != 1 || m.Memories[0].Min != 3 {
		t.Errorf("memories = %+v", m.Memories)
	}
	if got := m.MutableGlobals(); len(got) != 1 || got[0] != 0 {
		t.Errorf("mutable globals = %v", got)
	}
	if !m.HasCustom("producers") || m.HasCustom("other") {
		t.Errorf("custom sections = %v", m.Custom)
	}
}

// TestParseTruncated cuts a module everywhere: whatever is left is refused
// or, between two sections, a smaller module.
func TestParseTruncated(t *testing.T) {
	whole := hostile()
	for n := range whole {
		if m, err := Parse(whole[:n]); err == nil && len(m.sections) >= len(parse(t, whole).sections) {
			t.Fatalf("%d of %d bytes were accepted as the whole", n, len(whole))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	header := "\x00asm\x01\x00\x00\x00"
	for _, c := range []struct{ name, wasm, want string }{
		{"empty", "", "not WebAssembly"},
		{"text", "apiVersion: v1", "not WebAssembly"},
		{"only magic", "\x00asm", "truncated"},
		{"component", "\x00asm\x0d\x00\x01\x00", "component"},
		{"other version", "\x00asm\x02\x00\x00\x00", "version 2"},
		{"unknown section", header + "\x0d\x00", "unknown section 13"},
		{"section beyond the end", header + "\x01\x05\x00", "truncated"},
		{"section twice", header + "\x01\x01\x00\x01\x01\x00", "twice"},
		{"section out of order", header + "\x03\x01\x00\x01\x01\x00", "out of order"},
		{"bytes left over", header + "\x01\x02\x00\x00", "left over"},
		{"count bomb", header + "\x03\x05\xff\xff\xff\xff\x0f", "do not fit"},
		{"number too long", header + "\x03\x06\xff\xff\xff\xff\xff\x0f", "32 bits"},
		{"type that is not a function", header + "\x01\x04\x01\x5f\x00\x00", "not a function"},
		{"function of no type", header + "\x03\x02\x01\x07", "no type 7"},
		{"export of no function", header + "\x07\x05\x01\x01a\x00\x09", "no function 9"},
		{"shared memory", header + "\x05\x04\x01\x03\x01\x01", "shared"},
		{"huge table", header + "\x04\x07\x01\x70\x00\xff\xff\xff\x7f", "limit is 100000"},
		{"typed reference table", header + "\x04\x04\x01\x63\x00\x00", "tables of type"},
		{"locals bomb", code("\x01\xff\xff\xff\xff\x0f\x7f\x0b"), "locals"},
		{"locals bomb in groups", code("\x02\xc0\x9a\x0c\x7f\xc0\x9a\x0c\x7f\x0b"), "400000 locals"},
		{"unknown instruction", code("\x00\x06\x0b"), "instruction 0x6"},
		{"unknown misc instruction", code("\x00\xfc\x12\x0b"), "0xfc 18"},
		{"unknown vector instruction", code("\x00\xfd\x80\x02\x0b"), "0xfd 256"},
		{"immediate cut off", code("\x00\x41"), "truncated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.wasm))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestParseRefusesLargeFiles(t *testing.T) {
	if _, err := Parse(make([]byte, MaxSize+1)); err == nil || !strings.Contains(err.Error(), "limit is 16777216") {
		t.Errorf("error = %v", err)
	}
	body := code("\x00" + strings.Repeat("\x01", MaxBody) + "\x0b")
	if _, err := Parse([]byte(body)); err == nil || !strings.Contains(err.Error(), "limit is 262144") {
		t.Errorf("error = %v", err)
	}
}

func TestNotWasmIsTold(t *testing.T) {
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
		{"looks like table.set in a constant", func(m *tck.Module) { m.Func(nil, nil, nil, tck.I32Const(0x26), tck.Drop) }, true},
		{"writes a table", func(m *tck.Module) {
			m.Table(2)
			f := m.Func(nil, nil, nil)
			m.Elements(0, f)
			m.Func(nil, nil, nil, tck.I32Const(0), tck.RefFunc(f), tck.TableSet())
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
			if why, ok := parse(t, m.Bytes()).Resettable(); ok != c.want {
				t.Errorf("resettable = %v (%s), want %v", ok, why, c.want)
			}
		})
	}
}

func TestResettableGlobals(t *testing.T) {
	for _, c := range []struct {
		global string
		want   bool
	}{
		{"\x7f\x01\x41\x00\x0b", true},                                    // (mut i32)
		{"\x7b\x00\xfd\x0c" + strings.Repeat("\x00", 16) + "\x0b", true},  // v128
		{"\x7b\x01\xfd\x0c" + strings.Repeat("\x00", 16) + "\x0b", false}, // (mut v128)
		{"\x6f\x01\xd0\x6f\x0b", false},                                   // (mut externref)
	} {
		wasm := "\x00asm\x01\x00\x00\x00\x06" + string(rune(1+len(c.global))) + "\x01" + c.global
		if _, ok := parse(t, []byte(wasm)).Resettable(); ok != c.want {
			t.Errorf("global %q: resettable = %v, want %v", c.global, ok, c.want)
		}
	}
}

func TestGrowingTableNeedsMaximum(t *testing.T) {
	grow := "\x00\xd0\x70\x41\x01\xfc\x0f\x00\x1a\x0b"
	module := func(limits string) []byte {
		table := "\x01\x70" + limits
		return []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00" +
			"\x04" + string(rune(len(table))) + table + codeSectionOf(grow))
	}
	if _, err := Parse(module("\x00\x01")); err == nil || !strings.Contains(err.Error(), "declare a maximum") {
		t.Errorf("error = %v", err)
	}
	if _, err := Parse(module("\x01\x01\x02")); err != nil {
		t.Errorf("bounded growth: %v", err)
	}
}

func TestGlobalExports(t *testing.T) {
	m := parse(t, hostile())
	out := writeAgain(t, m)
	again := parse(t, out)
	if e, ok := again.ExportOf(GlobalExport(0)); !ok || e.Kind != GlobalKind || e.Index != 0 {
		t.Errorf("added export = %+v, %v", e, ok)
	}
	if len(again.Exports) != len(m.Exports)+1 {
		t.Errorf("exports = %+v", again.Exports)
	}
	if again.HasCustom("producers") || !again.HasCustom("name") {
		t.Errorf("custom sections = %v, want the names only", again.Custom)
	}
	if names := again.functionNames(); !slices.Equal(names, []string{"$0", "theFunction"}) || bytes.Contains(out, []byte("theLocal")) {
		t.Errorf("names = %q, want those of the functions and no others", names)
	}
	if _, err := again.GlobalExports(); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("reserved prefix: error = %v", err)
	}
}

func TestMalformedNamesAreLeftOut(t *testing.T) {
	m := &tck.Module{}
	m.Export("run", m.Func(nil, nil, nil))
	m.Custom("name", []byte("\x01\x04\x01\x00\x01\xff")) // not UTF-8
	out := writeAgain(t, parse(t, m.Bytes()))
	if names := parse(t, out).functionNames(); !slices.Equal(names, []string{"$0"}) {
		t.Errorf("names = %q", names)
	}
}

func writeAgain(t *testing.T, m *Module) []byte {
	t.Helper()
	exports, err := m.GlobalExports()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Write(Additions{Exports: exports})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hostile is a module with a part of everything that the tests look at.
func hostile() []byte {
	m := &tck.Module{}
	m.Import("thole/v1", "get", []tck.Type{tck.I32, tck.I32}, []tck.Type{tck.I64})
	m.Memory(3)
	g := m.Global(7)
	f := m.Func(nil, []tck.Type{tck.I32}, nil, tck.GlobalGet(g))
	m.Table(1)
	m.Elements(0, f)
	m.Export("run", f)
	m.ExportMemory("memory")
	m.Data(16, []byte("data"))
	m.Custom("name", []byte("\x01\x0e\x01\x01\x0btheFunction\x02\x0e\x01\x01\x01\x00\x08theLocal"))
	m.Custom("producers", []byte("\x00"))
	return m.Bytes()
}

// code is a module whose only function has that body, locals included.
func code(body string) string {
	return "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00" + codeSectionOf(body)
}

func codeSectionOf(body string) string {
	out := appendSection(nil, codeSection, append([]byte{1}, sized(body)...))
	return string(out)
}

func sized(body string) []byte { return appendSection(nil, 0, []byte(body))[1:] }

func parse(t testing.TB, wasm []byte) *Module {
	t.Helper()
	m, err := Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
