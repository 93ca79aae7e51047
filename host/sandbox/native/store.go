// Package native makes native code of modules, keeps it, and reloads it.
//
// A [Store] compiles: in processes of their own if there is a program for it
// ([Compiler]), and into a cache on disk if there is a place for it, from which
// the same module is loaded in milliseconds. A [Module] is the native code of
// one module, from which instances are made. A [Code] is a module that several
// users share, and that can be unloaded while there are none.
//
// A module is hostile until it is compiled. Where there is a program, nothing
// but it reads the module: it verifies and rewrites it ([Prepare]), compiles
// it, and writes an entry and a report, of which the host knows the largest
// size before it reads them.
//
// store.go has the store and the engine, queue.go the turns of compilations,
// code.go shared code, compiler.go the compiler's side and process.go the host's
// side of a compilation, disk.go the cache on disk with its entries (entry.go),
// and dir.go the directory that it is in.
package native

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Config configures a [Store].
type Config struct {
	// Dir keeps code across restarts; "" does not. It must belong to this
	// process's user, and nobody else may write to it or replace it. It is
	// created if missing.
	Dir string
	// Bytes bounds the code in Dir: the least recently used entries are
	// removed. 0 is 1 GiB.
	Bytes uint64
	// Prepare verifies and rewrites the modules of [Store.Compile].
	Prepare Prepare
	// Compiler is a program that runs [Compiler], with its first arguments.
	// nil: this process compiles.
	Compiler []string
	// CompilerMemory is how much memory the processes of that program may have
	// together, in bytes. One of them may have it all, up to 1 GiB.
	CompilerMemory uint64
	// Timeout bounds one compilation: the processor time of its process, so that
	// what a module may need is the same on a busy machine, and ten times as much
	// until it has ended, or that alone without a Compiler, without the wait for
	// its turn. 0 is a minute.
	Timeout time.Duration
	// HostModules makes the functions that modules import available in a
	// runtime.
	HostModules func(context.Context, wazero.Runtime) error
	Logger      hclog.Logger
	// Tune changes the configuration of the engine for code in memory, in
	// benchmarks only. It may be nil.
	Tune func(wazero.RuntimeConfig) wazero.RuntimeConfig

	problem *atomic.Pointer[error] // see [Store.Problem]
}

// Prepare verifies a module and returns the module to compile in its place. The
// report describes the module, in at most [MaxReport] bytes of JSON. If the
// module is refused the result is nil, and the report contains why.
type Prepare func(module []byte, options json.RawMessage) (rewritten, report []byte)

// MaxReport is the largest report of a [Prepare], in bytes.
const MaxReport = 1 << 20

// Job is a module to compile.
type Job struct {
	Key     string                 // of its code in the cache
	Size    int64                  // of the module, in bytes: small ones are compiled first
	Read    func() ([]byte, error) // reads the module; called once for each attempt
	Options json.RawMessage        // for the [Prepare] of the store
}

var (
	// ErrClosed is returned for a compilation after [Store.Close].
	ErrClosed = errors.New("closed")
	// ErrRefused is the error for a module that [Prepare] refuses. The report
	// contains why.
	ErrRefused = errors.New("refused")
	// ErrTooExpensive is the error for a module that the compiler could not
	// finish, or of which it made too much code.
	ErrTooExpensive = errors.New("its compilation needs too much")
)

// Store compiles modules and loads what was compiled before. It is safe for
// concurrent use.
type Store struct {
	config Config
	disk   *disk // nil: code is in memory only
	queue  *queue

	mu       sync.Mutex
	inMemory engine // for code that is in memory only; started when first needed
	closed   bool
}

// Open opens the cache and starts an engine with it. It fails if executing code
// from the directory would not be safe, or if there is a compiler and no
// directory for it. A directory that cannot be written is no failure: then code
// is not kept.
func Open(ctx context.Context, config Config) (*Store, error) {
	config.Timeout = cmp.Or(config.Timeout, time.Minute)
	config.Bytes = cmp.Or(config.Bytes, defaultBytes)
	config.problem = &atomic.Pointer[error]{}
	d, err := openCache(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open compile cache: %w", err)
	}
	return &Store{config: config, disk: d, queue: newQueue(runtime.GOMAXPROCS(0), config.CompilerMemory)}, nil
}

