package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/schedule"
)

// Sandbox holds what plugins share: the engine, its compile cache and the
// functions that guests import. It is safe for concurrent use.
type Sandbox struct {
	config    Config
	store     *native.Store
	compiling chan struct{} // holds a token while a module is compiled: one at a time
	slots     *schedule.Scheduler
	memory    *memory.Budget
	slow      slow
	metering  meter.Options // other than the zero value in benchmarks only

	mu     sync.Mutex
	guests map[*Guest]struct{}
	closed bool

	closing chan struct{} // closed to end the janitor
	swept   chan struct{} // closed when it has ended
}

// New starts a sandbox. It fails if the cache directory is not safe to
// execute code from.
func New(ctx context.Context, config Config) (*Sandbox, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	store, err := native.Open(ctx, native.Config{
		Dir:            config.CacheDir,
		Bytes:          config.CacheBytes,
		Compiler:       config.Compiler,
		CompilerMemory: config.CompilerMemory,
		Offer:          offer,
		Logger:         config.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		config:    config,
		store:     store,
		compiling: make(chan struct{}, 1),
		slots:     schedule.New(schedule.Config{Slots: config.Slots}),
		guests:    map[*Guest]struct{}{},
		closing:   make(chan struct{}),
		swept:     make(chan struct{}),
	}
	s.memory = memory.NewBudget(config.MemoryBytes, s.dropIdle)
	go s.janitor()
	return s, nil
}

// Close closes every guest, waits for their calls in flight, and frees the
// engine. If ctx ends first it says so and may be called again.
func (s *Sandbox) Close(ctx context.Context) error {
	s.shut()
	for _, g := range s.loaded() {
		if err := g.Close(ctx); err != nil {
			return fmt.Errorf("close sandbox: %w", err)
		}
	}
	<-s.swept
	defer s.memory.Close()
	if err := s.store.Close(ctx); err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

// shut refuses further loads.
func (s *Sandbox) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}

// loaded lists the guests.
func (s *Sandbox) loaded() []*Guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.guests))
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
