package host

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

// plugins runs the generations that the catalog has loaded: it joins each
// controller of a plugin to its queue, its informers and its effects.
type plugins struct {
	h *Host

	mu          sync.Mutex
	byName      map[string]*plugin
	controllers map[string]*controller // by plugin/controller: who is woken by edges
}

// plugin is what outlives the generations of a plugin.
type plugin struct {
	kinds       informers
	effects     atomic.Pointer[effect.Performer]
	lines       *rate.Limiter                    // of its guest lines in the log
	told        *rate.Limiter                    // of its events about objects
	breaker     atomic.Pointer[dispatch.Breaker] // of the running generation
	trial       atomic.Pointer[dispatch.Trial]   // of the running generation; nil: it has none
	openings    atomic.Uint64                    // of all breakers
	controllers map[string]*controller
}

// A plugin may log so many lines per second, and so many at once.
const (
	linesPerSecond = 50
	linesAtOnce    = 500
)

// controller is one running controller.
type controller struct {
	*dispatch.Controller
	id      string // plugin/controller
	metrics *telemetry.ControllerMetrics
	cancel  context.CancelFunc
	done    sync.WaitGroup
	hooks   map[hook]func() // remove the informers' handlers
}

var _ catalog.Runner = (*plugins)(nil)

// Start makes the generation's informers ready, then swaps it in: from there
// on nothing can fail.
func (p *plugins) Start(ctx context.Context, g *catalog.Generation) error {
	if !p.h.config.HostIdentity {
		return fmt.Errorf("plugin %q has no service account to act as; let plugins act with the rights of the host by --host-identity", g.Plugin)
	}
	policy, err := p.h.config.readPolicy(g.Plugin, g.Policy)
	if err != nil {
		return err
	}
	byKind, err := acquire(ctx, p.h.cache, kindsOf(g.Manifest), p.running(g.Plugin))
	if err != nil {
		return err
	}
	pl, err := p.plugin(g.Plugin, policy)
	if err != nil {
		release(byKind)
		return err
	}
	pl.breaker.Store(p.breaker(g, pl))
	pl.trial.Store(p.trial(g))
	declared := pl.declared()
	before := p.goOn(pl, g.Manifest, policy)
	pl.controllers = map[string]*controller{}
	pl.kinds.replace(byKind)
	for kind := range byKind {
		pl.effects.Load().Rediscovered(kind) // new code may come with a new schema
	}
	for _, m := range g.Manifest.Controllers {
		pl.controllers[m.Name] = p.bring(g, m, pl, policy, before[m.Name])
	}
	p.tellRemains(g.Plugin, declared, pl.declared())
	return nil
}

// goOn stops the controllers that cannot go on under a new generation, while
// the informers are there that their runs read, and returns the others.
func (p *plugins) goOn(pl *plugin, next *abi.Manifest, policy Policy) map[string]*controller {
	going := map[string]*controller{}
	for _, m := range next.Controllers {
		if c := pl.controllers[m.Name]; c != nil && c.goesOnWith(m, policy) {
			going[m.Name] = c
		}
	}
	var ending []*controller
	for name, c := range pl.controllers {
		if going[name] == nil {
			ending = append(ending, c)
		}
	}
	p.stop(ending)
	return going
}

// running returns the informers of the plugin's running generation.
func (p *plugins) running(name string) *informers {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl := p.byName[name]; pl != nil {
		return &pl.kinds
	}
	return &informers{}
}

// Sound says whether the running generation may be gone back to.
func (p *plugins) Sound(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.byName[name]
	return pl != nil && pl.trial.Load().Sound()
}

// Stop ends the plugin's controllers.
func (p *plugins) Stop(name string, removed bool) {
	p.mu.Lock()
	pl := p.byName[name]
	delete(p.byName, name)
	p.mu.Unlock()
	if pl == nil {
		return
	}
	declared := pl.declared()
	p.stop(slices.Collect(maps.Values(pl.controllers)))
	if removed {
		p.h.events.pod.PluginRemoved(name)
		p.tellRemains(name, declared, nil)
	}
	pl.kinds.replace(nil)
}

// plugin returns what the plugin's generations share. Its performer remembers
// what it has applied, and is kept unless the policy says another thing.
func (p *plugins) plugin(name string, policy Policy) (*plugin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.byName[name]
	if pl != nil && pl.acts(policy) {
		return pl, nil
	}
	if pl == nil {
		pl = &plugin{
			controllers: map[string]*controller{},
			lines:       rate.NewLimiter(linesPerSecond, linesAtOnce),
			told:        rate.NewLimiter(pluginEventsPerSecond, pluginEventsAtOnce),
		}
	}
	metrics := p.h.metrics.Plugin(name)
	performer, err := effect.New(effect.Config{
		REST:     p.h.cluster,
		Plugin:   name,
		Version:  p.h.version,
		Store:    effectStore{p.h.cache, &pl.kinds},
		Recorder: share{p.h.recorder, pl.told, func() { metrics.Limited("events") }},
		Logger:   p.h.logger.Named("effect").With("plugin", name),
		QPS:      policy.Limits.WritesPerSecond,
		Burst:    policy.Limits.WriteBurst,
		Waited:   metrics.WriteWaited,

		CrossNamespace: policy.CrossNamespace,
		DryRun:         policy.DryRun,
	})
	if err != nil {
		return nil, err
	}
	pl.effects.Store(performer)
	p.byName[name] = pl
	return pl, nil
}

