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
// that both accept is still valid after it was rewritten.
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
		original, err := r.CompileModule(ctx, wasm)
		if err != nil {
			return
		}
		defer original.Close(ctx)
		compiled, err := r.CompileModule(ctx, rewritten)
		if err != nil {
			t.Fatalf("valid before, but not after: %v", err)
		}
		_ = compiled.Close(ctx)
	})
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
