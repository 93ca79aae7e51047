package catalog

import (
	"context"
	"sync"
	"time"
)

// slot is one plugin's place in the catalog. Its goroutine alone touches the
// generations and what is counted of them.
type slot struct {
	c       *Catalog
	name    string
	changed chan struct{} // capacity 1: something below is new

	mu        sync.Mutex         // guards the next four
	wanted    *Module            // nil: the plugin is gone
	lost      *verdict           // on a generation on probation; kept until it is dealt with
	forgiven  bool               // what was rejected may be tried again
	interrupt context.CancelFunc // ends the attempt under way

	current  *Generation // runs
	pending  *Generation // is loaded and not started yet
	fallback *Generation // ran before, while current is on probation
	rejected *rejection  // of the newest module; nil: none
	refused  *refusal    // of the newest module; nil: none
	unfit    []byte      // the policy that was told not to fit what runs; nil: none

	number, loads, rollbacks int

	// Guarded by c.mu.
	status Status
	told   string // the digest of the module that the status was told of
}

func newSlot(c *Catalog, name string) *slot {
	return &slot{c: c, name: name, changed: make(chan struct{}, 1), status: loading(name)}
}

func loading(name string) Status {
	return Status{Name: name, State: Loading, Controllers: []string{}, Since: time.Now()}
}

// want replaces the module that the slot is to run and ends an attempt to
// start another one. An attempt at the same module goes on: else a stream of
// changes to one plugin would keep those that take long to load from running.
func (s *slot) want(m *Module) {
	s.tell(func() (news bool) {
		news = m == nil || s.wanted == nil || !m.equal(s.wanted)
		s.wanted = m
		return news
	})
}

