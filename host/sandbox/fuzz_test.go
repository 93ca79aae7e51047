package sandbox

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// FuzzRewrite compares modules with fuel and without: one is valid, for the engine,
// if and only if the other is. Both are written anew, because writing leaves out
// custom sections.
func FuzzRewrite(f *testing.F) {
	for _, seed := range tck.Seeds() {
		f.Add(seed)
	}
	ctx := context.Background()
	config := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	r := wazero.NewRuntimeWithConfig(ctx, config)
	f.Cleanup(func() { _ = r.Close(ctx) })
	f.Fuzz(func(t *testing.T, binary []byte) {
		m, err := module.Parse(binary)
		if err != nil {
			return
		}
		exports := m.GlobalExports()
		rewritten, _, err := meter.Rewrite(m, meter.Options{Exports: exports})
		if err != nil {
			return
		}
		plain, err := m.Write(module.Additions{Exports: exports, Body: func(i int, out []byte) []byte {
			in := wasm.Instruction{}
			for code := m.Bodies[i].Instructions(); code.Next(&in); {
				out = in.Append(out)
			}
			return out
		}})
		if err != nil {
			t.Fatal(err)
		}
		without, with := compileError(ctx, r, plain), compileError(ctx, r, rewritten)
		if (without == nil) != (with == nil) {
			t.Fatalf("%v with fuel, %v without", with, without)
		}
		if compileError(ctx, r, withoutCustomSections(binary)) == nil && with != nil {
			t.Fatalf("valid before, but not after: %v", with)
		}
	})
}

// withoutCustomSections returns a module that has been parsed as the host writes
// it: the engine trusts the counts in a section of names, and never reads one of
// a plugin.
func withoutCustomSections(binary []byte) []byte {
	const header = 8
	r, out := wasm.NewReader(binary[header:]), bytes.Clone(binary[:header])
	for r.Len() > 0 {
		start := len(binary) - r.Len()
		id := r.Byte()
		r.Bytes(r.U32())
		if wasm.SectionID(id) != wasm.CustomSection {
			out = append(out, binary[start:len(binary)-r.Len()]...)
		}
	}
	return out
}

func compileError(ctx context.Context, r wazero.Runtime, binary []byte) error {
	compiled, err := r.CompileModule(ctx, binary)
	if err == nil {
		_ = compiled.Close(ctx)
	}
	return err
}

// FuzzLoad loads and calls modules: whatever they are, the host survives.
func FuzzLoad(f *testing.F) {
	for _, seed := range tck.Seeds() {
		f.Add(seed)
	}
	s, err := New(f.Context(), Config{LoadTimeout: time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, binary []byte) {
		g, err := s.Load(t.Context(), Plugin{Name: "correct", Wasm: binary, Limits: Limits{
			MemoryBytes: 1 << 20,
			Deadline:    20 * time.Millisecond,
			Instances:   1,
		}})
		if err != nil {
			return
		}
		defer closeGuest(t, g)
		for range 2 {
			_, _ = g.Reconcile(t.Context(), Call{Request: [][]byte{tck.Request()}, Now: callTime, Host: kitHost{t}})
		}
	})
}