// acts says whether the performer does what the policy says.
func (pl *plugin) acts(policy Policy) bool {
	p := pl.effects.Load()
	return p.CrossNamespace == policy.CrossNamespace && p.DryRun == policy.DryRun &&
		p.QPS == policy.Limits.WritesPerSecond && p.Burst == policy.Limits.WriteBurst
}

// bring starts the controller, or swaps the generation of the running one.
func (p *plugins) bring(g *catalog.Generation, m abi.Controller, pl *plugin, policy Policy, running *controller) *controller {
	next := &dispatch.Generation{
		Number: g.Number, Guest: dispatchGuest{g.Guest.(*sandbox.Guest)}, Effects: dispatchEffects{pl.effects.Load()}, Breaker: pl.breaker.Load(), Trial: pl.trial.Load(), Controller: m,
		MemoVersion: memoVersion(g), Config: policy.Config, CrossNamespace: policy.CrossNamespace, Intents: policy.Limits.Intents,
	}
	if running == nil {
		return p.start(g.Plugin, next, pl, workers(m, policy))
	}
	running.join(m, &pl.kinds)
	running.Swap(next, keysOf(pl.kinds.get(m.For)))
	return running
}

// memoVersion is that of the manifest. One that names none keeps its memos
// under a new policy alone.
func memoVersion(g *catalog.Generation) string {
	if g.Manifest.MemoVersion == "" {
		return "digest " + g.Digest
	}
	return g.Manifest.MemoVersion
}

// goesOnWith says whether a controller can go on under a new generation: as
// long as its keys are of the same kind and its workers as many. If not, it
// is started anew, and loses what its keys have tried.
func (c *controller) goesOnWith(m abi.Controller, policy Policy) bool {
	return c.Generation().Controller.For == m.For && c.Workers == workers(m, policy)
}

// workers is how many objects of a controller are reconciled at once.
func workers(m abi.Controller, policy Policy) int {
	if m.Concurrency <= 0 {
		return policy.Limits.Concurrency
	}
	return min(m.Concurrency, policy.Limits.Concurrency)
}

func (p *plugins) start(name string, g *dispatch.Generation, pl *plugin, workers int) *controller {
	id := name + "/" + g.Controller.Name
	c := &controller{id: id, metrics: p.h.metrics.Controller(id, workers)}
	c.Controller = dispatch.New(dispatch.Config{
		Name:    g.Controller.Name,
		Workers: workers,
		Queue:   dispatchQueue{queue.New(queue.Config{Name: id, MetricsProvider: p.h.metrics.WorkQueues()})},
		Cache:   dispatchCache{cache: p.h.cache, controller: id, kind: g.Controller.For, kinds: &pl.kinds},
		Metrics: c.metrics,
		Lines:   pl.lines,
		Logger:  p.h.logger.Named("dispatch").With("plugin", name, "controller", g.Controller.Name),
	}, g)
	p.mu.Lock()
	p.controllers[id] = c
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.join(g.Controller, &pl.kinds)
	c.done.Go(func() { c.Run(ctx) })
	c.done.Go(func() { c.resync(ctx, p.h.config.Resync.Duration, &pl.kinds) })
	return c
}

// stop ends controllers: no more events, runs under way end, what they were to
// others is forgotten. They end together, so that many take no longer than one
// and none goes on while another ends.
func (p *plugins) stop(controllers []*controller) {
	for _, c := range controllers {
		leave(c.hooks)
		c.cancel()
	}
	for _, c := range controllers {
		c.done.Wait()
		p.forget(c)
	}
}

func (p *plugins) forget(c *controller) {
	p.mu.Lock()
	delete(p.controllers, c.id)
	p.mu.Unlock()
	p.h.cache.ForgetController(c.id)
	c.metrics.Stopped()
	p.h.metrics.QueueStopped(c.id)
}

// wake tells a key that something it has read changed.
func (p *plugins) wake(owner cache.Owner, _ cache.Cause) {
	p.mu.Lock()
	c := p.controllers[owner.Controller]
	p.mu.Unlock()
	if c != nil {
		c.Wake(owner.Key)
	}
}

// resync triggers every key from time to time, with a tenth of jitter so that
// controllers do not do it together.
func (c *controller) resync(ctx context.Context, period time.Duration, kinds *informers) {
	for {
		jitter := time.Duration(rand.Int64N(int64(period)/10 + 1))
		select {
		case <-ctx.Done():
			return
		case <-time.After(period + jitter):
			c.Resync(keysOf(kinds.get(c.Generation().Controller.For)))
		}
	}
}

func keysOf(informer *cache.Informer) []object.Key {
	all := informer.List("", nil)
	keys := make([]object.Key, len(all))
	for i, o := range all {
		keys[i] = o.Key()
	}
	return keys
}
