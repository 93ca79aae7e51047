package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
)

// supervisor makes one plugin run as it is wanted. Its goroutine alone uses the
// revisions and the counters.
type supervisor[G Guest] struct {
	c       *Catalog[G]
	name    string
	changed chan struct{} // capacity 1: one of the next four fields has changed

	mu        sync.Mutex         // guards the next four fields
	wanted    *Module            // nil: the plugin is gone
	failed    *probationFailure  // of a revision on probation, until it was dealt with
	next      orders             // those of its fields that are for once
	interrupt context.CancelFunc // ends the attempt in progress

	current  *Revision[G] // is running, unless it is suspended
	pending  *Revision[G] // is loaded and not started yet
	fallback *Revision[G] // ran before current, which is on probation; never closed
	rejected *rejection   // the newest module was rolled back; nil: it was not
	refused  *refusal     // the newest module cannot be loaded; nil: it was not tried
	lost     *lostModule  // the last good module cannot be started; nil: it was not tried
	waits    time.Time    // since when the newest module waits, and nothing runs; zero: it does not
	// unusablePolicy is the last policy that was reported not to fit current.
	unusablePolicy *config.Policy

	number, loads, rollbacks int
	displaces                bool // the last start waits for other plugins to stop
	suspended                bool // current was stopped and is to be started again

	// Guarded by c.mu.
	status   Status // but its state
	facts    facts
	reported string // the digest of the module that the status was last reported for
}

func newSupervisor[G Guest](c *Catalog[G], name string) *supervisor[G] {
	s := &supervisor[G]{c: c, name: name, changed: make(chan struct{}, 1)}
	s.begin()
	return s
}

// setWanted replaces the module that is to run, nil for none, and ends an attempt
// to start another one. An attempt to start the same module continues: otherwise
// frequent changes of one plugin would keep a plugin that takes long to load from
// running.
func (s *supervisor[G]) setWanted(m *Module) {
	s.notify(func() (interrupt bool) {
		interrupt = m == nil || s.wanted == nil || !m.equal(s.wanted)
		s.wanted = m
		return interrupt
	})
}

// notify changes what the supervisor is to do, with s.mu held. interrupt states
// that the attempt in progress is outdated.
func (s *supervisor[G]) notify(change func() (interrupt bool)) {
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

// orders is what a supervisor is to do next.
type orders struct {
	module       *Module // nil: stop
	failed       *probationFailure
	retryRefused bool   // what was refused or rolled back is to be tried again
	restart      string // why what runs is to be started again; "" if it is not
}

// takeOrders returns the orders, and a context that is cancelled when they are
// outdated.
func (s *supervisor[G]) takeOrders(ctx context.Context) (orders, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt()
	}
	ctx, s.interrupt = context.WithCancel(ctx)
	o := s.next
	o.module, o.failed, s.next = s.wanted, s.failed, orders{}
	return o, ctx
}

// run follows the orders until the plugin is gone or ctx is done; then it stops
// the plugin.
func (s *supervisor[G]) run(ctx context.Context) {
	retry, probation := stoppedTimer(), stoppedTimer()
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
		s.yield()
		o, attempt := s.takeOrders(ctx)
		if o.module == nil {
			s.setDraining()
			s.stop(true)
			if s.end() {
				return
			}
			continue
		}
		if retryLater := s.follow(attempt, o); retryLater {
			retry.Reset(s.c.Retry)
		}
		switch {
		case s.displaces: // the retry comes first
		case s.fallback != nil:
			probation.Reset(time.Until(s.current.Probation))
		case s.current != nil && time.Now().Before(s.current.Proven):
			probation.Reset(time.Until(s.current.Proven))
		}
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(0)
	t.Stop()
	return t
}

// follow carries orders out. retryLater states that another attempt may help.
func (s *supervisor[G]) follow(ctx context.Context, o orders) (retryLater bool) {
	s.displaces = false
	defer s.endClaim()
	if o.retryRefused {
		s.rejected, s.refused, s.lost = nil, nil, nil // a rollback by these orders comes after that
	}
	if o.restart != "" && s.running() != nil {
		s.suspend(o.restart)
	}
	s.dropUnpinned(o.module)
	if o.failed != nil {
		retryLater = !s.rollBack(ctx, o.failed, o.module)
	}
	if s.displaces {
		return retryLater || s.suspended // to start other code would give up the claim, and the rollback would never get its turn
	}
	if s.rejected != nil && s.rejected.isOutdatedBy(o.module) {
		s.rejected = nil
	}
	if s.refused != nil && s.refused.isOutdatedBy(o.module) {
		s.refused = nil
	}
	s.endProbation()
	err := s.adoptRejections(ctx, o.module)
	if err == nil && s.suspended && s.current.Policy.Equal(o.module.Policy) {
		_ = s.resume(ctx) // to load another module may take long; it is tried again below
	}
	if err == nil {
		err = s.ensurePinned(ctx, o.module)
	}
	err = s.restore(ctx, o.module, err)
	retryLater = s.restrictAfter(ctx, o.module, err) || retryLater
	if failed := s.resume(ctx); failed != nil {
		err = failed
	}
	if ctx.Err() != nil {
		return false // these orders are outdated, and the next ones are pending
	}
	s.report(o.module, err)
	return retryLater || s.suspended || temporary(err) || restorable(err)
}

