package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Config is what a [Controller] needs.
type Config struct {
	Name    string
	Workers int // runs at once
	Queue   Queue
	Cache   Cache
	Metrics Metrics
	Logger  hclog.Logger
	Lines   Allowance     // of guest lines in the log, of the whole plugin; nil: all
	Barrier time.Duration // how long a run waits for the cache to show the writes before; default 5 s
	Grace   time.Duration // how long runs under way may take after the end; default 10 s
}

// Generation is the plugin at one digest as the controller runs it.
type Generation struct {
	Number     int
	Guest      Guest
	Effects    Effects        // as the plugin's policy has them
	Breaker    *Breaker       // of all controllers of the plugin; nil: always closed
	Trial      *Trial         // of all controllers of the plugin; nil: it has none
	Controller abi.Controller // from the manifest
	// MemoVersion names what memos mean: they stay when it does.
	MemoVersion string
	// CrossNamespace lets namespaced primaries read in other namespaces.
	CrossNamespace bool
	Intents        int    // at most in one result; 0: as many as the ABI allows
	Config         []byte // JSON; the administrator's configuration, nil if none
}

// Controller reconciles the objects of one primary kind.
type Controller struct {
	Config
	generation atomic.Pointer[Generation] // replaced under mu
	turn       chan struct{}              // held by the worker that takes the next key

	mu   sync.Mutex
	keys map[object.Key]*keyState
}

// New returns a controller that runs the given generation once
// [Controller.Run] is called.
func New(config Config, g *Generation) *Controller {
	if config.Barrier == 0 {
		config.Barrier = 5 * time.Second
	}
	if config.Grace == 0 {
		config.Grace = 10 * time.Second
	}
	c := &Controller{Config: config, keys: map[object.Key]*keyState{}, turn: make(chan struct{}, 1)}
	c.generation.Store(g)
	return c
}

// Generation returns the generation that new runs use.
func (c *Controller) Generation() *Generation { return c.generation.Load() }

// Swap makes new runs use g; runs in progress end on the generation that they
// began with, and nobody waits for its breaker any more. Keys keep their place,
// edges and timers; what the old code has tried is dropped with the next run.
// Every key is triggered. One goroutine at a time may swap.
func (c *Controller) Swap(g *Generation, keys []object.Key) {
	before := c.generation.Load()
	passed, keepMemo := before.Trial.Sound(), before.MemoVersion == g.MemoVersion
	c.mu.Lock()
	c.generation.Store(g) // here, so that no run takes the new code for the old
	for _, state := range c.keys {
		state.swapped(passed, keepMemo)
	}
	c.mu.Unlock()
	before.Breaker.retire()
	for _, key := range keys {
		c.Queue.Trigger(key, abi.ReasonPlugin)
	}
}

// Run reconciles until ctx is done and every run has ended. Runs under way
// then get the grace time to end as if nothing had happened.
func (c *Controller) Run(ctx context.Context) {
	runs, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	defer context.AfterFunc(ctx, func() {
		c.Queue.ShutDown()
		grace := time.AfterFunc(c.Grace, abort)
		context.AfterFunc(runs, func() { grace.Stop() })
	})()
	var workers sync.WaitGroup
	for range c.Workers {
		workers.Go(func() { c.work(ctx, runs) })
	}
	workers.Wait()
}