// Problem returns why Dir could not be written when something was to be kept there last; nil if it
// could.
func (s *Store) Problem() error {
	if err := s.config.problem.Load(); err != nil {
		return *err
	}
	return nil
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

// Find loads the code that was compiled under a key, and returns the report
// about the module. If there is none the error is an [fs.ErrNotExist]; any other
// error is the reason why the stored code cannot be used.
func (s *Store) Find(ctx context.Context, key string) (m Module, report []byte, err error) {
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
	return m, e.info.Report, nil
}

// Compile makes native code of a module, on disk if possible, and returns the
// report about it, also with an error that comes after it was made. The error is
// [ErrRefused], an [ErrTooExpensive], or what the engine says about the module,
// or of another kind if it is not the module's fault. Modules are compiled in
// the order that queue.go describes.
func (s *Store) Compile(ctx context.Context, job Job) (m Module, report []byte, err error) {
	// Nothing can stop this process in the middle of a function.
	t := &turn{queue: s.queue, size: job.Size, patient: len(s.config.Compiler) == 0}
	for {
		if err := s.queue.wait(ctx, t); err != nil {
			return Module{}, nil, err
		}
		m, report, err = s.compileOnce(ctx, job, t)
		switch again := s.queue.end(t, err); {
		case !again:
			return m, report, err
		case ctx.Err() != nil:
			return Module{}, nil, canceled(ctx)
		}
	}
}

// errTooMuchTime is the error for a module whose compilation needs more processor
// time than the configuration allows.
func errTooMuchTime(limit time.Duration) error {
	return fmt.Errorf("%w: more than %s of processor time: build it of smaller functions", ErrTooExpensive, limit)
}

// errTooLong is the error for a module whose compilation takes so long that it
// cannot have been the machine alone.
func errTooLong(limit time.Duration) error {
	return fmt.Errorf("%w: it has not ended in %s: build it of smaller functions, or give the host more of a processor", ErrTooExpensive, limit)
}

// compileOnce compiles a module, until it is done, its turn ends, or it has
// taken too long.
func (s *Store) compileOnce(ctx context.Context, job Job, t *turn) (Module, []byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.queue.setStop(t, cancel)
	ctx, stop := context.WithTimeoutCause(ctx, patience*s.config.Timeout, errTooLong(patience*s.config.Timeout))
	defer stop()
	wasm, err := job.Read()
	switch {
	case err != nil:
		return Module{}, nil, err
	case ctx.Err() != nil:
		return Module{}, nil, canceled(ctx)
	case s.disk == nil:
		return s.compileInMemory(ctx, job, wasm)
	}
	m, report, err := s.disk.compile(ctx, job, wasm, t)
	if len(s.config.Compiler) > 0 || ctx.Err() != nil || !isWriteError(err) && !errors.Is(err, errNotCached) {
		return m, report, err
	}
	s.config.Logger.Warn("compiled plugin cannot be written, keeping it in memory: make room for temporary files", "error", err)
	return s.compileInMemory(ctx, job, wasm)
}

func canceled(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrTooExpensive) {
		return cause
	}
	return fmt.Errorf("compilation was canceled: %w", context.Cause(ctx))
}

// Reload loads a module that is unloaded. The result takes its place; after an
// error the unloaded module is as it was.
func (s *Store) Reload(ctx context.Context, unloaded Module) (Module, error) {
	if _, err := unloaded.entry.verify(); err != nil { // it may have been damaged since
		return Module{}, err
	}
	return s.disk.open(ctx, unloaded.entry)
}

func (s *Store) compileInMemory(ctx context.Context, job Job, wasm []byte) (Module, []byte, error) {
	e, err := s.engineInMemory(ctx)
	if err != nil {
		return Module{}, nil, err
	}
	rewritten, report := s.config.Prepare(wasm, job.Options)
	if rewritten == nil {
		return Module{}, report, ErrRefused
	}
	compiled, err := compileModule(ctx, e.runtime, rewritten, interruptible())
	if err != nil {
		return Module{}, report, err
	}
	return Module{runtime: e.runtime, compiled: compiled}, report, nil
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

func compileModule(ctx context.Context, r wazero.Runtime, wasm []byte, workers int) (wazero.CompiledModule, error) {
	compiled, err := r.CompileModule(experimental.WithCompilationWorkers(ctx, workers), wasm)
	if err != nil && ctx.Err() != nil {
		return nil, canceled(ctx)
	}
	return compiled, err
}

// interruptible returns the number of workers for a compilation in a host's own
// process: the engine looks at the context between functions only if it has two
// or more.
func interruptible() int { return max(2, runtime.GOMAXPROCS(0)) }