// ensure makes the module run: load it, start it, replace the running revision.
func (s *supervisor[G]) ensure(ctx context.Context, m *Module) error {
	if err := m.unusable(); err != nil {
		if m.Err == nil { // else it may be readable again soon
			s.dropPending()
		}
		return err
	}
	switch {
	case s.current.matches(m):
		s.dropPending()
		return nil
	case s.rejected != nil:
		s.dropPending()
		if err := s.restrict(ctx, m.Policy); err != nil {
			return err
		}
		return s.rejected
	}
	s.keepClaim(m.Digest)
	if err := s.load(ctx, m); err != nil {
		return err
	}
	if s.current == nil {
		s.pending.Proven = s.provenFrom(m)
	}
	return s.replace(ctx, s.pending)
}

// refusal is a module that cannot be loaded.
type refusal struct {
	module Module
	err    error
}

// isOutdatedBy reports whether m is another module. One that cannot be read now
// may be the same.
func (r *refusal) isOutdatedBy(m *Module) bool { return m.Err == nil && !m.equal(&r.module) }

// dropPending frees what was loaded and is no longer wanted.
func (s *supervisor[G]) dropPending() {
	s.free(s.pending)
	s.pending = nil
}

// load makes the module the pending revision, unless it is already. A module that
// was refused for good is not loaded again: orders come whenever any plugin
// changes, and to load it may take a minute.
func (s *supervisor[G]) load(ctx context.Context, m *Module) error {
	switch {
	case s.pending.matches(m):
		return nil
	case s.refused != nil:
		return s.refused.err
	}
	s.dropPending()
	guest, err := s.loadGuest(ctx, m)
	if err != nil {
		if ctx.Err() == nil && !temporary(err) {
			s.refused = &refusal{*m, err}
		}
		return err
	}
	s.pending = s.newRevision(m, guest)
	return nil
}

// loadGuest loads a module. Code that is loaded already only gets the policy.
func (s *supervisor[G]) loadGuest(ctx context.Context, m *Module) (G, error) {
	for _, r := range []*Revision[G]{s.current, s.fallback} {
		if r.hasDigest(m.Digest) {
			return s.c.Loader.WithPolicy(ctx, r.Guest, m)
		}
	}
	guest, err := s.c.Loader.Load(ctx, m)
	if err == nil && s.c.Replicas != nil {
		s.c.Replicas.Loaded(m)
	}
	return guest, err
}

// replace starts a revision in place of the running one. Its probation begins
// now, however long it has waited, and its number becomes the highest.
func (s *supervisor[G]) replace(ctx context.Context, r *Revision[G]) error {
	r.Probation = s.probationOf(r.Digest)
	if s.current.hasDigest(r.Digest) {
		r.Proven = s.current.Proven
	}
	if r.Number < s.number { // others were made while it waited
		s.number++
		r.Number = s.number
	}
	healthy := s.c.Runner.Healthy(s.name)
	if err := s.start(ctx, r); err != nil {
		return err
	}
	before := s.current
	s.current = r
	if s.pending == r {
		s.pending = nil
	}
	s.loads++
	s.retire(before, healthy)
	return nil
}

// start starts a revision unless it conflicts with another plugin. What the
// running revision writes stays reserved for the plugin until it is replaced, and
// so does what the revision writes while it waits for other plugins to stop.
func (s *supervisor[G]) start(ctx context.Context, r *Revision[G]) error {
	s.c.compareRights(ctx, r)
	s.c.mu.Lock()
	err := s.c.overruled(r)
	s.c.mu.Unlock()
	if err == nil {
		err = s.c.Runner.Start(ctx, r, func() error { return s.c.claim(r) })
	}
	_, s.displaces = errors.AsType[*displacementError](err)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err == nil {
		delete(s.c.starting, s.name)
		s.c.running[s.name] = r
		s.suspended = false
	}
	return err
}

