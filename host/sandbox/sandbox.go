package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
)

// Sandbox holds what plugins share: the engine, its compile cache and the
// functions that guests import. It is safe for concurrent use.
type Sandbox struct {
	config    Config
	runtime   wazero.Runtime
	cache     wazero.CompilationCache
	cacheDir  string
	compiling chan struct{} // holds a token while a module is compiled: one at a time

	mu     sync.Mutex
	guests map[*Guest]struct{}
	closed bool
}

// New starts a sandbox. It fails if the cache directory is not safe to
// execute code from.
func New(ctx context.Context, config Config) (*Sandbox, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	cache, err := openCache(config.CacheDir, config.Logger)
	if err != nil {
		return nil, fmt.Errorf("open compile cache: %w", err)
	}
	s := &Sandbox{
		config:    config,
		runtime:   wazero.NewRuntimeWithConfig(ctx, engineConfig(cache)),
		cache:     cache,
		cacheDir:  config.CacheDir,
		compiling: make(chan struct{}, 1),
		guests:    map[*Guest]struct{}{},
	}
	for _, m := range hostModules() {
		if err := m.instantiate(ctx, s.runtime); err != nil {
			return nil, errors.Join(fmt.Errorf("start engine: %s: %w", m.name, err), s.Close(ctx))
		}
	}
	return s, nil
}

// Close closes every guest, waits for their calls in flight, and frees the
// engine. If ctx ends first it says so and may be called again.
func (s *Sandbox) Close(ctx context.Context) error {
	for _, g := range s.shut() {
		if err := g.Close(ctx); err != nil {
			return fmt.Errorf("close sandbox: %w", err)
		}
	}
	if err := errors.Join(s.runtime.Close(ctx), s.cache.Close(ctx)); err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

// shut refuses further loads and lists the guests that are left.
func (s *Sandbox) shut() []*Guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	left := make([]*Guest, 0, len(s.guests))
	for g := range s.guests {
		left = append(left, g)
	}
	return left
}

func (s *Sandbox) add(g *Guest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.guests[g] = struct{}{}
	return nil
}

func (s *Sandbox) remove(g *Guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, g)
}