// tell changes what the slot is to do; news says that an attempt under way is
// not what is wanted any more.
func (s *slot) tell(change func() (news bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change() && s.interrupt != nil {
		s.interrupt()
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// order is what the slot is to do next.
type order struct {
	module   *Module // nil: stop
	lost     *verdict
	forgiven bool
}

// take returns what is to be done and a context that ends when it changes.
func (s *slot) take(ctx context.Context) (order, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt()
	}
	ctx, s.interrupt = context.WithCancel(ctx)
	o := order{s.wanted, s.lost, s.forgiven}
	s.forgiven = false
	return o, ctx
}

// run follows what is wanted until the plugin is gone or ctx is done; then it
// stops what runs.
func (s *slot) run(ctx context.Context) {
	retry, probation := stopped(), stopped()
	defer retry.Stop()
	defer probation.Stop()
	for {
		select {
		case <-ctx.Done():
			s.stop(false)
			return
		case <-s.changed:
		case <-retry.C:
		case <-probation.C:
		}
		next, attempt := s.take(ctx)
		if next.module == nil {
			s.drain()
			s.stop(true)
			if s.end() {
				return
			}
			continue
		}
		if again := s.follow(attempt, next); again {
			retry.Reset(s.c.Retry)
		}
		if s.fallback != nil {
			probation.Reset(time.Until(s.current.Probation))
		}
	}
}

func stopped() *time.Timer {
	t := time.NewTimer(0)
	t.Stop()
	return t
}

// follow does what is to be done; again says that trying later may help.
func (s *slot) follow(ctx context.Context, o order) (again bool) {
	if o.forgiven {
		s.rejected, s.refused = nil, nil // and not what is rolled back only now
	}
	if o.lost != nil {
		again = !s.rollBack(ctx, o.lost)
	}
	if s.rejected != nil && s.rejected.isNot(o.module) {
		s.rejected = nil
	}
	if s.refused != nil && s.refused.isNot(o.module) {
		s.refused = nil
	}
	s.pass()
	err := s.bring(ctx, o.module)
	again = s.alsoRestrict(ctx, o.module, err) || again
	if ctx.Err() != nil {
		return false // superseded: the next round is pending
	}
	s.report(o.module, err)
	return again || mayPass(err)
}

// bring gets the module to run: load, verify, start, swap, drain.
func (s *slot) bring(ctx context.Context, m *Module) error {
	switch {
	case m.Err != nil:
		return &failure{"read", m.Err}
	case m.same(s.current):
		s.discard()
		return nil
	case s.rejected != nil:
		s.discard()
		if err := s.restrict(ctx, m); err != nil {
			return err
		}
		return s.rejected
	}
	if err := s.load(ctx, m); err != nil {
		return err
	}
	return s.replace(ctx, s.pending)
}

// refusal is a module that was loaded in vain.
type refusal struct {
	module Module
	err    error
}

// isNot says that m is another module; one that cannot be read may be the same.
func (r *refusal) isNot(m *Module) bool { return m.Err == nil && !m.equal(&r.module) }

// discard frees what was loaded and is not wanted any more.
func (s *slot) discard() {
	s.free(s.pending)
	s.pending = nil
}

// load makes the module the pending generation, unless it is that already. One
// that is refused for good is not loaded again: the slot looks at it whenever
// another plugin changes, and to load it may take a minute.
func (s *slot) load(ctx context.Context, m *Module) error {
	switch {
	case m.same(s.pending):
		return nil
	case s.refused != nil:
		return s.refused.err
	}
	s.discard()
	guest, err := s.guest(ctx, m)
	if err != nil {
		if ctx.Err() == nil && !mayPass(err) {
			s.refused = &refusal{*m, err}
		}
		return err
	}
	s.pending = s.generation(m, guest)
	return nil
}

// guest loads a module, or takes the code that is there under its policy.
func (s *slot) guest(ctx context.Context, m *Module) (Guest, error) {
	for _, g := range []*Generation{s.current, s.fallback} {
		if g.is(m.Digest) {
			return s.c.Loader.Reload(ctx, g.Guest, m)
		}
	}
	return s.c.Loader.Load(ctx, m)
}

func (s *slot) generation(m *Module, guest Guest) *Generation {
	s.number++
	return &Generation{
		Plugin: s.name, Digest: m.Digest, Policy: m.Policy, Number: s.number, Manifest: guest.Manifest(), Guest: guest,
	}
}

// replace starts a generation in the place of what runs. Its probation begins
// now, however long it has waited, and its number is the highest.
func (s *slot) replace(ctx context.Context, g *Generation) error {
	g.Probation = s.probationOf(g.Digest)
	if g.Number < s.number { // others were made while it waited
		s.number++
		g.Number = s.number
	}
	sound := s.c.Runner.Sound(s.name)
	if err := s.start(ctx, g); err != nil {
		return err
	}
	before := s.current
	s.current = g
	if s.pending == g {
		s.pending = nil
	}
	s.loads++
	s.c.Observer.PluginStarted(g)
	s.retire(before, sound)
	return nil
}

// start claims what the generation's controllers write and starts it. What the
// one before claimed stays claimed until it is replaced.
func (s *slot) start(ctx context.Context, g *Generation) error {
	s.c.mu.Lock()
	err := overlap(g, s.c.others(s.name))
	if err == nil {
		s.c.starting[s.name] = g // so that no other plugin starts with the same
	}
	s.c.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.c.Runner.Start(ctx, g)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	delete(s.c.starting, s.name)
	if err == nil {
		s.c.running[s.name] = g
	}
	return err
}

// drop frees a generation that is given up once its calls in flight have
// ended. Nobody waits for them but the end of the catalog: they may take as
// long as the plugin's policy lets them.
func (s *slot) drop(g *Generation) {
	if g != nil {
		s.c.wg.Go(func() { s.free(g) })
	}
}

// free frees a generation, nil for none, that has no call in flight.
func (s *slot) free(g *Generation) {
	if g == nil {
		return
	}
	if err := g.Guest.Close(context.Background()); err != nil {
		s.c.Logger.Warn("close generation", "plugin", s.name, "generation", g.Number, "error", err)
	}
}

// drain shows that the plugin's last runs end.
func (s *slot) drain() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.status.State, s.status.Since = Draining, time.Now()
}

// stop ends what runs.
func (s *slot) stop(removed bool) {
	s.mu.Lock()
	if s.interrupt != nil {
		s.interrupt()
	}
	s.lost = nil
	s.mu.Unlock()
	if s.current != nil {
		s.c.Runner.Stop(s.name, removed)
		s.c.Logger.Info("plugin stopped", "plugin", s.name)
	}
	s.c.mu.Lock()
	delete(s.c.running, s.name)
	s.c.mu.Unlock()
	s.c.Observer.PluginStopped(s.name)
	for _, g := range []*Generation{s.pending, s.fallback, s.current} {
		s.free(g)
	}
	s.pending, s.fallback, s.current = nil, nil, nil
	s.rejected, s.refused, s.unfit = nil, nil, nil
}

// end takes the slot of a plugin that is gone out of the catalog, unless the
// plugin has come back meanwhile: then the slot begins anew.
func (s *slot) end() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted == nil {
		delete(s.c.slots, s.name)
		return true
	}
	s.number, s.loads, s.rollbacks = 0, 0, 0
	s.status, s.told = loading(s.name), ""
	return false
}
