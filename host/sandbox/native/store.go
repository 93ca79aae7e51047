package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Config configures a [Store].
type Config struct {
	// Dir keeps code across restarts; "" does not. It must belong to this
	// process's user and be writable by nobody else. It is made if missing.
	Dir string
	// Bytes is how much of the disk the code in Dir may take: what was used
	// least lately goes. 0 is 1 GiB.
	Bytes uint64
	// Compiler is a program that runs [Compiler], with its first arguments.
	// nil: this process compiles.
	Compiler []string
	// CompilerMemory is how much memory that program may have, in bytes.
	CompilerMemory uint64
	// Offer makes importable in a runtime what modules import.
	Offer  func(context.Context, wazero.Runtime) error
	Logger hclog.Logger
	// Tune changes the configuration of the engine for code in memory, in
	// benchmarks only. It may be nil.
	Tune func(wazero.RuntimeConfig) wazero.RuntimeConfig
}

// ErrClosed is for what is compiled after [Store.Close].
var ErrClosed = errors.New("closed")

// Store makes native code, and has that of before. It is safe for concurrent
// use.
type Store struct {
	config Config
	disk   *disk // nil: code is in memory only

	mu     sync.Mutex
	plain  engine // for code that is in memory only; started when first needed
	closed bool
}

// Open opens the cache, and starts an engine with it. It fails if the
// directory is not safe to execute code from; one that cannot be written is
// done without.
func Open(ctx context.Context, config Config) (*Store, error) {
	d, err := openCache(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open compile cache: %w", err)
	}
	return &Store{config: config, disk: d}, nil
}

// Close frees the engine. All modules were closed before.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return errors.Join(s.plain.close(ctx), s.disk.close(ctx))
}

// Module is the native code of a module.
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule // nil while it sleeps
	entry    *entry                // on disk; nil: in memory only
}

// Instantiate makes an instance of it.
func (m Module) Instantiate(ctx context.Context, config wazero.ModuleConfig) (api.Module, error) {
	return m.runtime.InstantiateModule(ctx, m.compiled, config)
}

// Close frees the code. No instance is left.
func (m Module) Close(ctx context.Context) {
	if m.compiled != nil {
		_ = m.compiled.Close(ctx)
	}
	if m.entry != nil {
		m.entry.close()
	}
}

// Find answers the code that was compiled under a key, and the note that was
// left with it. If there is none the error is an [fs.ErrNotExist]; any other
// one says why what is there cannot be used.
func (s *Store) Find(ctx context.Context, key string) (Module, []byte, error) {
	if s.disk == nil {
		return Module{}, nil, fs.ErrNotExist
	}
	e, err := s.disk.find(key)
	if err != nil {
		return Module{}, nil, err
	}
	m, err := s.disk.open(ctx, e)
	if err != nil {
		e.close()
		return Module{}, nil, err
	}
	return m, e.facts.Note, nil
}

// Compile makes native code of a module, on disk if possible: under that key,
// with a note in JSON. An [ErrHeavy] says that it would take too much.
func (s *Store) Compile(ctx context.Context, key string, wasm, note []byte) (Module, error) {
	if s.disk == nil {
		return s.compileInMemory(ctx, wasm)
	}
	m, err := s.disk.compile(ctx, key, wasm, note)
	if err == nil || ctx.Err() != nil || !unwritable(err) && !errors.Is(err, errNotCached) {
		return m, err
	}
	s.config.Logger.Warn("no place for compiled plugins, this one stays in memory: make room for temporary files", "error", err)
	return s.compileInMemory(ctx, wasm)
}

// Reopen answers the code of a module that sleeps, in place of it. After an
// error the module is as it was.
func (s *Store) Reopen(ctx context.Context, asleep Module) (Module, error) {
	return s.disk.reopen(ctx, asleep.entry)
}

func (s *Store) compileInMemory(ctx context.Context, wasm []byte) (Module, error) {
	e, err := s.inMemory(ctx)
	if err != nil {
		return Module{}, err
	}
	compiled, err := compileModule(ctx, e.runtime, wasm)
	if err != nil {
		return Module{}, err
	}
	return Module{runtime: e.runtime, compiled: compiled}, nil
}

// inMemory is the engine for code that is not on disk.
func (s *Store) inMemory(ctx context.Context) (engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return engine{}, ErrClosed
	}
	if s.plain.runtime != nil {
		return s.plain, nil
	}
	e, err := newEngine(context.WithoutCancel(ctx), "", s.config.Tune)
	if err != nil {
		return engine{}, err
	}
	if err := e.offer(ctx, s.config.Offer); err != nil {
		return engine{}, errors.Join(err, e.close(ctx))
	}
	s.plain = e
	return e, nil
}
