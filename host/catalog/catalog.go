package catalog

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config is what a [Catalog] needs.
type Config struct {
	Loader    Loader
	Runner    Runner
	Observer  Observer
	Logger    hclog.Logger
	Retry     time.Duration // between attempts of a generation that waits; default 1 s
	Probation time.Duration // of a generation with new code; default [DefaultProbation], [NoProbation] for none
}

// DefaultProbation is long enough for every object to have run and, if that
// failed, to have run again.
const DefaultProbation = 10 * time.Minute

// NoProbation lets new code stay whatever it does: nothing is rolled back.
const NoProbation time.Duration = -1

// Catalog holds the running generation of every plugin.
type Catalog struct {
	Config

	mu       sync.Mutex
	slots    map[string]*slot
	running  map[string]*Generation
	starting map[string]*Generation // beside or before what runs
	filled   bool                   // the first snapshot has been taken over
	wg       sync.WaitGroup
}

// New returns an empty catalog.
func New(c Config) *Catalog {
	if c.Retry == 0 {
		c.Retry = time.Second
	}
	if c.Probation == 0 {
		c.Probation = DefaultProbation
	}
	return &Catalog{Config: c, slots: map[string]*slot{}, running: map[string]*Generation{}, starting: map[string]*Generation{}}
}

// Update takes over what a source has now: plugins that are not in modules
// are stopped, new and changed ones are loaded. It returns at once. ctx ends
// the goroutines of the plugins; [Catalog.Wait] waits for them.
func (c *Catalog) Update(ctx context.Context, modules []Module) {
	c.mu.Lock()
	defer c.mu.Unlock()
	present := map[string]bool{}
	for _, m := range modules {
		present[m.Name] = true
		s := c.slots[m.Name]
		if s == nil {
			s = newSlot(c, m.Name)
			c.slots[m.Name] = s
			c.wg.Go(func() { s.run(ctx) })
		}
		s.want(&m)
	}
	for name, s := range c.slots {
		if !present[name] {
			s.want(nil)
		}
	}
	c.filled = true
}

// Wait returns when every plugin's goroutine has ended: its controllers are
// stopped and its guest is closed.
func (c *Catalog) Wait() { c.wg.Wait() }

// Filled says whether a first snapshot was taken over.
func (c *Catalog) Filled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.filled
}

// Settled says whether a first snapshot was taken over and every plugin of it
// runs, waits or has failed.
func (c *Catalog) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.filled && !slices.ContainsFunc(c.statuses(), func(s Status) bool { return s.State == Loading })
}

// Running returns the generations that run.
func (c *Catalog) Running() []*Generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.running))
}

// Statuses describes every plugin, ordered by name.
func (c *Catalog) Statuses() []Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statuses()
}

func (c *Catalog) statuses() []Status {
	all := make([]Status, 0, len(c.slots))
	for _, s := range c.slots {
		all = append(all, s.status)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// others returns the generations of other plugins that run or are just being
// started. c.mu is held.
func (c *Catalog) others(plugin string) []*Generation {
	var out []*Generation
	for _, claims := range []map[string]*Generation{c.running, c.starting} {
		for name, g := range claims {
			if name != plugin {
				out = append(out, g)
			}
		}
	}
	return out
}
