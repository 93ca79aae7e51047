package sandbox

import (
	"context"
	"time"
)

// dropIdle closes the instance of all guests that has been idle longest, and
// tells whether there was one.
func (s *Sandbox) dropIdle() bool {
	for {
		p := s.idlest()
		if p == nil {
			return false
		}
		// Another call may have taken it meanwhile: look again.
		if in := p.takeOldest(); in != nil {
			in.close(context.Background())
			return true
		}
	}
}

// idlest is the pool with the instance that has been idle longest; nil if no
// instance is idle.
func (s *Sandbox) idlest() (found *pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var since time.Time
	for g := range s.guests {
		if at, ok := g.pool.idleSince(); ok && (found == nil || at.Before(since)) {
			found, since = g.pool, at
		}
	}
	return found
}

// idleSince is when the oldest free instance ended its last call.
func (p *pool) idleSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return time.Time{}, false
	}
	return p.free[0].used, true
}

// takeOldest takes the instance out that has been free longest, or nil.
func (p *pool) takeOldest() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	in := p.free[0]
	p.free = append([]*instance(nil), p.free[1:]...)
	return in
}
