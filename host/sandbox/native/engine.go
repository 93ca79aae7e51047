package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// EngineVersion belongs into the key of what is compiled. It is that of the
// module in go.mod, which a test compares: a program that was built by `go test`
// cannot tell it.
const EngineVersion = "v1.12.0"

// engine is a runtime and where it keeps native code.
type engine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
}

// newEngine starts an engine that reads and writes native code in dir, or
// keeps it in memory if dir is "".
func newEngine(ctx context.Context, dir string, tune func(wazero.RuntimeConfig) wazero.RuntimeConfig) (engine, error) {
	cache := wazero.NewCompilationCache()
	if dir != "" {
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return engine{}, err
		}
	}
	config := engineConfig(cache)
	if tune != nil {
		config = tune(config)
	}
	return engine{wazero.NewRuntimeWithConfig(ctx, config), cache}, nil
}

// engineConfig leaves out WithCloseOnContextDone: the fuel that is compiled
// into each module stops it.
func engineConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithCompilationCache(cache)
}

// offer readies the engine for instances, which import something.
func (e engine) offer(ctx context.Context, imports func(context.Context, wazero.Runtime) error) error {
	if err := imports(ctx, e.runtime); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	return nil
}

func (e engine) close(ctx context.Context) error {
	if e.runtime == nil {
		return nil
	}
	return errors.Join(e.runtime.Close(ctx), e.cache.Close(ctx))
}

func compileModule(ctx context.Context, r wazero.Runtime, wasm []byte) (wazero.CompiledModule, error) {
	// The engine looks at ctx between functions only if it has two workers
	// or more.
	ctx = experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
	compiled, err := r.CompileModule(ctx, wasm)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("compilation was given up: %w", context.Cause(ctx))
	}
	return compiled, err
}
