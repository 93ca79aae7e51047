// Package sandbox runs plugins: it loads a WebAssembly module, verifies it
// against thole/v1, and runs reconcile calls in isolated instances of it. It is
// the only package that depends on the engine (wazero).
//
// A [Sandbox] holds what all plugins share. [Sandbox.Load] verifies and starts
// one plugin at one digest and returns a [Guest]; [Guest.Reconcile] makes a call;
// [Guest.Close] waits for the calls in flight and frees it.
//
// Parts that can stand alone are packages below, in the order in which a plugin
// comes to them:
//
//	module    reads the file, and refuses what would harm the host to read
//	meter     compiles fuel into it
//	native    makes native code of it, keeps that on disk, and reloads it
//	memory    gives its instances memory, and restores it
//	schedule  gives its calls execution slots
//	deadline  ends them in time
//	wasi      is the system interface that compilers' runtimes call
//
// The files here are the life of a guest:
//
//	load.go          Load: the steps, and their errors
//	compile.go       from the file to native code, by way of the cache
//	verify.go        the contract that a module is verified against
//	inspect.go       Inspect: a load that reports what it finds
//	guest.go         Guest and its calls
//	instance.go      one instance: how it is made and entered
//	reset.go         the image that instances are reset to
//	pool.go          the instances between calls: pooled, made ahead, reaped when idle
//	call.go          the state of one call: input, output, costs, limits
//	memorycaller.go  how a call waits for memory, and is ended for that of others
//	fuel.go          how much a call may execute, and what happens at each slice
//	hostfunctions.go the functions that guests import
//	fault.go         calls that fail: classes, messages, stack traces
//
// Guarantees:
//   - If there is a program that compiles ([Config.Compiler]), nothing but its
//     processes reads a module: they are bounded in time and memory, and what
//     they return is bounded and checked.
//   - No guest code runs before the module's structure, exports, signatures,
//     imports and limits have been verified ([LoadError] has the reason).
//   - An instance makes one call at a time. What a call leaves, in memory or
//     elsewhere, is not visible to the next (reset.go). In modules of the standard
//     Go compiler, whose heap takes longer to restore than most reconciles run, it
//     is visible to calls in the same namespace, or to all if
//     [Limits.PoolNamespaces] is set.
//   - A call ends by its deadline, and within its fuel, memory, output, host-call
//     and log limits. Whatever fails inside is a [Fault] with a class, and the
//     host continues.
//   - A plugin that is not called loses its instances after a minute, and its
//     native code five minutes later. The next call reloads them, and calls that
//     come meanwhile wait.
//   - Time and randomness come from the [Call]. The same request, replies, time
//     and seed give the same output and use the same fuel (for guests that are
//     reset).
package sandbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"

	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/meter"
	"github.com/thole-dev/thole/host/sandbox/native"
	"github.com/thole-dev/thole/host/sandbox/schedule"
)

// Sandbox holds what plugins share: the engine with its compile cache, the
// execution slots and the memory budget. It is safe for concurrent use.
type Sandbox struct {
	config    Config
	contract  contract            // what capabilities add
	denied    map[string][]string // see [Config.contract]
	store     *native.Store
	scheduler *schedule.Scheduler
	memory    *memory.Budget
	failures  *lru.Cache    // the *LoadError of loads that took too long, by loadKey
	metering  meter.Options // other than the zero value in benchmarks only

	mu     sync.Mutex
	guests map[*Guest]struct{}
	closed bool

	closing chan struct{} // closed to end the idle reaper
	reaper  sync.WaitGroup
}

// New starts a sandbox. It fails if executing code from the cache directory
// would not be safe.
func New(ctx context.Context, config Config) (*Sandbox, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	store, err := native.Open(ctx, native.Config{
		Dir:            config.CacheDir,
		Bytes:          config.CacheBytes,
		Prepare:        prepare,
		Compiler:       config.Compiler,
		CompilerMemory: compilerMemory(),
		Timeout:        config.LoadTimeout,
		HostModules:    config.addHostModules,
		Logger:         config.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		config:    config,
		store:     store,
		scheduler: schedule.New(config.Slots),
		failures:  lru.New(maxLoadFailures),
		guests:    map[*Guest]struct{}{},
		closing:   make(chan struct{}),
	}
	s.contract, s.denied = config.contract()
	s.memory = memory.NewBudget(config.MemoryBytes, s.dropLongestIdle)
	s.reaper.Go(s.runIdleReaper)
	return s, nil
}

// compilerMemory returns how much memory compilers may have together: half of
// what guests may have by default, and of what this process's own heap may.
func compilerMemory() uint64 {
	heap := uint64(debug.SetMemoryLimit(-1)) // GOMEMLIMIT
	return max(min(memory.DefaultLimit(os.DirFS("/")), heap)/2, minCompilerMemory)
}

// Close closes all guests, waits for their calls in flight, and frees the
// engine. If ctx ends first it returns an error and may be called again.
func (s *Sandbox) Close(ctx context.Context) error {
	s.refuseLoads()
	for _, g := range s.loaded() {
		if err := g.Close(ctx); err != nil {
			return fmt.Errorf("close sandbox: %w", err)
		}
	}
	s.reaper.Wait()
	defer s.memory.Close()
	if err := s.store.Close(ctx); err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

// refuseLoads refuses further loads, and ends the idle reaper.
func (s *Sandbox) refuseLoads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}

// loaded returns all guests.
func (s *Sandbox) loaded() []*Guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.guests))
}

func (s *Sandbox) add(g *Guest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("load plugin %q: %w", g.name, ErrClosed)
	}
	s.guests[g] = struct{}{}
	return nil
}

func (s *Sandbox) remove(g *Guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, g)
}

// MemoryStats describes the memory that guests share.
type MemoryStats = memory.Stats

// Memory returns the state of the memory that guests share.
func (s *Sandbox) Memory() MemoryStats { return s.memory.Stats() }

// CacheProblem returns why compiled plugins cannot be kept on disk, nil if they can.
func (s *Sandbox) CacheProblem() error { return s.store.Problem() }

// SlotStats describes the execution slots.
type SlotStats = schedule.Stats

// Slots returns the state of the execution slots.
func (s *Sandbox) Slots() SlotStats { return s.scheduler.Stats() }
