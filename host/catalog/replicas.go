package catalog

import (
	"context"
	"fmt"
	"slices"
)

// Replicas shares what becomes of modules among the replicas of a host: what one of them has
// rolled back none of them runs, and what has run well may run again where its file is gone.
type Replicas interface {
	// Recorded returns what the replica that leads a plugin has recorded of its modules. The error
	// states why that is not known yet.
	Recorded(m *Module) (Record, error)
	// Reject records that a module is about to be rolled back. It blocks until the others
	// can read it, and not for long.
	Reject(m *Module, digest string)
	// Loaded is called with each module that was loaded, which [Replicas.Kept] may have to return.
	Loaded(m *Module)
	// Kept returns a module that has run as the last good one of a plugin, by its digest. A
	// [WaitError] is tried again.
	Kept(ctx context.Context, plugin, digest string) ([]byte, error)
}

// Record is what the replica that leads a plugin records of its modules for the others: digests.
type Record struct {
	// Running is "" for none. A replica that leads the plugin reads here the module that
	// it may try again.
	Running  string   `json:"running,omitempty"`
	Rejected []string `json:"rejected,omitempty"` // were rolled back, the newest one last
	Good     string   `json:"good,omitempty"`     // runs if a newer one cannot; "" if it is not known
}

// Reconsider makes a plugin look again what other replicas have rolled back. It does not block.
func (c *Catalog[G]) Reconsider(plugin string) {
	c.notify(plugin, func(*orders) {})
}

// Restart stops a plugin and starts its revision again: what is remembered of its objects
// is lost. It does not block.
func (c *Catalog[G]) Restart(plugin, reason string) {
	c.notify(plugin, func(o *orders) { o.restart = reason })
}

// byOther is why a module does not run that another replica has rolled back.
const byOther = "another replica has rolled it back"

// adoptRejections keeps what runs, and what is to run, from running if another replica has
// rolled it back. The error is a [WaitError] if that is not known and nothing runs.
func (s *supervisor[G]) adoptRejections(ctx context.Context, m *Module) error {
	if s.c.Replicas == nil {
		return nil
	}
	recorded, err := s.c.Replicas.Recorded(m)
	switch {
	case err != nil && s.current == nil:
		return &WaitError{Reason: err.Error()}
	case err != nil:
		return nil //nolint:nilerr // what runs may go on until it is known
	}
	if s.current != nil && slices.Contains(recorded.Rejected, s.current.Digest) {
		s.abandon(ctx, m)
	}
	switch {
	case m.Err != nil: // ensure reports it
	case slices.Contains(recorded.Rejected, m.Digest):
		if s.rejected == nil {
			s.rejected = &rejection{digest: m.Digest, reason: byOther}
		}
	case s.rejected != nil && recorded.Running == m.Digest: // it was tried again
		s.rejected = nil
	}
	return nil //nolint:nilerr // m.Err is for ensure to report
}

// abandon replaces the running revision by the fallback, or halts it if there is none.
func (s *supervisor[G]) abandon(ctx context.Context, m *Module) {
	digest := s.current.Digest
	if s.fallback != nil {
		s.rollBack(ctx, &probationFailure{revision: s.current.Number, reason: byOther, byOther: true}, m)
	}
	if s.current.hasDigest(digest) && ctx.Err() == nil {
		s.halt(byOther, nil)
	}
}

// suspend stops the running revision until [supervisor.resume] starts it again.
func (s *supervisor[G]) suspend(why string) {
	s.c.Logger.Info("starting the plugin again: "+why, "plugin", s.name)
	s.stopRunning()
	s.suspended = true
}

// resume starts the revision that was suspended, unless another one has been started
// since. The error states why that does not run; one that cannot run any more is given up.
func (s *supervisor[G]) resume(ctx context.Context) error {
	if s.running() == s.current || s.displaces { // then another one is about to start
		return nil
	}
	err := s.start(ctx, s.current)
	switch {
	case err == nil:
		s.loads++
	case ctx.Err() == nil && !temporary(err):
		s.halt("it cannot be started again", err)
	case s.rejected != nil:
		return fmt.Errorf("%w; revision %d cannot be started: %s", s.rejected, s.current.Number, err.Error())
	}
	return err
}

// running returns the revision that runs, nil for none.
func (s *supervisor[G]) running() *Revision[G] {
	if s.suspended {
		return nil
	}
	return s.current
}
