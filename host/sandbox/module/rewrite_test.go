package module

import (
	"bytes"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
)

// writeAgain writes a module with the exports of its globals, and with its own
// code.
func writeAgain(m *Module) ([]byte, error) {
	return m.Write(Additions{Exports: m.GlobalExports(), Body: func(i int, out []byte) []byte {
		in := wasm.Instruction{}
		for code := m.Bodies[i].Instructions(); code.Next(&in); {
			out = in.Append(out)
		}
		return out
	}})
}

func mustWriteAgain(t *testing.T, m *Module) []byte {
	t.Helper()
	out, err := writeAgain(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWriteAddsExportsAndKeepsOnlyFunctionNames(t *testing.T) {
	m := parse(t, sample())
	out := mustWriteAgain(t, m)
	again := parse(t, out)
	if e, ok := again.ExportOf(GlobalExport(0)); !ok || e.Kind != wasm.KindGlobal || e.Index != 0 {
		t.Errorf("added export = %+v, %v", e, ok)
	}
	if len(again.Exports) != len(m.Exports)+1 {
		t.Errorf("exports = %+v", again.Exports)
	}
	if again.HasCustom("producers") || !again.HasCustom("name") {
		t.Error("the names are not the only custom section")
	}
	if names := again.functionNames(); !slices.Equal(names, []string{"$0", "theFunction"}) || bytes.Contains(out, []byte("theLocal")) {
		t.Errorf("names = %q, want those of the functions and no others", names)
	}
}

// TestOffsetsOfSegmentsAreEncodedAnew has a data segment whose offset is encoded in
// more bytes than it needs, with bits that the parser ignores and the engine refuses.
func TestOffsetsOfSegmentsAreEncodedAnew(t *testing.T) {
	binary := append([]byte("\x00asm\x01\x00\x00\x00"), wasm.AppendSection(nil, wasm.MemorySection, []byte{1, 0, 1})...)
	binary = wasm.AppendSection(binary, wasm.DataSection, []byte("\x01\x00\x41\x80\x80\x80\x80\x70\x0b\x01x"))
	want := wasm.AppendSection(nil, wasm.DataSection, []byte("\x01\x00\x41\x00\x0b\x01x"))
	if out := mustWriteAgain(t, parse(t, binary)); !bytes.Contains(out, want) {
		t.Errorf("written: %q", out)
	}
}

// FuzzParse compares what the sandbox relies on before and after a rewrite: the
// limits hold, and the rewritten module differs by the added exports only.
func FuzzParse(f *testing.F) {
	f.Add(sample())
	for _, seed := range tck.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, binary []byte) {
		m, err := Parse(binary)
		if err != nil {
			return
		}
		if len(m.Functions) > MaxFunctions {
			t.Fatalf("%d functions", len(m.Functions))
		}
		out, err := writeAgain(m)
		if err != nil {
			return
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("the rewritten module: %v", err)
		}
		if !slices.Equal(again.Imports, m.Imports) || !slices.Equal(again.Functions, m.Functions) || again.Effects != m.Effects {
			t.Fatal("imports, functions or effects differ")
		}
		if n := len(m.Exports); n > 0 && !slices.Equal(again.Exports[:n], m.Exports) {
			t.Fatal("the module's own exports differ")
		}
	})
}
