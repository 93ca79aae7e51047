package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/thole-dev/thole/host/sandbox/meter"
)

// engineVersion is that of the module in go.mod, which a test compares: a
// program that was built by `go test` cannot tell it.
const engineVersion = "v1.12.0"

// rewriteVersion changes when the same module is verified or rewritten in
// another way than before, so that the cache forgets it; see also
// [meter.Options.Key].
const rewriteVersion = 2

// cacheKey is what an entry depends on beside the engine that reads it: the
// file, how it was rewritten, and the functions that it was held against.
func cacheKey(digest [sha256.Size]byte, o meter.Options) string {
	key := sha256.New()
	fmt.Fprintln(key, hex.EncodeToString(digest[:]), engineVersion, rewriteVersion, o.Key())
	for _, e := range exports {
		fmt.Fprintln(key, e.name, e.typ, e.required)
	}
	for _, symbol := range Functions() {
		fmt.Fprintln(key, symbol, served[symbol])
	}
	return hex.EncodeToString(key.Sum(nil))
}

// turn waits until no other module is compiled. done ends the turn.
func (s *Sandbox) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.compiling <- struct{}{}:
		return func() { <-s.compiling }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other modules: %w", context.Cause(ctx))
	}
}

// compile makes native code of a verified module, on disk if possible.
func (s *Sandbox) compile(ctx context.Context, key string, wasm []byte, o outline) (native, error) {
	if s.store == nil {
		return s.compileInMemory(ctx, wasm)
	}
	n, err := s.store.compile(ctx, key, wasm, o)
	if err == nil || ctx.Err() != nil || !unwritable(err) && !errors.Is(err, errNotCached) {
		return n, err
	}
	s.config.Logger.Warn("no place for compiled plugins, this one stays in memory: make room for temporary files", "error", err)
	return s.compileInMemory(ctx, wasm)
}

func (s *Sandbox) compileInMemory(ctx context.Context, wasm []byte) (native, error) {
	e, err := s.inMemory(ctx)
	if err != nil {
		return native{}, err
	}
	compiled, err := compileModule(ctx, e.runtime, wasm)
	if err != nil {
		return native{}, err
	}
	return native{runtime: e.runtime, compiled: compiled}, nil
}

// inMemory is the engine for code that is not on disk.
func (s *Sandbox) inMemory(ctx context.Context) (engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return engine{}, ErrClosed
	}
	if s.plain.runtime != nil {
		return s.plain, nil
	}
	e, err := newEngine(context.WithoutCancel(ctx), "")
	if err != nil {
		return engine{}, err
	}
	if err := e.ready(ctx); err != nil {
		return engine{}, errors.Join(err, e.close(ctx))
	}
	s.plain = e
	return e, nil
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

func digestOf(wasm []byte) [sha256.Size]byte { return sha256.Sum256(wasm) }
