package catalog

import (
	"context"
	"errors"
	"sync"
	"time"
)

// slot is one plugin's place in the catalog. Its goroutine alone touches
// current, pending and number.
type slot struct {
	c       *Catalog
	name    string
	changed chan struct{} // capacity 1: wanted is new

	mu        sync.Mutex         // guards wanted and interrupt
	wanted    *Module            // nil: the plugin is gone
	interrupt context.CancelFunc // ends the attempt under way

	current *Generation // runs
	pending *Generation // is loaded and not started yet
	number  int         // of the newest generation

	// Guarded by c.mu.
	status Status
	told   string // the digest of the module that the status was told of
}

func newSlot(c *Catalog, name string) *slot {
	return &slot{
		c: c, name: name, changed: make(chan struct{}, 1),
		status: Status{Name: name, State: Loading, Controllers: []string{}, Since: time.Now()},
	}
}

// want replaces the module that the slot is to run and ends an attempt to
// start another one.
func (s *slot) want(m *Module) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = m
	if s.interrupt != nil {
		s.interrupt()
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// take returns the wanted module and a context that ends when it changes.
func (s *slot) take(ctx context.Context) (*Module, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt()
	}
	ctx, s.interrupt = context.WithCancel(ctx)
	return s.wanted, ctx
}

// run follows what is wanted until the plugin is gone or ctx is done; then it
// stops what runs.
func (s *slot) run(ctx context.Context) {
	removed := false
	defer func() { s.stop(removed) }()
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-retry.C:
		}
		module, attempt := s.take(ctx)
		if module == nil {
			removed = true
			return
		}
		err := s.bring(attempt, module)
		if attempt.Err() != nil {
			continue // superseded: the next round is pending
		}
		s.report(module, err)
		if mayPass(err) {
			retry.Reset(s.c.Retry)
		}
	}
}

// bring gets the module to run: load, verify, start, swap, drain.
func (s *slot) bring(ctx context.Context, m *Module) error {
	if m.Err != nil {
		return &failure{"read", m.Err}
	}
	if m.same(s.current) {
		s.drop(s.pending)
		s.pending = nil
		return nil
	}
	if err := s.load(ctx, m); err != nil {
		return err
	}
	if err := s.start(ctx, s.pending); err != nil {
		return err
	}
	before := s.current
	s.current, s.pending = s.pending, nil
	s.c.Metrics.PluginStarted(s.name, s.current.Manifest.Version, m.Digest)
	s.drop(before)
	return nil
}

// load makes the module the pending generation, unless it is that already.
func (s *slot) load(ctx context.Context, m *Module) error {
	if m.same(s.pending) {
		return nil
	}
	s.drop(s.pending)
	s.pending = nil
	guest, err := s.c.Loader.Load(ctx, m)
	if err != nil {
		return err
	}
	s.number++
	s.pending = &Generation{Plugin: s.name, Digest: m.Digest, Policy: m.Policy, Number: s.number, Manifest: guest.Manifest(), Guest: guest}
	return nil
}

// start claims what the generation's controllers write and starts it.
func (s *slot) start(ctx context.Context, g *Generation) error {
	s.c.mu.Lock()
	err := overlap(g, s.c.others(s.name))
	if err == nil {
		s.c.running[s.name] = g // a claim, so that no other plugin starts with the same
	}
	s.c.mu.Unlock()
	if err == nil {
		err = s.c.Runner.Start(ctx, g)
	}
	if err != nil {
		s.unclaim(g)
	}
	return err
}

// unclaim gives back what g claimed, in favour of what runs.
func (s *slot) unclaim(g *Generation) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.running[s.name] != g {
		return
	}
	if s.current == nil {
		delete(s.c.running, s.name)
		return
	}
	s.c.running[s.name] = s.current
}

// drop frees a generation that no longer runs.
func (s *slot) drop(g *Generation) {
	if g == nil {
		return
	}
	if err := g.Guest.Close(context.Background()); err != nil {
		s.c.Logger.Warn("close generation", "plugin", s.name, "generation", g.Number, "error", err)
	}
}

// stop ends what runs.
func (s *slot) stop(removed bool) {
	s.mu.Lock()
	if s.interrupt != nil {
		s.interrupt()
	}
	s.mu.Unlock()
	if s.current != nil {
		s.c.Runner.Stop(s.name, removed)
		s.c.Logger.Info("plugin stopped", "plugin", s.name)
	}
	s.c.mu.Lock()
	delete(s.c.running, s.name)
	s.c.mu.Unlock()
	s.c.Metrics.PluginStopped(s.name)
	s.drop(s.pending)
	s.drop(s.current)
}

// report tells the log, the metrics and the status how an attempt ended.
func (s *slot) report(m *Module, err error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	before := s.status
	s.status = s.describe(err)
	same := before.State == s.status.State && before.LastError == s.status.LastError && before.Generation == s.status.Generation
	if same {
		s.status.Since = before.Since
	}
	if same && s.told == m.Digest {
		return // a wait that goes on is told once
	}
	s.told = m.Digest
	s.tell(m, err)
}

func (s *slot) tell(m *Module, err error) {
	logger := s.c.Logger.With("plugin", s.name, "digest", m.Digest)
	var wait *WaitError
	switch waits := errors.As(err, &wait); {
	case err == nil:
		logger.Info("plugin runs", "generation", s.current.Number, "version", s.status.Version, "controllers", s.status.Controllers)
		return
	case waits && s.current != nil:
		logger.Warn("new generation waits, the last good one goes on", "running", s.current.Digest, "reason", err.Error())
		return
	case waits:
		logger.Warn("plugin waits", "reason", err.Error())
		return
	case s.current != nil:
		logger.Error("new generation refused, the last good one goes on", "step", step(err), "running", s.current.Digest, "error", err)
	default:
		logger.Error("plugin cannot run", "step", step(err), "error", err)
	}
	s.c.Metrics.PluginFailed(s.name, step(err))
}

func (s *slot) describe(err error) Status {
	out := Status{Name: s.name, State: Failed, Controllers: []string{}, Since: time.Now()}
	if s.current != nil {
		out.State = Running
		out.Digest = s.current.Digest
		out.Version = s.current.Manifest.Version
		out.Generation = s.current.Number
		for _, c := range s.current.Manifest.Controllers {
			out.Controllers = append(out.Controllers, c.Name)
		}
	}
	if err == nil {
		return out
	}
	out.LastError, out.RejectedFor = err.Error(), step(err)
	var wait *WaitError
	if errors.As(err, &wait) && s.current == nil {
		out.State = Waiting
	}
	return out
}
