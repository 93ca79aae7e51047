package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
)

// engine is a runtime and where it keeps native code.
type engine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
}

// newEngine starts an engine that reads and writes native code in dir, or
// keeps it in memory if dir is "". Guests can be run by it once it is ready.
func newEngine(ctx context.Context, dir string) (engine, error) {
	cache := wazero.NewCompilationCache()
	if dir != "" {
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return engine{}, err
		}
	}
	return engine{wazero.NewRuntimeWithConfig(ctx, engineConfig(cache)), cache}, nil
}

// ready lets guests import what the host offers.
func (e engine) ready(ctx context.Context) error {
	for _, m := range hostModules() {
		if err := m.instantiate(ctx, e.runtime); err != nil {
			return fmt.Errorf("start engine: %s: %w", m.name, err)
		}
	}
	if err := instantiateTick(ctx, e.runtime); err != nil {
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
