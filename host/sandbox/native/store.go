// Package native makes native code of modules, keeps it, and reloads it.
//
// A [Store] compiles: in a process of its own if there is a program for it
// ([Compiler]), and into a cache on disk if there is a place for it, from which
// the same module is loaded in milliseconds. A [Module] is the native code of
// one module, from which instances are made. A [Code] is a module that several
// users share, and that can be unloaded while there are none.
//
// Modules must have been verified before: what is compiled is whatever the
// engine accepts.
//
// store.go has the store and the engine, code.go shared code, compiler.go the
// compiler's process, disk.go the cache on disk with its entries (entry.go), and
// dir.go the directory that it is in.
package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Config configures a [Store].
type Config struct {
	// Dir keeps code across restarts; "" does not. It must belong to this
	// process's user and not be writable by others. It is created if missing.
	Dir string
	// Bytes bounds the code in Dir: the least recently used entries are
	// removed. 0 is 1 GiB.
	Bytes uint64
	// Compiler is a program that runs [Compiler], with its first arguments.
	// nil: this process compiles.
	Compiler []string
	// CompilerMemory is how much memory that program may have, in bytes.
	CompilerMemory uint64
	// HostModules makes the functions that modules import available in a
	// runtime.
	HostModules func(context.Context, wazero.Runtime) error
	Logger      hclog.Logger
	// Tune changes the configuration of the engine for code in memory, in
	// benchmarks only. It may be nil.
	Tune func(wazero.RuntimeConfig) wazero.RuntimeConfig
}

// ErrClosed is returned for a compilation after [Store.Close].
var ErrClosed = errors.New("closed")

// Store compiles modules and loads what was compiled before. It is safe for
// concurrent use.
type Store struct {
	config Config
	disk   *disk // nil: code is in memory only

	mu       sync.Mutex
	inMemory engine // for code that is in memory only; started when first needed
	closed   bool
}

// Open opens the cache and starts an engine with it. It fails if executing code
// from the directory would not be safe. A directory that cannot be written is
// no failure: then code is not kept.
func Open(ctx context.Context, config Config) (*Store, error) {
	d, err := openCache(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open compile cache: %w", err)
	}
	return &Store{config: config, disk: d}, nil
}

// Close frees the engine. All modules must have been closed.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return errors.Join(s.inMemory.close(ctx), s.disk.close(ctx))
}

// Module is the native code of a module.
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule // nil while it is unloaded
	entry    *entry                // on disk; nil: in memory only
}

// Instantiate makes an instance of the module.
func (m Module) Instantiate(ctx context.Context, config wazero.ModuleConfig) (api.Module, error) {
	return m.runtime.InstantiateModule(ctx, m.compiled, config)
}

// Close frees the code. All instances must have been closed.
func (m Module) Close(ctx context.Context) {
	if m.compiled != nil {
		_ = m.compiled.Close(ctx)
	}
	if m.entry != nil {
		m.entry.close()
	}
}

// Find loads the code that was compiled under a key, and returns the metadata
// that was stored with it. If there is none the error is an [fs.ErrNotExist];
// any other error is the reason why the stored code cannot be used.
func (s *Store) Find(ctx context.Context, key string) (m Module, metadata []byte, err error) {
	if s.disk == nil {
		return Module{}, nil, fs.ErrNotExist
	}
	e, err := s.disk.find(key)
	if err != nil {
		return Module{}, nil, err
	}
	m, err = s.disk.open(ctx, e)
	if err != nil {
		e.close()
		return Module{}, nil, err
	}
	return m, e.info.Metadata, nil
}

// Compile makes native code of a module, on disk if possible: under a key, with
// metadata in JSON. The error is an [ErrTooExpensive] if it needs too much.
func (s *Store) Compile(ctx context.Context, key string, wasm, metadata []byte) (Module, error) {
	if s.disk == nil {
		return s.compileInMemory(ctx, wasm)
	}
	m, err := s.disk.compile(ctx, key, wasm, metadata)
	if err == nil || ctx.Err() != nil || !isWriteError(err) && !errors.Is(err, errNotCached) {
		return m, err
	}
	s.config.Logger.Warn("compiled plugin cannot be written, keeping it in memory: make room for temporary files", "error", err)
	return s.compileInMemory(ctx, wasm)
}

// Reload loads a module that is unloaded. The result takes its place; after an
// error the unloaded module is as it was.
func (s *Store) Reload(ctx context.Context, unloaded Module) (Module, error) {
	if _, err := unloaded.entry.verify(); err != nil { // it may have been damaged since
		return Module{}, err
	}
	return s.disk.open(ctx, unloaded.entry)
}

func (s *Store) compileInMemory(ctx context.Context, wasm []byte) (Module, error) {
	e, err := s.engineInMemory(ctx)
	if err != nil {
		return Module{}, err
	}
	compiled, err := compileModule(ctx, e.runtime, wasm)
	if err != nil {
		return Module{}, err
	}
	return Module{runtime: e.runtime, compiled: compiled}, nil
}

// engineInMemory returns the engine for code that is not on disk.
func (s *Store) engineInMemory(ctx context.Context) (engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return engine{}, ErrClosed
	}
	if s.inMemory.runtime != nil {
		return s.inMemory, nil
	}
	e, err := newEngine(context.WithoutCancel(ctx), "", s.config.Tune)
	if err != nil {
		return engine{}, err
	}
	if err := s.config.HostModules(ctx, e.runtime); err != nil {
		return engine{}, errors.Join(err, e.close(ctx))
	}
	s.inMemory = e
	return e, nil
}

// EngineVersion must be a part of the key of what is compiled. It is the version
// of the module in go.mod, which a test compares: the build information of a
// program that was built by `go test` does not contain it.
const EngineVersion = "v1.12.0"

// engine is a wazero runtime with the cache in which it keeps native code.
type engine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
}

// newEngine starts an engine that reads and writes native code in dir, or keeps
// it in memory if dir is "". tune may be nil.
func newEngine(ctx context.Context, dir string, tune func(wazero.RuntimeConfig) wazero.RuntimeConfig) (engine, error) {
	cache := wazero.NewCompilationCache()
	if dir != "" {
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return engine{}, err
		}
	}
	// WithCloseOnContextDone is not set: the fuel that is compiled into each
	// module ends its calls.
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithCompilationCache(cache)
	if tune != nil {
		config = tune(config)
	}
	return engine{wazero.NewRuntimeWithConfig(ctx, config), cache}, nil
}

func (e engine) close(ctx context.Context) error {
	if e.runtime == nil {
		return nil
	}
	return errors.Join(e.runtime.Close(ctx), e.cache.Close(ctx))
}

func compileModule(ctx context.Context, r wazero.Runtime, wasm []byte) (wazero.CompiledModule, error) {
	// The engine checks ctx between functions only if it has two workers or
	// more.
	ctx = experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
	compiled, err := r.CompileModule(ctx, wasm)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("compilation was canceled: %w", context.Cause(ctx))
	}
	return compiled, err
}