// restrict puts the running revision under a policy, which pins it.
func (s *supervisor[G]) restrict(ctx context.Context, policy config.Policy) error {
	if s.current == nil || s.current.Policy.Equal(policy) {
		return nil
	}
	r, err := s.withPolicy(ctx, s.current, policy)
	if err != nil {
		return err
	}
	if err := s.replace(ctx, r); err != nil {
		s.free(r)
		if wait, ok := errors.AsType[*WaitError](err); ok && wait.Denied {
			s.halt(byPolicy, err)
		}
		return err
	}
	return nil
}

// restrictAfter puts the running revision under the policy of a module that did
// not start because of err: what an administrator takes away is gone, whatever
// the state of the code beside it. retryLater states that another attempt may
// help.
func (s *supervisor[G]) restrictAfter(ctx context.Context, m *Module, err error) (retryLater bool) {
	if err == nil {
		s.unusablePolicy = nil
	}
	restricted := s.rejected != nil && m.unusable() == nil // by ensure
	if err == nil || m.PolicyUnknown || restricted || stepOf(err) == stepPolicy || ctx.Err() != nil {
		return false
	}
	err = s.restrict(ctx, m.Policy)
	switch {
	case err == nil:
	case temporary(err):
		return true
	case ctx.Err() == nil && (s.unusablePolicy == nil || !s.unusablePolicy.Equal(m.Policy)): // report it once
		s.unusablePolicy = &m.Policy
		s.c.Logger.Error("the policy does not fit the running revision, which keeps running under the previous policy", "plugin", s.name, "error", err)
	}
	return false
}

// drop closes a revision, nil for none, once its calls in progress have ended.
// Only [Catalog.Wait] waits for that: they may take as long as the policy of the
// plugin allows.
func (s *supervisor[G]) drop(r *Revision[G]) {
	if r != nil {
		s.c.wg.Go(func() { s.free(r) })
	}
}

// free closes a revision, nil for none.
func (s *supervisor[G]) free(r *Revision[G]) {
	if r == nil {
		return
	}
	s.c.Runner.Discard(r)
	if err := r.Guest.Close(context.Background()); err != nil {
		s.c.Logger.Warn("close revision", "plugin", s.name, "revision", r.Number, "error", err)
	}
}

// stop ends the plugin.
func (s *supervisor[G]) stop(removed bool) {
	s.mu.Lock()
	if s.interrupt != nil {
		s.interrupt()
	}
	s.failed = nil
	s.mu.Unlock()
	ran := s.running() != nil
	if ran {
		s.c.Runner.Stop(s.name, removed)
	}
	s.c.mu.Lock()
	s.c.stopped(s.name)
	s.c.mu.Unlock()
	s.c.Events.Observe(events.PluginStopped{Plugin: s.name, Removed: removed, Ran: ran})
	for _, r := range []*Revision[G]{s.pending, s.fallback, s.current} {
		s.free(r)
	}
	s.pending, s.fallback, s.current, s.suspended = nil, nil, nil, false
	s.rejected, s.refused, s.lost, s.unusablePolicy = nil, nil, nil, nil
}

// byPolicy is why a plugin is halted that may not run.
const byPolicy = "its policy does not allow it any more"

// halt stops the running revision, which must not run any more. What the
// directory holds runs when it may, also if it was rolled back: what it was rolled back to
// is gone.
func (s *supervisor[G]) halt(why string, err error) {
	s.c.Logger.Warn("stopping the plugin: "+why, "plugin", s.name, "error", err)
	if s.running() != nil {
		s.stopRunning()
	}
	s.drop(s.fallback)
	s.drop(s.current)
	s.fallback, s.current, s.rejected, s.suspended = nil, nil, nil, false
}

// stopRunning stops the running revision, and keeps it.
func (s *supervisor[G]) stopRunning() {
	s.c.Runner.Stop(s.name, false)
	s.c.mu.Lock()
	s.c.stopped(s.name)
	s.c.mu.Unlock()
	s.c.Events.Observe(events.PluginStopped{Plugin: s.name, Ran: true})
}

// end removes the supervisor of a plugin that is gone from the catalog. If the
// plugin has come back meanwhile it returns false, and the supervisor continues
// as a new one.
func (s *supervisor[G]) end() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted == nil {
		delete(s.c.supervisors, s.name)
		delete(s.c.lackedRight, s.name)
		return true
	}
	s.number, s.loads, s.rollbacks = 0, 0, 0
	s.begin()
	return false
}
