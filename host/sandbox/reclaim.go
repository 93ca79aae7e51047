package sandbox

import (
	"context"
	"time"

	"github.com/thole-dev/thole/host/sandbox/memory"
)

// MemoryStats are the numbers of the memory that guests share.
type MemoryStats = memory.Stats

// Memory reads the numbers.
func (s *Sandbox) Memory() MemoryStats { return s.memory.Stats() }

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
