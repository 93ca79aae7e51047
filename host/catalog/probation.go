package catalog

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// A module with new code is on probation at first: the generation before is
// kept, and takes its place again if whoever runs it says that it does worse
// ([Catalog.RollBack]). A policy has no probation: who narrowed it meant it.

// verdict is that a generation on probation does worse than the one before.
type verdict struct {
	generation int
	reason     string
	told       bool // that it cannot be carried out yet
}

// rejection is a module that was rolled back.
type rejection struct {
	digest string
	reason string
	to     int // the generation that runs instead
}

// isNot says that m is another module; one that cannot be read may be the same.
func (r *rejection) isNot(m *Module) bool { return m.Err == nil && m.Digest != r.digest }

func (r *rejection) Error() string {
	return fmt.Sprintf("rolled back to generation %d: %s; it is tried again when the file changes, or on SIGHUP", r.to, r.reason)
}

// StepProbation is the step of the load at which a module is refused that was
// rolled back.
const StepProbation = "probation"

// LoadStep implements what labels the metric.
func (*rejection) LoadStep() string { return StepProbation }

// RollBack says that a generation on probation does worse than the one
// before. It is for whoever runs it, and returns at once.
func (c *Catalog) RollBack(plugin string, generation int, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[plugin]; s != nil {
		s.tell(func() (news bool) { return s.condemn(&verdict{generation: generation, reason: reason}) })
	}
}

// condemn takes a verdict, unless there is one on a newer generation: runs of
// an older one may end late. s.mu is held.
func (s *slot) condemn(v *verdict) bool {
	if s.lost != nil && s.lost.generation > v.generation {
		return false
	}
	s.lost = v
	return true
}

// acquit forgets a verdict that was dealt with.
func (s *slot) acquit(v *verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == v {
		s.lost = nil
	}
}

// Forgive has every module tried again that was refused or rolled back.
func (c *Catalog) Forgive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slots {
		s.tell(func() (news bool) { s.forgiven = true; return true })
	}
}

// proven is the last generation that is not on probation.
func (s *slot) proven() *Generation {
	if s.fallback != nil {
		return s.fallback
	}
	return s.current
}

// probationOf is until when code that follows what runs is on probation if it
// starts now.
func (s *slot) probationOf(digest string) time.Time {
	proven := s.proven()
	switch {
	case s.c.Probation < 0 || proven == nil || proven.is(digest):
		return time.Time{}
	case s.current.is(digest):
		return s.current.Probation
	default:
		return time.Now().Add(s.c.Probation)
	}
}

// retire keeps the generation that was replaced while the one that runs now
// is on probation, if it has none itself, and frees those that are not needed.
//
// A sound one takes the place of the fallback before its time is over.
func (s *slot) retire(before *Generation, sound bool) {
	switch {
	case s.current.Probation.IsZero():
		s.drop(before)
		s.drop(s.fallback)
		s.fallback = nil
	case s.fallback == nil:
		s.fallback = before
	case sound && !s.current.is(before.Digest):
		before.Probation = time.Time{}
		s.drop(s.fallback)
		s.fallback = before
	default:
		s.drop(before)
	}
}

// pass ends a probation whose time is over.
func (s *slot) pass() {
	if s.fallback == nil || time.Now().Before(s.current.Probation) {
		return
	}
	s.c.Logger.Debug("generation has passed its probation", "plugin", s.name, "generation", s.current.Number)
	s.current.Probation = time.Time{}
	s.drop(s.fallback)
	s.fallback = nil
}

// rollBack puts the generation before in the place of the one that runs,
// under the policy that is in force now. If that did not work, done says that
// trying again will not help either.
func (s *slot) rollBack(ctx context.Context, v *verdict) (done bool) {
	if s.fallback == nil || s.current.Number != v.generation {
		s.acquit(v)
		return true // it was replaced meanwhile, or has passed
	}
	logger := s.c.Logger.With("plugin", s.name, "generation", s.current.Number, "digest", s.current.Digest)
	g, err := s.underPolicy(ctx, s.fallback, s.current.Policy)
	if err == nil {
		err = s.start(ctx, g)
	}
	if err != nil {
		if g != s.fallback {
			s.free(g)
		}
		if ctx.Err() != nil {
			return false // the next round tries again, unless it brings another generation
		}
		if !v.told {
			v.told = true
			logger.Error("the new generation does worse than the one before, which cannot be started: it goes on", "reason", v.reason, "error", err)
		}
		if mayPass(err) {
			return false
		}
		s.acquit(v)
		return true
	}
	s.acquit(v)
	worse := s.current
	s.rejected = &rejection{digest: worse.Digest, reason: v.reason, to: g.Number}
	s.loads++
	s.rollbacks++
	logger.Error("rolled back to the generation before, the new one does worse", "to", g.Number, "reason", v.reason)
	s.c.Observer.PluginStarted(g)
	s.c.Observer.PluginRolledBack(worse, g, v.reason)
	if g != s.fallback {
		s.drop(s.fallback)
	}
	s.current, s.fallback = g, nil
	s.drop(worse)
	return true
}

// underPolicy is the code of a generation under a policy: itself if it is the
// same.
func (s *slot) underPolicy(ctx context.Context, g *Generation, policy []byte) (*Generation, error) {
	if bytes.Equal(g.Policy, policy) {
		return g, nil
	}
	m := &Module{Name: s.name, Digest: g.Digest, Policy: policy}
	guest, err := s.c.Loader.Reload(ctx, g.Guest, m)
	if err != nil {
		return nil, err
	}
	return s.generation(m, guest), nil
}
