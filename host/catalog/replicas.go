package catalog

import (
	"context"
)

// Replicas is what the replicas of a host tell one another about modules: what one of them
// has rolled back none of them runs.
type Replicas interface {
	// Rejected returns the digest of the module that was rolled back, "" if none was. The
	// error states why that is not known yet.
	Rejected(m *Module) (digest string, err error)
	// Reject makes known that a module is about to be rolled back. It blocks until the others
	// can know it, and not for long.
	Reject(m *Module, digest string)
}

// Reconsider makes a plugin look again what other replicas have rolled back. It does not block.
func (c *Catalog[G]) Reconsider(plugin string) {
	c.notify(plugin, func(*orders) {})
}

// Restart stops a plugin, and starts it as if the host had been started now: what is
// remembered of its objects is lost. It does not block.
func (c *Catalog[G]) Restart(plugin, reason string) {
	c.notify(plugin, func(o *orders) { o.restart = reason })
}

// adoptRejection keeps a module from running that another replica has rolled back. The
// error is a [WaitError] if that is not known and nothing runs.
func (s *supervisor[G]) adoptRejection(ctx context.Context, m *Module) error {
	if s.c.Replicas == nil || m.Err != nil {
		return nil
	}
	digest, err := s.c.Replicas.Rejected(m)
	switch {
	case err != nil && s.current == nil:
		return &WaitError{Reason: err.Error()}
	case err != nil:
		return nil
	case s.rejected != nil && s.rejected.byOther && s.rejected.digest != digest:
		s.rejected = nil
		return nil
	case digest != m.Digest, s.rejected != nil:
		return nil
	}
	if s.current.hasDigest(digest) && s.fallback != nil && !s.current.Probation.IsZero() {
		s.rollBack(ctx, &probationFailure{revision: s.current.Number, reason: byOther, byOther: true}, m)
	}
	if s.current.hasDigest(digest) && ctx.Err() == nil {
		s.halt("another replica has rolled it back", nil)
	}
	if s.rejected == nil && !s.current.hasDigest(digest) {
		s.rejected = &rejection{digest: digest, reason: byOther}
	}
	if s.rejected != nil {
		s.rejected.byOther = true
	}
	return nil
}

const byOther = "another replica has rolled it back"
