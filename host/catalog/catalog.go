package catalog

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/events"
)

// Config configures a [Catalog].
type Config[G Guest] struct {
	Loader    Loader[G]
	Runner    Runner[G]
	Events    events.Observer
	Replicas  Replicas // nil: there is one
	Logger    hclog.Logger
	Retry     time.Duration // between attempts to start a revision that waits; default 1 s
	Probation time.Duration // of new code; 0: none, nothing is rolled back
}

// Catalog holds the running revision of every plugin. G is the type of a loaded
// module. It is safe for concurrent use.
type Catalog[G Guest] struct {
	Config[G]

	// mu may be held while the mu of a supervisor is taken, not vice versa.
	mu          sync.Mutex
	supervisors map[string]*supervisor[G]
	running     map[string]*Revision[G]
	starting    map[string]*Revision[G] // when what they displace has stopped
	lackedRight map[string]string       // what [Runner.LackedRight] has returned last, by plugin; only of those that write the same as another one
	updated     bool                    // Update was called
	wg          sync.WaitGroup          // supervisors, and revisions being closed
}

// New returns an empty catalog.
func New[G Guest](config Config[G]) *Catalog[G] {
	config.Retry = cmp.Or(config.Retry, time.Second)
	return &Catalog[G]{
		Config: config, supervisors: map[string]*supervisor[G]{},
		running: map[string]*Revision[G]{}, starting: map[string]*Revision[G]{}, lackedRight: map[string]string{},
	}
}

// Update sets which plugins there are: those that are not in modules are stopped,
// new and changed ones are loaded. It does not block. ctx ends the supervisors of
// the plugins; [Catalog.Wait] waits for them.
func (c *Catalog[G]) Update(ctx context.Context, modules []Module) {
	c.mu.Lock()
	defer c.mu.Unlock()
	present := map[string]bool{}
	for _, m := range modules {
		present[m.Name] = true
		s := c.supervisors[m.Name]
		if s == nil {
			s = newSupervisor(c, m.Name)
			c.supervisors[m.Name] = s
			c.wg.Go(func() { s.run(ctx) })
		}
		s.setWanted(&m)
	}
	for name, s := range c.supervisors {
		if !present[name] {
			s.setWanted(nil)
		}
	}
	c.updated = true
}

// RetryRefused tries every module again that was refused or rolled back.
func (c *Catalog[G]) RetryRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.supervisors {
		s.notify(func() (interrupt bool) { s.next.retryRefused = true; return true })
	}
}

// notify changes the next orders of a plugin, if there is one of that name.
func (c *Catalog[G]) notify(plugin string, change func(*orders)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.supervisors[plugin]; s != nil {
		s.notify(func() (interrupt bool) { change(&s.next); return true })
	}
}

// RollBack reports that a revision on probation fails for more objects than the
// one before it, which is to run again. It does not block. A revision that is no
// longer running is ignored.
func (c *Catalog[G]) RollBack(plugin string, revision int, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.supervisors[plugin]; s != nil {
		s.notify(func() (interrupt bool) { return s.reject(&probationFailure{revision: revision, reason: reason}) })
	}
}

// Wait blocks until every supervisor has ended, which the context of Update
// causes: all controllers are stopped and all guests closed.
func (c *Catalog[G]) Wait() { c.wg.Wait() }

// Updated reports whether Update was called.
func (c *Catalog[G]) Updated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.updated
}

// Running returns the revisions that are running.
func (c *Catalog[G]) Running() []*Revision[G] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.running))
}

// Statuses returns the status of every plugin, ordered by name.
func (c *Catalog[G]) Statuses() []Status {
	c.mu.Lock()
	all, known := make([]Status, 0, len(c.supervisors)), make(map[string]facts, len(c.supervisors))
	for name, s := range c.supervisors {
		all, known[name] = append(all, s.status), s.facts
	}
	c.mu.Unlock()
	for i := range all {
		all[i].State = c.stateOf(all[i].Name, known[all[i].Name])
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Status returns the status of a plugin; known is false if there is none of that name.
func (c *Catalog[G]) Status(plugin string) (status Status, known bool) {
	c.mu.Lock()
	s := c.supervisors[plugin]
	if s == nil {
		c.mu.Unlock()
		return Status{}, false
	}
	status, facts := s.status, s.facts
	c.mu.Unlock()
	status.State = c.stateOf(plugin, facts)
	return status, true
}

// stateOf returns the state of a plugin. The runner is asked without a lock.
func (c *Catalog[G]) stateOf(plugin string, f facts) State {
	if f.runs {
		f.Impairments = c.Runner.Impairments(plugin)
	}
	return f.state()
}
