package memory

import (
	"math/bits"
	"slices"
	"sync"
)

const (
	// minSpace is the smallest range that is reserved, in bytes. Addresses
	// cost nothing, and plugins of different limits can so use the same ranges.
	minSpace = 64 << 20
	// maxUnused is how many ranges are kept that are not in use.
	maxUnused = 16
	// keptResident is how many bytes of each of those keep their pages: to
	// fault in a page costs ten times as much as to clear one (RATIONALE.md).
	keptResident = 256 << 10
)

// spaces are ranges of addresses that no instance uses, all zero, for the next
// instance that needs a range of that size.
type spaces struct {
	mu     sync.Mutex
	unused []*addressSpace // the least recently used first
	closed bool
}

// get returns a range of at least size bytes, all zero.
func (s *spaces) get(size uint64) (*addressSpace, error) {
	size = max(minSpace, uint64(1)<<bits.Len64(size-1))
	if a := s.takeUnused(size); a != nil {
		return a, nil
	}
	return reserve(size)
}

func (s *spaces) takeUnused(size uint64) *addressSpace {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range slices.Backward(s.unused) {
		if a.size == size {
			s.unused = slices.Delete(s.unused, i, i+1)
			return a
		}
	}
	return nil
}

// put returns a range that is not in use any more.
func (s *spaces) put(a *addressSpace) {
	a.zero(0, a.committed, keptResident)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		a.release()
		return
	}
	if len(s.unused) == maxUnused {
		s.unused[0].release()
		s.unused = slices.Delete(s.unused, 0, 1)
	}
	s.unused = append(s.unused, a)
}

// close releases all unused ranges, and those that are put later.
func (s *spaces) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.unused {
		a.release()
	}
	s.unused, s.closed = nil, true
}
