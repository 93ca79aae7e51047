package module

import (
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

// FuzzParse holds what passes the parser to what the sandbox relies on: the
// limits hold, and the rewritten module reads the same but for the added
// exports.
func FuzzParse(f *testing.F) {
	f.Add(hostile())
	for _, wasm := range tck.Seeds() {
		f.Add(wasm)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := Parse(wasm)
		if err != nil {
			return
		}
		if len(m.Functions) > MaxFunctions {
			t.Fatalf("%d functions", len(m.Functions))
		}
		exports, err := m.GlobalExports()
		if err != nil {
			return
		}
		out, err := m.Write(Additions{Exports: exports})
		if err != nil {
			return
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("the rewritten module: %v", err)
		}
		if !slices.Equal(again.Imports, m.Imports) || !slices.Equal(again.Functions, m.Functions) || again.Effects != m.Effects {
			t.Fatal("the rewritten module is another one")
		}
		if n := len(m.Exports); n > 0 && !slices.Equal(again.Exports[:n], m.Exports) {
			t.Fatal("the module's own exports have changed")
		}
	})
}
