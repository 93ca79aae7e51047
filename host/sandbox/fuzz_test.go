package sandbox

import (
	"context"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/module"
)

// FuzzRewrite holds the parser and the rewriter against the engine: a module
// is valid with fuel if it is without. What was not may not become so by what
// is added; both are written anew, as that leaves out what nobody reads.
func FuzzRewrite(f *testing.F) {
	for _, wasm := range tck.Seeds() {
		f.Add(wasm)
	}
	ctx := context.Background()
	config := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	r := wazero.NewRuntimeWithConfig(ctx, config)
	f.Cleanup(func() { _ = r.Close(ctx) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := module.Parse(wasm)
		if err != nil {
			return
		}
		exports, err := m.GlobalExports()
		if err != nil {
			return
		}
		rewritten, _, err := meter.Rewrite(m, meter.Options{Exports: exports})
		if err != nil {
			return
		}
		plain, err := m.Write(module.Additions{Exports: exports})
		if err != nil {
			t.Fatal(err)
		}
		without, with := compileError(ctx, r, plain), compileError(ctx, r, rewritten)
		if (without == nil) != (with == nil) {
			t.Fatalf("%v with fuel, %v without", with, without)
		}
		if compileError(ctx, r, wasm) == nil && with != nil {
			t.Fatalf("valid before, but not after: %v", with)
		}
	})
}

func compileError(ctx context.Context, r wazero.Runtime, wasm []byte) error {
	compiled, err := r.CompileModule(ctx, wasm)
	if err == nil {
		_ = compiled.Close(ctx)
	}
	return err
}

// FuzzLoad feeds modules to the whole sandbox: whatever they are, they are
// refused or called, and the host lives.
func FuzzLoad(f *testing.F) {
	for _, wasm := range tck.Seeds() {
		f.Add(wasm)
	}
	s, err := New(f.Context(), Config{LoadTimeout: time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		g, err := s.Load(t.Context(), Plugin{Name: "correct", Wasm: wasm, Limits: Limits{
			MemoryBytes: 1 << 20,
			Deadline:    20 * time.Millisecond,
			Instances:   1,
		}})
		if err != nil {
			return
		}
		defer closeGuest(t, g)
		for range 2 {
			_, _ = g.Reconcile(t.Context(), Call{Request: tck.Request(), Now: callTime, Host: world{t}})
		}
	})
}
